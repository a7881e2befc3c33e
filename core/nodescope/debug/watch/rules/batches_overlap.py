"""Batches that begin at the number of the batch instead of its first row.

A loop over ``len(x) // SIZE`` batches takes ``x[i : i + SIZE]``: the batches overlap, and only the
first rows of the data are ever seen. The rule reads the source, and reports only certain cases.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule, stateless
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Verdict
from nodescope.ir.graph import Node

_DATA: Final = ("input", "constant")
_Overlap = tuple[ast.For, int, str, str]
"""A faulty loop, the line of the slice, the name of the index, and the size."""


def _judge(graph: ProgramGraph) -> Iterable[Verdict]:
    places: dict[str, tuple[_Overlap, ...]] = {}
    reported: set[tuple[str, int]] = set()
    for node in graph.nodes.values():
        if node.role not in _DATA or node.phase != "forward" or node.source is None:
            continue
        file, line = node.source.file, node.source.line
        if file not in places:
            tree = graph.tree(node.source)
            places[file] = _overlaps(tree) if tree is not None else ()
        for loop, at, index, size in places[file]:
            within = loop.lineno <= line <= (loop.end_lineno or 0)
            if within and (file, at) not in reported:
                reported.add((file, at))
                yield Verdict(
                    node,
                    f"line {at} takes the rows from {index} to {index} + {size}, but {index} "
                    f"numbers the batches of {size} rows each (line {loop.lineno}): they overlap, "
                    f"and most rows are never seen; begin at {index} * {size}",
                    {"line": at},
                )
                break
        else:
            yield Verdict(node)


@lru_cache(maxsize=32)
def _overlaps(tree: ast.Module) -> tuple[_Overlap, ...]:
    """The faulty loops of a file, which is asked about again at each look."""
    return tuple(_read_overlaps(tree))


def _read_overlaps(tree: ast.Module) -> Iterator[_Overlap]:
    for loop in ast.walk(tree):
        if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
            continue
        sizes = [ast.dump(size) for size in _batch_sizes(tree, loop.iter)]
        index = loop.target.id
        if not sizes or _changes(loop, index) or _multiplies(loop, index):
            continue
        for node in ast.walk(loop):
            ends = _ends(node)
            if ends is None:
                continue
            low, high = ends
            if not (isinstance(low, ast.Name) and low.id == index):
                continue
            if isinstance(high, ast.BinOp) and isinstance(high.op, ast.Add):
                parts = [high.left, high.right]
                rest = [part for part in parts
                        if not (isinstance(part, ast.Name) and part.id == index)]  # fmt: skip
                if len(rest) == 1 and ast.dump(rest[0]) in sizes:
                    yield loop, getattr(node, "lineno", loop.lineno), index, ast.unparse(rest[0])
                    break


def _batch_sizes(tree: ast.Module, iterated: ast.expr) -> list[ast.expr]:
    """The divisor in a loop over ``range(rows // size)``; empty for other loops."""
    calls = [call for call in ast.walk(iterated) if isinstance(call, ast.Call)]
    ranges = [call for call in calls if getattr(call.func, "id", "") == "range"]
    if len(ranges) != 1 or len(ranges[0].args) != 1:
        return []
    rounds = ranges[0].args[0]
    if isinstance(rounds, ast.Name):
        given = [node.value for node in ast.walk(tree) if isinstance(node, ast.Assign)
                 and any(getattr(to, "id", "") == rounds.id for to in node.targets)]  # fmt: skip
        if len(given) != 1:
            return []
        rounds = given[0]
    if isinstance(rounds, ast.BinOp) and isinstance(rounds.op, ast.FloorDiv):
        return [rounds.right]
    return []


def _changes(loop: ast.For, name: str) -> bool:
    """Whether a loop's body assigns its variable."""
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for statement in loop.body
        for node in ast.walk(statement)
    )


def _multiplies(loop: ast.For, name: str) -> bool:
    """Whether a loop also multiplies its variable, as to compute the number of a row."""
    return any(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mult)
        and any(getattr(part, "id", "") == name for part in (node.left, node.right))
        for node in ast.walk(loop)
    )


def _ends(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """The ends of a slice, ``x[a:b]`` or ``slice(a, b)``; None for other expressions."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        part = node.slice
        return (part.lower, part.upper) if part.lower and part.upper and not part.step else None
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "slice":
        return (node.args[0], node.args[1]) if len(node.args) == 2 else None
    return None


def _suits(nodes: Sequence[Node]) -> str:
    trains = any(node.phase == "backward" for node in nodes)
    given = any(node.role == "input" for node in nodes)
    return "it learns from batches, which must not overlap" if trains and given else ""


register(
    graph_rule(
        "batches_overlap",
        "batches begin at their number instead of their first row, so they overlap",
        stateless(_judge),
        suits=_suits,
    )
)
