"""An optimizer that is created anew for each update, so that its state is lost.

If an optimizer is created for a task of several updates, its state is used, and nothing is
reported.
"""

from __future__ import annotations

from collections.abc import Sequence

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Finding, Look, Rule, Settings, count, needs_steps, percent
from nodescope.ir.graph import Node

_OPTIMIZER = "optimizer/"


def _begin(settings: Settings) -> Look:
    least, share = settings["num_steps"], settings["share"] / 100
    fresh: dict[str, int] = {}  # by name of a state: how often it was all zero after an update
    updates: dict[str, int] = {}  # by name of a state: how often something nonzero was written
    written: set[str] = set()

    def look(sight: Sight) -> Finding | None:
        node, summary = sight.node, sight.summary
        zero = summary.zero_count == sight.size > 0
        if not node.is_leaf:
            held = sight.graph.maker(sight.graph.held_in(sight.value))
            if held is not None and not zero:
                updates[held.name] = updates.get(held.name, 0) + 1
                written.add(held.name)
            raise Inapplicable("no optimizer has state")
        name = node.name
        if name in written:
            fresh[name] = fresh.get(name, 0) + zero
            written.discard(name)
        if fresh.get(name, 0) < least:
            raise needs_steps(least, fresh.get(name, 0))
        if fresh[name] < share * updates[name]:
            return None
        return Finding(
            f"it was reset to zero after {fresh[name]} of {updates[name]} updates: the optimizer "
            "is created in every step and loses its state; create it once, before the loop",
            {"times": fresh[name]},
        )

    return look


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    """Whether a node is an optimizer's state, or writes to it."""
    if not node.scope.startswith(_OPTIMIZER) and not node.name.startswith(_OPTIMIZER):
        return False
    return bool(node.writes) or (node.role == "parameter" and node.is_leaf)


def _suits(nodes: Sequence[Node]) -> str:
    for node in nodes:
        if node.role == "parameter" and node.name.startswith(_OPTIMIZER):
            return f"its optimizer keeps {node.name} from step to step"
    return ""


register(
    Rule(
        "optimizer_made_anew",
        "an optimizer is created anew for each update, and loses its state",
        _begin,
        needs=frozenset({"summary", "history"}),
        parameters=(
            count("num_steps", 10, "number of updates required", unit="steps", low=2),
            percent("share", 90, "hit if it was new at this share of the updates"),
        ),
        lasting=True,
        explains=True,
        suits=_suits,
        concerns=_concerns,
    )
)
