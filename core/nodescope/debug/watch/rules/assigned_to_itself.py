"""A variable that is assigned to itself: what was kept as a copy is the variable itself.

For example, the best weights are kept as ``dict(model.named_parameters())`` and written back at the
end. These are the model's own weights, so training has changed them as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule, stateless
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Verdict
from nodescope.ir.graph import Node

_OP: Final = "assign"


def _judge(graph: ProgramGraph) -> Iterable[Verdict]:
    by_place: dict[tuple[str, int], list[Node]] = {}
    for node in graph.nodes.values():
        if node.op != _OP or node.phase == "optimizer" or len(node.inputs) != 2:
            continue
        target, given = node.inputs
        if target != given:
            yield Verdict(node)
            continue
        place = node.source
        by_place.setdefault((place.file, place.line) if place else ("", 0), []).append(node)
    for nodes in by_place.values():
        held = graph.maker(graph.held_in(nodes[0].inputs[0]))
        name = held.name if held is not None else "a variable"
        more = f" (and {len(nodes) - 1} more)" if len(nodes) > 1 else ""
        yield Verdict(
            nodes[0],
            f"{name}{more} is assigned to itself, which changes nothing: what was kept as a copy "
            "is the variable itself, and was trained on with it; keep its elements, as "
            "state_dict() or numpy().copy() do",
            {"variables": len(nodes)},
        )


def _suits(nodes: Sequence[Node]) -> str:
    for node in nodes:
        if node.op == _OP and node.phase == "forward":
            return f"{node.name} writes to a variable"
    return ""


register(
    graph_rule(
        "assigned_to_itself",
        "a variable is assigned to itself: what was kept as a copy is none",
        stateless(_judge),
        suits=_suits,
    )
)
