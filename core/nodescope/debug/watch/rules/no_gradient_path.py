"""A parameter that the optimizer is given, but that no gradient reaches: where the path was cut.

An optimizer says so itself: what it does to a parameter without a gradient is a ``no_op``. What
nobody gave to an optimizer is frozen on purpose, and so is what is computed under ``no_grad``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Settings, Study, Verdict
from nodescope.debug.watch.syntax import calls_between, within
from nodescope.ir.graph import Node
from nodescope.ops.traits import traits_of

_OPTIMIZER: Final = "optimizer/"
_LEAST_STEPS: Final = 3
_STEPS: Final = frozenset({"argmax", "argmin", "argsort", "sign", "rint", "round", "floor", "ceil",
                           "trunc", "searchsorted", "heaviside"})  # fmt: skip
_READS: Final = ("numpy", "item", "float", "tolist", "asarray", "array")


class _Cut(NamedTuple):
    """Where a path ends: at which node, and what is wrong there, in words."""

    node: Node
    words: str


def _study(settings: Settings) -> Study:
    left_out = 0

    def study(graph: ProgramGraph, over: bool) -> Iterable[Verdict]:
        nonlocal left_out
        skipped = {
            node.scope.removeprefix(_OPTIMIZER)
            for node in graph.nodes.values()
            if node.op == "no_op" and node.phase == "optimizer"
        }
        left_out += bool(skipped)
        weights = [node for node in graph.nodes.values() if node.is_weight]
        reached = {
            graph.held_in(value) for value in graph.gradients if graph.maker(value) is not None
        }
        cuts: dict[int, tuple[_Cut, list[str]]] = {}
        for weight in weights:
            bare = weight.name not in skipped or weight.outputs[0] in reached
            # A part may be frozen for a while: what the end shows counts.
            if bare or not over or left_out < _LEAST_STEPS:
                yield Verdict(weight)
                continue
            cut = _cut(graph, weight)
            if cut is None:
                yield Verdict(weight)
            else:
                cuts.setdefault(cut.node.id, (cut, []))[1].append(weight.name)
        for cut, names in cuts.values():
            more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
            yield Verdict(
                cut.node,
                f"{names[0]}{more} is given to the optimizer, but no gradient reaches it: "
                f"{cut.words}",
                {"parameters": len(names)},
            )

    return study


def _cut(graph: ProgramGraph, weight: Node) -> _Cut | None:
    """Where the path from a parameter to the loss is cut; None if that may well be meant."""
    below = _below(graph, weight)
    if not below:
        return None
    if any(_is_explicit(graph, node) for node in below):
        return None
    for node in below:
        smooth = graph.dtype(node.outputs[0])[:1] in ("f", "b", "c", "")
        tests = "tests" in traits_of(node.op).effects or node.op in _STEPS
        if tests or not smooth or graph.dtype(node.outputs[0]).startswith("bool"):
            return _Cut(
                node,
                f"{node.op} gives steps or whole numbers, which have no gradient; let what is "
                "trained go around it, as by softmax or a straight-through estimate",
            )
    for node in below:
        for reader in graph.readers(node.outputs[0]):
            has_gradient = reader.outputs and (
                reader.outputs[0] in graph.gradients or reader.outputs[0] in graph.losses
            )
            if (
                reader.phase == "forward"
                and has_gradient
                and node.outputs[0] not in graph.gradients
            ):
                return _Cut(reader, _words_of_detach(graph, node, reader))
    if any(graph.reaches_loss(node) for node in below):
        return None
    return _left(graph, below)


def _below(graph: ProgramGraph, weight: Node) -> list[Node]:
    """The nodes of the forward pass that are computed from a parameter, in order, up to a cut."""
    found: dict[int, Node] = {}
    todo = list(weight.outputs)
    todo += [value for value in list(graph.specs) if value != weight.outputs[0]
             and graph.held_in(value) == weight.outputs[0]]  # fmt: skip
    while todo:
        for reader in graph.readers(todo.pop(0)):
            if reader.phase != "forward" or reader.writes or reader.id in found:
                continue
            if reader.outputs and reader.outputs[0] not in graph.gradients:
                found[reader.id] = reader
                todo += reader.outputs
    return [found[number] for number in sorted(found)]


def _is_explicit(graph: ProgramGraph, node: Node) -> bool:
    """Whether a node stands in a ``no_grad`` block: who writes that wants no gradient."""
    tree = graph.tree(node.source)
    return (
        tree is not None and node.source is not None and within(tree, node.source.line, "no_grad")
    )


def _words_of_detach(graph: ProgramGraph, node: Node, reader: Node) -> str:
    tree, here, there = graph.tree(reader.source), node.source, reader.source
    line = 0
    if tree is not None and here is not None and there is not None and here.file == there.file:
        low, high = sorted((here.line, there.line))
        line = calls_between(tree, low, high, "detach") or calls_between(
            tree, 1, len(graph.source(here.file).splitlines()), "detach"
        )
    by = f"detach() in line {line}" if line else "detach() or no_grad()"
    return (
        f"{by} cuts {node.name} off before {reader.name}; leave it out, or give the optimizer "
        "only what is to be trained"
    )


def _left(graph: ProgramGraph, below: list[Node]) -> _Cut | None:
    """Values that left the graph as arrays or numbers, and the data that was made of them."""
    ends = [node for node in below if not any(
        reader.phase == "forward" for reader in graph.readers(node.outputs[0]))]  # fmt: skip
    for end in reversed(ends):
        shape, source = graph.shape(end.outputs[0]), end.source
        tree = graph.tree(source)
        for leaf in graph.nodes.values():
            made_of_it = (
                leaf.role == "input"
                and leaf.id > end.id
                and graph.shape(leaf.outputs[0]) == shape
                and graph.reaches_loss(leaf)
            )
            if not made_of_it or tree is None or source is None or leaf.source is None:
                continue
            line = calls_between(tree, source.line, leaf.source.line, *_READS)
            if line:
                return _Cut(
                    leaf,
                    f"{end.name} (line {source.line}) leaves the graph in line {line}, and "
                    f"{leaf.name} is made of its elements, without a history; compute with the "
                    "tensor itself",
                )
    return None


def _suits(nodes: Sequence[Node]) -> str:
    for node in nodes:
        if node.op == "no_op" and node.phase == "optimizer":
            name = node.scope.removeprefix(_OPTIMIZER)
            return f"its optimizer is given {name}, which had no gradient"
    return ""


register(
    graph_rule(
        "no_gradient_path",
        "no gradient reaches a parameter that the optimizer is given",
        _study,
        suits=_suits,
        aliases=("detached",),
    )
)
