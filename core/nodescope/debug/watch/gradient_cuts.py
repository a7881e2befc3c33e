"""Gradient cuts: where the path from a parameter to the loss is cut, in words.

Invariant: reads the graph and the program's source only. A place that may be intended, such as a
``no_grad`` block, is not reported as a cut, except by `explicit_cut` and `shut_off`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.program_source import (
    call_at,
    calls_between,
    calls_together,
    clears_between,
    within,
)
from nodescope.ir.graph import Node
from nodescope.ops.traits import traits_of

_PICKS: Final = frozenset({"argmax", "argmin", "argsort", "searchsorted"})
_ROUNDS: Final = frozenset({"sign", "rint", "round", "floor", "ceil", "trunc"})
_STEPS: Final = _PICKS | _ROUNDS | {"heaviside"}
STEPS: Final = _ROUNDS | {"heaviside", "floor_divide"}
"""Step functions that pass gradients on: zeros."""
_CONVERTS: Final = ("numpy", "item", "tolist")
_READS: Final = ("numpy", "item", "float", "tolist", "asarray", "array")


OPTIMIZER: Final = "optimizer/"
"""The prefix of the scopes in which weights are updated."""


def has_idle_weights(nodes: Sequence[Node]) -> str:
    """A phrase about a weight that an optimizer holds and that had no gradient, or ``""``."""
    for node in nodes:
        if node.op == "no_op" and node.phase == "optimizer":
            name = node.scope.removeprefix(OPTIMIZER)
            return f"its optimizer is given {name}, which had no gradient"
    return ""


class Cut(NamedTuple):
    """The place at which a path is cut.

    Attributes:
        node: The node at the cut.
        words: What is wrong there, and how to fix it.
        by: The name of what cuts: ``detach``, ``numpy``, or an op.
        line: The line of the cut, or 0.
    """

    node: Node
    words: str
    by: str
    line: int


def cut_of(graph: ProgramGraph, weight: Node) -> Cut | None:
    """The cut in the path from a parameter to the loss; None if it may be intended."""
    below = _below(graph, weight)
    if not below:
        return None
    if any(_is_explicit(graph, node) for node in below):
        return None
    for node in below:
        smooth = graph.dtype(node.outputs[0])[:1] in ("f", "b", "c", "")
        tests = "tests" in traits_of(node.op).effects or node.op in _STEPS
        if tests or not smooth or graph.dtype(node.outputs[0]).startswith("bool"):
            return Cut(
                node,
                f"{node.op} returns steps or whole numbers, which have no gradient; "
                f"{_around(node)}",
                node.op, node.source.line if node.source is not None else 0,
            )  # fmt: skip
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
                return _detached(graph, node, reader)
    if any(graph.reaches_loss(node) for node in below):
        return None
    return _left(graph, below)


def flat_steps(graph: ProgramGraph) -> tuple[list[Node], set[int]]:
    """Step functions before a loss that have a gradient, in order; and the ids of the nodes from
    which losses are also computed without step functions.
    """
    steps = [node for node in graph.forward() if node.op in STEPS and graph.reaches_loss(node)]
    arrives = [node for node in steps if node.outputs[0] in graph.gradients]
    if not arrives:
        return [], set()
    return arrives, graph.above_losses({node.id for node in steps})


def around_step(node: Node) -> str:
    """A phrase on how to let a gradient bypass a step function."""
    return f"let the gradient bypass it, as in x + ({node.op}(x) - x).detach()"


def flat_cut(graph: ProgramGraph, weight: Node) -> Cut | None:
    """The first step function, if every path from a parameter to the losses contains one."""
    steps, around = flat_steps(graph)
    for node in steps if weight.id not in around else ():
        if weight.id in graph.above(node.outputs[0]):
            words = (
                f"{node.op} is a step function, whose slope is 0 everywhere; {around_step(node)}"
            )
            return Cut(node, words, node.op, _line(node))
    return None


def explicit_cut(graph: ProgramGraph, node: Node) -> Cut | None:
    """The first node computed from this one in a ``no_grad`` block, which may be intended."""
    for below in _below(graph, node):
        if _is_explicit(graph, below):
            words = (
                f"{below.name} is computed under no_grad(), so nothing before it gets a gradient; "
                "compute it outside, if what is before it is to be trained"
            )
            return Cut(below, words, "no_grad", _line(below))
    return None


def shut_off(graph: ProgramGraph, value: int) -> Cut | None:
    """The ``no_grad`` block in which a parameter of an optimizer is used, if only there."""
    weight = graph.maker(value)
    if weight is None or not weight.is_weight:
        return None
    given = any(
        node.op == "no_op"
        and node.phase == "optimizer"
        and node.scope == f"optimizer/{weight.name}"
        for node in graph.nodes.values()
    )
    return explicit_cut(graph, weight) if given and cut_of(graph, weight) is None else None


def cleared(graph: ProgramGraph, weight: Node, step: Node) -> Cut | None:
    """The line that clears gradients after the backward pass and before the optimizer's step.

    Args:
        graph: The program's graph.
        weight: The parameter.
        step: The optimizer's node that found no gradient of the parameter.
    """
    tree, gradient = graph.tree(step.source), graph.maker(graph.gradients[weight.outputs[0]])
    if tree is None or step.source is None or gradient is None or gradient.source is None:
        return None
    first, last = gradient.source.line, step.source.line
    line = clears_between(tree, first, last)
    if not line or gradient.source.file != step.source.file:
        return None
    return Cut(
        gradient,
        f"line {line} clears the gradients, after the backward pass (line {first}) and before "
        f"the step (line {last}); clear them before the backward pass or after the step",
        "zero_grad", line,
    )  # fmt: skip


def copied(graph: ProgramGraph, weight: Node, step: Node) -> Cut | None:
    """The line that gives the optimizer a copy of a parameter with the parameter's name.

    The parameter that the model uses has a gradient; the optimizer's copy has none.
    """
    tree = graph.tree(step.source)
    if tree is None or step.source is None or weight.source is None:
        return None
    line = calls_together(tree, "parameter", _CONVERTS)
    if not line:
        return None
    return Cut(
        weight,
        f"{weight.name} has a gradient, but the optimizer (line {step.source.line}) was given a "
        f"copy of it, made in line {line}; give it the parameters that are used",
        "copy", line,
    )  # fmt: skip


def left_graph(graph: ProgramGraph, weight: Node) -> Cut | None:
    """The line at which a parameter leaves the graph as an array from which data is made."""
    return _made_of(graph, [weight])


def _below(graph: ProgramGraph, weight: Node) -> list[Node]:
    """The forward nodes without a gradient that are computed from a parameter, in order of ids."""
    reached: dict[int, Node] = {}
    todo = list(weight.outputs)
    todo += [value for value in list(graph.specs) if value != weight.outputs[0]
             and graph.held_in(value) == weight.outputs[0]]  # fmt: skip
    while todo:
        for reader in graph.readers(todo.pop(0)):
            if reader.phase != "forward" or reader.writes or reader.id in reached:
                continue
            if reader.outputs and reader.outputs[0] not in graph.gradients:
                reached[reader.id] = reader
                todo += reader.outputs
    return [reached[number] for number in sorted(reached)]


def _is_explicit(graph: ProgramGraph, node: Node) -> bool:
    """Whether a node is in a ``no_grad`` block, where no gradient is intended."""
    tree = graph.tree(node.source)
    return (
        tree is not None and node.source is not None and within(tree, node.source.line, "no_grad")
    )


def _detached(graph: ProgramGraph, node: Node, reader: Node) -> Cut:
    cut_off = graph.maker(node.inputs[0]) if node.op == "detach" and node.inputs else None
    if cut_off is not None:
        return Cut(
            node,
            f"detach() cuts {cut_off.name} off before {reader.name}; remove it, or give the "
            "optimizer only what is to be trained",
            "detach", _line(node),
        )  # fmt: skip
    tree, here, there = graph.tree(reader.source), node.source, reader.source
    line = 0
    if tree is not None and here is not None and there is not None and here.file == there.file:
        low, high = sorted((here.line, there.line))
        line = calls_between(tree, low, high, "detach") or calls_between(
            tree, 1, len(graph.source(here.file).splitlines()), "detach"
        )
    by = f"detach() in line {line}" if line else "detach() or no_grad()"
    words = (
        f"{by} cuts {node.name} off before {reader.name}; remove it, or give the optimizer "
        "only what is to be trained"
    )
    return Cut(reader, words, "detach" if line else "detach or no_grad", line or _line(reader))


def _line(node: Node) -> int:
    return node.source.line if node.source is not None else 0


def _around(node: Node) -> str:
    """A phrase on what to use instead of an op without a gradient."""
    if node.op in _PICKS:
        return "weigh all by their softmax, or multiply what is picked by its probability"
    if node.op in _ROUNDS:
        return around_step(node)
    return "use something smooth in its place, as the sigmoid of a difference instead of a test"


def _left(graph: ProgramGraph, below: list[Node]) -> Cut | None:
    """The cut at which one of the last values leaves the graph as an array or a number."""
    ends = [node for node in below if not any(
        reader.phase == "forward" for reader in graph.readers(node.outputs[0]))]  # fmt: skip
    return _made_of(graph, ends)


def _made_of(graph: ProgramGraph, ends: list[Node]) -> Cut | None:
    """The cut at which data is made from the elements of one of these values."""
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
            line = leaf.source.line
            if not call_at(tree, line, *_CONVERTS):
                line = calls_between(tree, source.line, line, *_READS)
            if line:
                return Cut(
                    leaf,
                    f"{end.name} (line {source.line}) leaves the graph in line {line}, and "
                    f"{leaf.name} is made of its elements, without a history; compute with the "
                    "tensor itself",
                    call_at(tree, line, *_READS), line,
                )  # fmt: skip
    return None
