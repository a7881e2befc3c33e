"""Predictions and targets of shapes (n, 1) and (n,): broadcasting yields n·n losses, not n."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nodescope.console_output import shape_words
from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule, stateless
from nodescope.debug.watch.program_graph import ProgramGraph, changes_shape_only, elementwise
from nodescope.debug.watch.rule import Verdict
from nodescope.ir.graph import Node

_LOSSES: Final = frozenset({"mse", "huber", "bce", "bce_with_logits", "kl_div", "l1"})
_OPS: Final = frozenset({"subtract", "multiply", "add"}) | _LOSSES
# x[:, None] shows that an outer operation is intended.
_EXPANDS: Final = frozenset({"expand_dims", "getitem", "reshape", "broadcast_to", "repeat"})


def _judge(graph: ProgramGraph) -> Iterable[Verdict]:
    for node in graph.forward():
        if node.op not in _OPS or len(node.inputs) != 2 or not graph.reaches_loss(node):
            continue
        shapes = [graph.shape(value) for value in node.inputs]
        if None in shapes or not all(shapes):
            continue
        yield Verdict(node, *_described(graph, node, shapes))  # type: ignore[arg-type]


def _described(graph: ProgramGraph, node: Node, shapes: list[tuple[int, ...]]) -> Iterable[str]:
    """The finding, if any."""
    column, row = (0, 1) if len(shapes[0]) == 2 else (1, 0)
    rows = shapes[row][0]
    if len(shapes[row]) != 1 or shapes[column] != (rows, 1) or rows < 2:
        return ()
    if node.op not in _LOSSES and (
        _outer(graph, node.inputs[column], node.inputs[row]) or not _averaged(graph, node)
    ):
        return ()
    names = [f"{_name(graph, value)} has shape {shape_words(shapes[port])}"
             for port, value in enumerate(node.inputs)]  # fmt: skip
    return (
        f"{names[0]} and {names[1]}, so broadcasting compares each of {rows} elements with all "
        f"{rows}; give both the same shape, for example with reshape(-1) on "
        f"{_name(graph, node.inputs[column])}",
    )


def _outer(graph: ProgramGraph, column: int, row: int) -> bool:
    """Whether a table of all pairs is intended."""
    maker = graph.maker(column)
    if maker is not None and maker.op in _EXPANDS and maker.inputs:
        before = graph.shape(maker.inputs[0])
        if before is not None and len(before) == 1:
            return True
    # Both sides may hold the same numbers, for all pairs among them; and a target is never a
    # parameter.
    sources = [graph.given(value) for value in (column, row)]
    if None in sources or sources[0] == sources[1]:
        return True
    trained = graph.maker(graph.held_in(row))
    return trained is not None and trained.role in ("parameter", "buffer")


def _averaged(graph: ProgramGraph, node: Node) -> bool:
    """Whether only elementwise ops and reshapes follow, up to a mean or sum over all elements."""
    seen, todo = {node.id}, [node]
    while todo:
        current = todo.pop()
        for reader in graph.readers(current.outputs[0]):
            if reader.phase != current.phase or reader.id in seen:
                continue
            seen.add(reader.id)
            if reader.op in ("mean", "sum"):
                if reader.attrs.get("axis") in (None, (0, 1), [0, 1], (-2, -1), (1, 0)):
                    return graph.reaches_loss(reader)
                return False
            if elementwise(reader) or changes_shape_only(reader):
                todo.append(reader)
    return False


def _name(graph: ProgramGraph, value: int) -> str:
    maker = graph.maker(value)
    return maker.name if maker is not None else "an operand"


def _suits(nodes: Sequence[Node]) -> str:
    return (
        "it has a loss; predictions (n, 1) minus targets (n,) would give n·n differences"
        if any(node.phase == "backward" for node in nodes)
        else ""
    )


register(
    graph_rule(
        "broadcast_in_loss",
        "a loss compares predictions (n, 1) with targets (n,): each prediction with all targets",
        stateless(_judge),
        suits=_suits,
    )
)
