"""Dead code: what nobody needs is not computed.

Invariant: what has an effect stays, with everything it waits for.
"""

from __future__ import annotations

from nodescope.passes import graph_pass
from nodescope.passes.draft import Draft


@graph_pass("dce", stage=10, help="leave out what no result needs", again=True)
def eliminate_dead(draft: Draft) -> None:
    """Remove pure nodes whose values are neither used nor given out, from the end on."""
    for node in reversed(list(draft)):
        if any(map(draft.is_used, node.outputs)):
            continue
        if (draft.is_pure(node) or node.op == "constant") and not draft.waiting(node.id):
            draft.rewrite("unused", "eliminated", [node])
