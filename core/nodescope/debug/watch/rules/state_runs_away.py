"""States that grow without end from iteration to iteration.

If a state that is updated by explicit steps ends in overflow, the step is too long or has the wrong
sign. If a covariance is inverted in each iteration to make the next one smaller, but grows
geometrically, a sign is wrong as well. Products that grow by design are not inverted. Descents with
gradients are judged by other rules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Finding, Look, Rule, Settings, count, number
from nodescope.ir.graph import Node

_STEPS: Final = frozenset({"add", "subtract"})
_SOLVES: Final = frozenset({"inv", "solve", "cholesky", "pinv", "lstsq"})
_LEAST_GROWTH: Final = 1.2  # least factor per iteration
_LARGE: Final = 1e30
_SOLVED: Final = 8  # factor for the required iterations of inverted states, which do not overflow


class _Growth:
    """The growth of a value's magnitude over consecutive executions."""

    __slots__ = ("first", "last", "rounds")

    def __init__(self) -> None:
        self.first = self.last = 0.0
        self.rounds = 0

    def take(self, size: float) -> None:
        if size > _LEAST_GROWTH * self.last > 0:
            self.rounds += 1
        else:
            self.first, self.rounds = size, 0
        self.last = size

    @property
    def words(self) -> str:
        growth = math.exp((math.log(self.last) - math.log(self.first)) / self.rounds)
        return (
            f"from {self.first:.4g} to {self.last:.4g} in {self.rounds} rounds, "
            f"{growth:.3g} times in each"
        )


def _begin(settings: Settings) -> Look:
    rounds, factor = settings["rounds"], settings["factor_gt"]
    values: dict[int, _Growth] = {}
    reported = 0

    def look(sight: Sight) -> Finding | None:
        nonlocal reported
        solves = sight.node.op in _SOLVES
        content = sight.inputs[0] if solves and sight.inputs else sight
        summary = content.summary
        if summary.max is None or summary.min is None or summary.inf_count:
            return None
        growth = values.setdefault(sight.value, _Growth())
        growth.take(max(abs(summary.max), abs(summary.min)))
        if growth.rounds < (_SOLVED * rounds if solves else rounds):
            return None
        if growth.last < max(factor * growth.first, 0 if solves else _LARGE):
            return None
        if sight.graph.losses:
            raise Inapplicable("it trains: whether a descent diverges is judged by its loss")
        if solves and sight.node.id not in sight.graph.above(sight.node.inputs[0]):
            raise Inapplicable("no state that is carried on is inverted")
        if not solves and not _carries(sight.graph, sight.node):
            raise Inapplicable("no state is carried from round to round")
        reported = reported or sight.value
        if reported != sight.value:
            return None  # report only one state: the others are computed from it
        if solves:
            what = (
                "what it inverts is made of its own result in the round before, and has grown "
                f"{growth.words}; an update that should shrink it has a wrong sign"
                f"{_sums(sight)}"
            )
        else:
            what = (
                f"the state has grown {growth.words}, and overflows: the step by which it is "
                f"carried on is too long, or its sign is wrong{_step(sight)}"
            )
        return Finding(
            what, {"rounds": growth.rounds, "grown": min(growth.last / growth.first, 1e300)}
        )

    return look


def _carries(graph: ProgramGraph, node: Node) -> bool:
    """Whether a node adds to the result of the same line and op in the previous iteration."""
    makers = [graph.given(value) for value in node.inputs]
    return (
        any(
            maker is not None and (maker.op, maker.source) == (node.op, node.source)
            for maker in makers
        )
        and node.source is not None
    )


def _step(sight: Sight) -> str:
    """A phrase with the number that scales the update of the state, and its line; or ``""``."""
    for maker in sight.graph.makers(sight.node):
        for name in ("x1", "x2"):
            factor = maker.attrs.get(name)
            if maker.op in ("multiply", "divide") and isinstance(factor, int | float):
                line = f" (line {maker.source.line})" if maker.source is not None else ""
                return f": {maker.name}{line} scales it by {factor:.4g}"
    return ""


def _sums(sight: Sight) -> str:
    """A phrase with the lines of sums and differences between the result and its next input."""
    graph, node = sight.graph, sight.node
    above = graph.above(node.inputs[0])
    todo, seen, lines = list(node.outputs), set(node.outputs), set()
    while todo:
        for reader in graph.readers(todo.pop()):
            if reader.id not in above or reader.id == node.id or reader.phase != "forward":
                continue
            fresh = [value for value in reader.outputs if value not in seen]
            if reader.op in ("add", "subtract") and reader.source is not None:
                lines.add(reader.source.line)
            else:
                todo += fresh
            seen.update(fresh)
    words = " or ".join(map(str, sorted(lines)))
    return f": see line {words}" if lines else ""


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    return node.phase == "forward" and bool(node.inputs)


def _suits(nodes: Sequence[Node]) -> str:
    if any(node.phase == "backward" for node in nodes):
        return ""
    for node in nodes:
        if node.op in _STEPS | _SOLVES and node.phase == "forward":
            return f"{node.name} may carry a state on, which must not grow without end"
    return ""


register(
    Rule(
        "state_runs_away",
        "a state that is carried from round to round grows geometrically, or until it overflows",
        _begin,
        ops=_STEPS | _SOLVES,
        needs=frozenset({"summary", "inputs", "history"}),
        parameters=(
            count("rounds", 4, "hit if it grows in as many rounds in a row, or more", low=3),
            number("factor_gt", 1e10, "hit if it grows by more than this factor", low=10),
        ),
        diverges=True,
        explains=True,
        suits=_suits,
        concerns=_concerns,
    )
)
