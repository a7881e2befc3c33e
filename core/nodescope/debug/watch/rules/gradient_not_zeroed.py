"""Gradients that one update has used are added to the next: zero_grad is missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Settings, Study, Verdict
from nodescope.ir.graph import Node


def _study(settings: Settings) -> Study:
    used: set[int] = set()  # gradients that an update has used since they were computed
    carried: dict[int, Node] = {}  # by gradient to which a used one was added: the addition
    made: set[int] = set()  # values computed from gradients, such as clipped ones

    def study(graph: ProgramGraph, over: bool) -> Iterable[Verdict]:
        updates = _updates(graph)
        wrong: list[tuple[Node, Node]] = []
        for number, _ in graph.ran:
            node = graph.nodes.get(number)
            if node is None or node.is_leaf or not node.outputs:
                continue
            output = node.outputs[0]
            added = node.op == "add" and node.phase == "backward"
            # A sum with a used gradient, or with such a sum, still contains it. In a loop without
            # steps, nodes have their latest definition, so an input that is the node's own result
            # does not count.
            again = added and any(
                value in used or (value in carried and value != output) for value in node.inputs
            )
            used.discard(output)
            before = carried.pop(output, None)
            if node.phase == "backward":
                if again and output in graph.slopes:
                    carried[output] = node
                continue
            if number not in updates:
                continue
            for value in node.inputs:
                if value not in graph.slopes and value not in made:
                    continue
                addition = before if value == output else carried.get(value)
                if addition is not None:
                    wrong.append((addition, node))
                elif value in graph.slopes:
                    yield Verdict(node)
                used.add(value)
                made.add(output)
        if wrong:
            yield _verdict(graph, wrong)

    return study


def _verdict(graph: ProgramGraph, wrong: list[tuple[Node, Node]]) -> Verdict:
    """One verdict for all parameters, because zero_grad is missing once for all of them."""
    addition, update = wrong[0]
    owner = next(
        (
            graph.maker(graph.held_in(value))
            for value, gradient in graph.gradients.items()
            if gradient == addition.outputs[0] and _trained(graph, value)
        ),
        None,
    )
    count = len({number.id for number, _ in wrong})
    what = f"the gradient of {owner.name}" if owner is not None else "a gradient"
    others = f" (and {count - 1} more)" if count > 1 else ""
    line = f" in line {update.source.line}" if update.source is not None else ""
    return Verdict(
        addition,
        f"{what}{others} is added to one that the update{line} has already used; call "
        "zero_grad() once per update, before backward()",
        {"parameters": count},
    )


def _trained(graph: ProgramGraph, value: int) -> bool:
    maker = graph.maker(graph.held_in(value))
    return maker is not None and maker.role == "parameter"


def _updates(graph: ProgramGraph) -> set[int]:
    """The nodes outside backward passes from which writes to parameters are computed."""
    ids: set[int] = set()
    todo = [node for node in graph.nodes.values() if node.writes and node.phase != "backward"]
    while todo:
        node = todo.pop()
        if node.id in ids or node.phase == "backward" or node.is_leaf:
            continue
        ids.add(node.id)
        todo += graph.makers(node)
    return ids


def _suits(nodes: Sequence[Node]) -> str:
    backward = any(node.phase == "backward" for node in nodes)
    writes = any(node.writes for node in nodes)
    return (
        "it trains; gradients left over from the previous step would be added"
        if backward and writes
        else ""
    )


register(
    graph_rule(
        "gradient_not_zeroed",
        "a gradient that an update has already used is added to the next one",
        _study,
        suits=_suits,
        aliases=("missing_zero_grad",),
    )
)
