"""A loss that falls below zero and keeps falling, as fast at the end as before: it is unbounded.

Examples are a likelihood whose log-determinant has the wrong sign, or a divergence that is
subtracted. A loss with a lower bound slows down before it. Several losses are not judged: if they
compete, each may fall without end. Nor is a likelihood that falls at a constant rate, unless it has
become implausibly low: its scale may simply not have been learned when the run ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Excused, Inapplicable, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Finding, Look, Rule, Settings, count, needs_steps, number
from nodescope.debug.watch.suiting import trains_weights
from nodescope.ir.graph import Node

_TERMS: Final = frozenset({"add", "subtract", "negative", "multiply", "divide", "mean", "sum"})
_LOSSES: Final = frozenset({"loss", "elementwise", "reduction", "activation", "kernel", "norm"})
_MOST_MARKS: Final = 512
_PARTS: Final = 8
_LATEST: Final = 4  # the number of latest falls that must be alike
_FIRST: Final = 2  # first parts that are left out of the range: a loss may begin anywhere
_OF_LOSS: Final = 0.15  # least total of the latest falls, as a share of the loss
_DEPTH: Final = 12
_FASTER: Final = 1.1  # least ratio of the last fall to the first of the latest ones
_DEEP: Final = 8.0  # a density of e^8 in each dimension is that of very narrow data


class _Course:
    """The means of a value over the run, thinned out as it goes on."""

    __slots__ = ("_every", "_seen", "marks", "size", "total")

    def __init__(self, size: int) -> None:
        self.marks: list[float] = []
        self.total = 0.0
        self.size = size
        self._seen, self._every = 0, 1

    def take(self, mean: float) -> None:
        self.total += mean
        self._seen += 1
        if self._seen % self._every:
            return
        self.marks.append(self.total / self._every)
        self.total = 0.0
        if len(self.marks) >= _MOST_MARKS:
            pairs = zip(self.marks[::2], self.marks[1::2], strict=True)
            self.marks = [(first + second) / 2 for first, second in pairs]
            self._every *= 2

    @property
    def seen(self) -> int:
        return self._seen

    def parts(self) -> list[float]:
        """The means over `_PARTS` equal parts of the run."""
        marks, size = self.marks, len(self.marks) / _PARTS
        ends = [round(part * size) for part in range(_PARTS + 1)]
        return [sum(marks[a:b]) / (b - a) for a, b in pairwise(ends)]


def _begin(settings: Settings) -> Look:
    least, slower = settings["num_steps"], settings["slower"]
    courses: dict[int, _Course] = {}
    losses: set[int] = set()
    version = -1

    def look(sight: Sight) -> Finding | None:
        nonlocal losses, version
        mean = sight.summary.mean
        if mean is None or not math.isfinite(mean) or sight.summary.nan_count:
            raise Inapplicable("no finite loss is computed")
        course = courses.setdefault(sight.value, _Course(sight.size))
        course.take(mean)
        if version != sight.graph.version:
            version, losses = sight.graph.version, _losses(sight.graph)
        if sight.value not in losses:
            raise Inapplicable("no backward pass begins there")
        if len(losses) != 1:
            raise Inapplicable("several losses are trained together or against each other")
        if course.seen < least:
            raise needs_steps(least, course.seen)
        parts = course.parts()
        if not _runs_away(parts, slower):
            return None
        if not _speeds_up(parts) and parts[-1] > -_DEEP * _terms(sight.graph, sight.value):
            raise Excused("it falls at a constant rate, as a likelihood whose scale is learned")
        term = _falling(sight.graph, sight.value, courses)
        line = f" (line {term.source.line})" if term is not None and term.source is not None else ""
        by = f", with {term.name}{line}" if term is not None else ""
        return Finding(
            f"it falls without a floor: from {course.marks[0]:.4g} to "
            f"{course.marks[-1]:.4g}{by}, in the last eighth of the run by "
            f"{parts[-2] - parts[-1]:.3g}, no slower than before; is a sign wrong, or does a "
            "variance shrink to zero?",
            {"first": course.marks[0], "last": course.marks[-1]},
        )

    return look


def _losses(graph: ProgramGraph) -> set[int]:
    """The values at which backward passes begin, including those of compiled functions."""
    losses = set(graph.losses)
    for owner, traced in graph.captured.items():
        for value in traced.losses:
            maker = traced.maker(value)
            runs = graph.runs(owner, maker) if maker is not None else None
            if runs is not None:
                losses.update(out for out in runs.outputs if graph.shape(out) == ())
    return losses


def _runs_away(parts: Sequence[float], slower: float) -> bool:
    """Whether a loss is negative, and falls in each of the latest parts about as much as before."""
    falls = [before - after for before, after in pairwise(parts)][-_LATEST:]
    if min(falls) <= 0 or max(parts[-_LATEST:]) >= 0:
        return False
    steady = all(now >= slower * before for before, now in pairwise(falls))
    return steady and falls[-1] >= slower * falls[0] and (
        sum(falls) >= 0.25 * (max(parts[_FIRST:]) - min(parts))
        and sum(falls) >= _OF_LOSS * -parts[-1]
    )  # fmt: skip


def _speeds_up(parts: Sequence[float]) -> bool:
    """Whether a loss falls faster in the last part than a few parts earlier."""
    falls = [before - after for before, after in pairwise(parts)][-_LATEST:]
    return falls[-1] >= _FASTER * falls[0]


def _terms(graph: ProgramGraph, loss: int) -> float:
    """The largest number of terms that a loss sums, such as the dimensions of a density."""
    most, todo, seen = 1.0, [(loss, 1.0)], {loss}
    while todo:
        value, terms = todo.pop()
        maker = graph.maker(value)
        most = max(most, terms)
        if maker is None or maker.op not in _TERMS:
            continue
        for given in maker.inputs:
            sizes = [math.prod(graph.shape(end) or ()) for end in (given, value)]
            ratio = sizes[0] / max(sizes[1], 1) if maker.op == "sum" else 1.0
            if given not in seen:
                seen.add(given)
                todo.append((given, terms * max(ratio, 1.0)))
    return most


def _falling(graph: ProgramGraph, loss: int, courses: dict[int, _Course]) -> Node | None:
    """The innermost term that accounts for most of the fall of a loss."""
    value, sign, weight = loss, 1.0, 1.0
    term: Node | None = None
    for _ in range(_DEPTH):
        maker = graph.maker(value)
        if maker is None or maker.op not in _TERMS or value not in courses:
            break
        fallen = _fallen(courses.get(value)) * weight * sign
        best = None
        for port, given in enumerate(maker.inputs):
            turn = -1.0 if maker.op == "negative" or (maker.op == "subtract" and port == 1) else 1.0
            if given not in courses:
                continue
            scale = _scale(maker, courses[given].size, courses[value].size)
            if scale is None:
                continue
            part = _fallen(courses[given]) * weight * abs(scale) * sign * turn
            part = math.copysign(1.0, scale) * part
            if part >= 0.7 * fallen and (best is None or part > best[0]):
                best = part, given, turn * math.copysign(1.0, scale), abs(scale)
        if best is None:
            break
        _, value, turn, scale = best
        sign, weight = sign * turn, weight * scale
        term = graph.maker(value)
        if len(maker.inputs) == 2 and term is not None and term.op not in _TERMS:
            break
    return term


def _fallen(course: _Course | None) -> float:
    """The fall of a value over the last half of the run."""
    if course is None or len(course.marks) < 2:
        return 0.0
    return course.marks[len(course.marks) // 2] - course.marks[-1]


def _scale(node: Node, size: int, result: int) -> float | None:
    """The factor by which a node scales the mean of a term; None if it is not one number."""
    if node.op in ("multiply", "divide"):
        if len(node.inputs) != 1:
            return None
        factor = node.attrs.get("x2", node.attrs.get("x1"))
        if not isinstance(factor, int | float) or not factor:
            return None
        if node.op == "divide":
            return None if "x1" in node.attrs else 1 / factor
        return float(factor)
    return size / result if node.op == "sum" else 1.0


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    return node.phase == "forward" and (node.op in _TERMS or node.family in _LOSSES)


register(
    Rule(
        "loss_without_floor",
        "a loss falls below zero and keeps falling, as fast at the end as before",
        _begin,
        ("values", "losses"),
        needs=frozenset({"summary", "history"}),
        parameters=(
            count("num_steps", 80, "number of steps required", unit="steps", low=16),
            number(
                "slower", 0.9, "a fall below this share of the previous one counts as slower", low=0
            ),
        ),
        lasting=True,
        suits=trains_weights("a loss without a lower bound falls forever"),
        concerns=_concerns,
    )
)
