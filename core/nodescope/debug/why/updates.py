"""Updates: splits a weight's change into gradient, momentum and decay terms, for the last steps.

Each term of the new element is a coefficient times an element of the old weight, of a gradient, or
of the optimizer's state.

Invariant: only reads, and is bounded; an operand that cannot be split is a term of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nodescope.debug.why import operand_ranking
from nodescope.debug.why.body_frames import Point, point_of
from nodescope.debug.why.effects import absorbed
from nodescope.debug.why.nonfinite_origins import distinct_texts, number_text
from nodescope.debug.why.value_tracing import Opened, ValueTracer
from nodescope.errors import ReplayError

MOST_STEPS = 16
"""The number of latest updates of a weight that are examined."""
_MOST_DEEP = 64
_SAME = ("astype", "copy", "positive", "reshape", "identity", "detach", "read")

Source = Literal["own", "gradient", "state", "other"]


@dataclass(frozen=True)
class Term:
    """A term of the sum that is the new element.

    Attributes:
        source: ``own`` (the old weight), ``gradient``, ``state`` (another parameter, such as a
            momentum) or ``other``.
        name, point, position, number: The operand's element: its value, position and content.
        coefficient: The factor by which the element is multiplied.
    """

    source: Source
    name: str
    point: Point
    position: int
    number: float
    coefficient: float

    @property
    def amount(self) -> float:
        """The term's contribution to the new element."""
        return self.coefficient * self.number


@dataclass(frozen=True)
class Update:
    """One update of an element.

    Attributes:
        step: The training step.
        before, after: The element before and after the update.
        terms: All terms except those of the old weight, largest first.
        decay: The change caused by the old weight's coefficient, if that is not 1.
        dtype: The weight's dtype.
    """

    step: int
    before: float
    after: float
    terms: tuple[Term, ...]
    decay: float
    dtype: np.dtype[Any]


def updates_of(tracer: ValueTracer, point: Point, position: int) -> list[Update]:
    """The last updates of a weight's element, newest first; empty if it is not an update.

    Args:
        tracer: The tracer that opens values.
        point: The result of an ``assign``.
        position: The element's position in C order.
    """
    updates: list[Update] = []
    current: Point | None = point
    while current is not None and len(updates) < MOST_STEPS:
        try:
            step_back = _update(tracer, current, position)
        except ReplayError:
            break
        if step_back is None:
            break
        update, current = step_back
        updates.append(update)
    return updates


def _update(tracer: ValueTracer, point: Point, position: int) -> tuple[Update, Point | None] | None:
    """One update, and the result of the one before it, if recorded; None if it is not an update."""
    point, position, opened = tracer.open(point, position)
    if not opened.node.writes or opened.call is None:
        return None
    port = opened.node.writes[0][1]
    target = opened.points[port]
    if target is None or tracer.node(target).name.startswith("optimizer/"):
        return None
    before = float(operand_ranking.element(opened.args[port], position))
    after = float(operand_ranking.element(opened.outs[opened.port], position))
    terms = list(_terms(tracer, point, position, 1.0, target, 0))
    own = [term for term in terms if term.source == "own"]
    others = [term for term in terms if term.source != "own"]
    if not own or not any(term.source in ("gradient", "state") for term in others):
        return None
    decay = math.fsum(term.coefficient for term in own) - 1.0
    others.sort(key=lambda term: -abs(term.amount))
    dtype = np.asarray(opened.outs[opened.port]).dtype
    # A coefficient that differs from 1 by rounding only is not a decay.
    decay = 0.0 if abs(decay) < 1e-7 else decay * before
    update = Update(point.execution.step, before, after, tuple(others), decay, dtype)
    sources = tracer.replay.sources(target.execution) if target.frame is None else []
    return update, point_of(sources[0]) if sources else None


def _terms(
    tracer: ValueTracer, point: Point, position: int, factor: float, target: Point, depth: int
) -> Iterator[Term]:
    """The terms whose sum is an element."""
    if point.frame is None and point.value == target.value:
        yield _term(tracer, "own", point, position, factor)
        return
    node = tracer.node(point)
    if node.phase == "backward":
        yield _term(tracer, "gradient", point, position, factor)
        return
    if node.is_leaf and not node.inputs:
        source: Source = "state" if node.role == "parameter" else "other"
        yield _term(tracer, source, point, position, factor)
        return
    point, position, opened = tracer.open(point, position)
    followed = _followed(tracer, opened, position) if depth < _MOST_DEEP else None
    if followed is None:
        yield _term(tracer, "other", point, position, factor)
        return
    for port, place, share in followed:
        source_point = opened.points[port]
        if source_point is not None:
            yield from _terms(tracer, source_point, place, factor * share, target, depth + 1)


def _followed(
    tracer: ValueTracer, opened: Opened, position: int
) -> list[tuple[int, int, float]] | None:
    """Ports, positions and factors of the operands that sum to an element; None for other ops."""
    assert opened.call is not None
    op = opened.node.op
    reads = opened.call.reads(opened.args, opened.outs, opened.port, position).reads
    places = {
        read.port: int(read.at[0]) for read in reads if read.at.size == 1 and not read.selects
    }
    if op == "assign" or op in _SAME:
        return [(port, place, 1.0) for port, place in places.items()][:1]
    if op in ("add", "subtract") and len(places) == 2:
        return [(0, places[0], 1.0), (1, places[1], 1.0 if op == "add" else -1.0)]
    if op in ("assign_add", "assign_sub") and len(places) == 2:
        return [(0, places[0], 1.0), (1, places[1], 1.0 if op == "assign_add" else -1.0)]
    if op == "negative":
        return [(0, places[0], -1.0)]
    if op == "where":
        return [(port, place, 1.0) for port, place in places.items()][:1]
    if op not in ("multiply", "divide") or len(places) != 2:
        return None
    numbers = [float(operand_ranking.element(opened.args[port], places[port])) for port in (0, 1)]
    if op == "divide":
        return [(0, places[0], 1.0 / numbers[1])] if numbers[1] else None
    carrier = 1 if opened.points[0] is None or _is_factor(tracer, opened.points[0]) else 0
    return [(carrier, places[carrier], numbers[1 - carrier])]


def _is_factor(tracer: ValueTracer, point: Point) -> bool:
    """Whether an operand of a product is a single number, and so only scales."""
    return bool(np.size(tracer.array(point)) == 1)


def _term(tracer: ValueTracer, source: Source, point: Point, position: int, factor: float) -> Term:
    number = float(operand_ranking.element(tracer.array(point), position))
    name = tracer.node(point).name
    if point.frame is None:
        name = tracer.book.values.get(point.value, name)
    return Term(source, name, point, position, number, factor)


# Words


def words_of(updates: list[Update]) -> str:
    """A description of how an element changed, and of each source's share in the change."""
    newest, oldest = updates[0], updates[-1]
    steps = f"step {newest.step:,}"
    if len(updates) > 1:
        steps = f"steps {oldest.step:,} to {newest.step:,}"
    amounts = _amounts(updates)
    change = newest.after - oldest.before
    if not change:
        return _unchanged(updates, steps, amounts)
    verb = "grew" if change > 0 else "fell"
    start, end = distinct_texts(oldest.before, newest.after)
    text = f"{verb} by {number_text(abs(change))} in {steps} ({start} → {end})"
    total = math.fsum(abs(amount) for amount in amounts.values())
    parts = [
        f"{abs(amount) / total:.0%} from {source}"
        for source, amount in sorted(amounts.items(), key=lambda item: -abs(item[1]))
        if total and abs(amount) / total >= 0.005
    ]
    return f"{text}: {', '.join(parts)}"


def _amounts(updates: list[Update]) -> dict[str, float]:
    """The contribution of each source over all updates, by its description."""
    lists: dict[str, list[float]] = {}
    for update in updates:
        for term in update.terms:
            lists.setdefault(_source_words(term, updates), []).append(term.amount)
        if update.decay:
            lists.setdefault("weight decay", []).append(update.decay)
    return {source: math.fsum(amounts) for source, amounts in lists.items()}


def _source_words(term: Term, updates: list[Update]) -> str:
    label = term.name.rpartition("/")[2]
    if term.source == "gradient":
        coefficients = [
            other.coefficient
            for update in updates
            for other in update.terms
            if other.source == "gradient" and other.name == term.name
        ]
        low, high = number_text(min(coefficients), 3), number_text(max(coefficients), 3)
        times = low if low == high else f"{low} to {high}"
        return f"its gradient (times {times})"
    return f"{label} (past gradients)" if term.source == "state" else term.name


def _unchanged(updates: list[Update], steps: str, amounts: dict[str, float]) -> str:
    largest = max((abs(amount) for amount in amounts.values()), default=0.0)
    text = f"did not change in {steps}"
    if not largest:
        return f"{text}: its gradient is 0"
    update = max(updates, key=lambda update: max(abs(term.amount) for term in update.terms))
    amount = max(abs(term.amount) for term in update.terms)
    apart = absorbed(update.before, amount, update.dtype)
    return f"{text}: {apart}" if apart else text
