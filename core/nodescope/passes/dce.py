"""Dead code elimination: removes nodes that no result needs.

Invariant: nodes with side effects stay, together with everything that they wait for.
"""

from __future__ import annotations

from nodescope.passes import graph_pass
from nodescope.passes.draft import Draft


@graph_pass("dce", stage=10, help="remove nodes that no result needs", again=True)
def eliminate_dead(draft: Draft) -> None:
    """Remove pure nodes whose values are neither used nor returned, from the end on."""
    for node in reversed(list(draft)):
        if any(map(draft.is_used, node.outputs)):
            continue
        if (draft.is_pure(node) or node.op == "constant") and not draft.waiting(node.id):
            draft.rewrite("unused", "eliminated", [node])
