"""A convolution that skips part of its input: elements between kernel positions are never read.

This happens if the stride is longer than the kernel. The shortcut of a residual network does so
too, while another branch reads the rest, so only elements that nothing else reads count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Settings, Study, Verdict, percent
from nodescope.ir.graph import Node

_OPS: Final = frozenset({"conv1d", "conv2d"})


def _study(settings: Settings) -> Study:
    least = settings["share_ge"]

    def study(graph: ProgramGraph, over: bool) -> Iterable[Verdict]:
        for node in graph.forward():
            if node.op not in _OPS or len(node.inputs) < 2 or not graph.reaches_loss(node):
                continue
            skipped = _skipped(graph, node)
            others = [
                reader
                for reader in graph.readers(node.inputs[0])
                if reader.phase == "forward" and reader.id != node.id
            ]
            if skipped is None or 100 * skipped < least or any(
                100 * (_skipped(graph, other) or 0) < least for other in others
            ):  # fmt: skip
                yield Verdict(node)
                continue
            kernel = (graph.shape(node.inputs[1]) or ())[2:]
            stride = node.attrs["stride"]
            yield Verdict(
                node,
                f"{100 * skipped:.3g}% of its input is never read: a kernel of "
                f"{'×'.join(map(str, kernel))} moves by {_sizes(stride, len(kernel))}, and nothing "
                "else reads what it steps over; use a larger kernel or a smaller stride",
                {"share_ge": 100 * skipped},
            )

    return study


def _skipped(graph: ProgramGraph, node: Node) -> float | None:
    """The share of the input that a convolution skips; None for other nodes."""
    weight = graph.shape(node.inputs[1]) if node.op in _OPS and len(node.inputs) > 1 else None
    if weight is None:
        return None
    kernel = weight[2:]
    strides = _numbers(node.attrs.get("stride", 1), len(kernel))
    dilations = _numbers(node.attrs.get("dilation", 1), len(kernel))
    if strides is None or dilations is None:
        return None
    shares = [
        len({place * dilation % stride for place in range(size or 1)}) / stride
        for size, stride, dilation in zip(kernel, strides, dilations, strict=True)
    ]
    return 1 - math.prod(shares)


def _numbers(given: Any, axes: int) -> tuple[int, ...] | None:
    numbers = tuple(given) if isinstance(given, tuple | list) else (given,) * axes
    fits = len(numbers) == axes and all(
        isinstance(number, int) and number > 0 for number in numbers
    )
    return numbers if fits else None


def _sizes(given: Any, axes: int) -> str:
    return "×".join(map(str, _numbers(given, axes) or ()))


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    for node in nodes:
        if node.op in _OPS and node.phase == "forward":
            return f"{node.name} moves over its input, of which it must not step over much"
    return ""


register(
    graph_rule(
        "inputs_skipped",
        "a convolution moves farther than its kernel is long, and nothing reads what lies between",
        _study,
        suits=_suits,
        parameters=(percent("share_ge", 50.0, "hit if as much of the input, or more, is skipped"),),
    )
)
