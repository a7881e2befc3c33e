"""The chain of causes of an element: operand by operand, back to where it was born.

NaN, Inf and zero are followed through the operands that are such; other numbers through the operand
with the largest share. Where a NaN, Inf or zero was born of operands that are none, the operand to
blame is followed a few nodes further.

Invariant: reads only, bounded, and the same each time. What cannot be had ends a chain and says so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nodescope.debug.replay.replay import Replay
from nodescope.debug.why import weighing
from nodescope.debug.why.answer import Cause, Kind, Operand, Why
from nodescope.debug.why.births import birth, state_of, told
from nodescope.debug.why.points import Opened, Point, Points, point_of
from nodescope.debug.why.target import Target, parse_target, positions, value_named
from nodescope.errors import ReplayError
from nodescope.ir.graph import SourceLocation
from nodescope.ops.dependence import Made, kind_of, made_from
from nodescope.record.recording import Recording
from nodescope.telling import index_text

MOST_ELEMENTS = 16
"""Elements of a mask that are followed; evenly chosen."""
MOST_OPERANDS = 6
"""Operands that a cause lists; of the others it says how many there are."""
BEHIND = 5
"""Nodes that the operand to blame for a birth is followed."""


def why(
    recording: Recording,
    target: str | int | Target,
    index: Any = None,
    *,
    step: int | None = None,
    seq: int | None = None,
    replay: Replay | None = None,
    depth: int | None = None,
    width: int = 3,
) -> Why:
    """Why an element is what it is.

    Args:
        recording: Open; arrays that it does not hold are recomputed where that can be.
        target: ``name[index]@step``, or a value id.
        index: In the place of the target's: an int, a tuple of ints and slices, an array of
            booleans, or one of ``nan inf nonfinite zero max min``. None takes the first NaN, else
            the first Inf, else the largest element.
        step, seq: The moment; the target's, or the end of the last step.
        replay: Of the same recording, if there is one already.
        depth: How many nodes back at most; 200 for NaN, Inf and zero, 12 for other numbers if None.
        width: How many operands of the first element are followed.

    Raises:
        ReplayError: There is no such value or element, or its array cannot be had.
    """
    asked = parse_target(target) if isinstance(target, str) else target
    if isinstance(asked, Target):
        step = asked.step if step is None else step
        index = asked.index if index is None else index
    if replay is None:
        replay = Replay(recording, step, seq=seq)
    book = replay.book
    value = asked if isinstance(asked, int) else value_named(book, asked.name)
    moment = replay.last if seq is None else seq
    source = book.source(value, moment + 1)
    name = book.values.get(value, f"value {value}")
    if source is None:
        raise ReplayError(f"{name} has not been computed at this moment")
    points = Points(replay)
    point = point_of(source)
    array = points.array(point)
    wanted = positions(array, index, name)
    chosen = _spaced(wanted)
    follower = Follower(points, depth, width)
    groups: dict[tuple[str, str], tuple[int, Cause]] = {}
    for position in chosen:
        cause = follower.follow(point, position)
        end = cause.culprit()
        key = (end.name, end.birth.kind if end.birth is not None else end.kind)
        count, first = groups.get(key, (0, cause))
        groups[key] = (count + 1, first)
    text = str(asked) if isinstance(asked, Target) else name
    return Why(text, len(wanted), len(chosen), tuple(groups.values()))


def _spaced(wanted: list[int]) -> list[int]:
    if len(wanted) <= MOST_ELEMENTS:
        return wanted
    last = len(wanted) - 1
    return [wanted[i * last // (MOST_ELEMENTS - 1)] for i in range(MOST_ELEMENTS)]


class Follower:
    """Follows elements.

    Args:
        points: Opens values.
        depth, width: See `why`.
    """

    def __init__(self, points: Points, depth: int | None, width: int) -> None:
        self._points = points
        self._depth = depth
        self._width = max(width, 1)

    def follow(self, point: Point, position: int) -> Cause:
        """The cause of one element, with those behind it.

        A chain first, from its beginning; then its links are put into one another from the end.
        """
        links: list[Cause] = []
        sides: list[Cause] = []
        limit, born = self._depth, False
        while True:
            cause, following = self.look(point, position)
            if limit is None:
                limit = 12 if cause.number is None or state_of(cause.number) == "finite" else 200
            if not following or len(links) >= limit:
                cut = cause.kind in ("passed", "computed") and bool(following)
                links.append(replace(cause, kind="limit") if cut else cause)
                break
            if not links:
                sides = [self.look(*each)[0] for each in following[1 : self._width]]
            links.append(cause)
            blame = cause.birth is not None and cause.birth.trait != "infinite"
            if blame and not born:
                limit, born = min(limit, len(links) + BEHIND), True
            point, position = following[0]
        found = links[-1]
        for each in reversed(links[:-1]):
            found = replace(each, causes=(found,))
        return replace(found, causes=(*found.causes, *sides)) if sides else found

    def look(self, point: Point, position: int) -> tuple[Cause, list[tuple[Point, int]]]:
        """One element, and the operands' elements to follow, the first one first."""
        try:
            point, position, opened = self._points.open(point, position)
            return self._explained(point, opened, position)
        except ReplayError as error:
            return self._missing(point, position, error), []

    def _missing(self, point: Point, position: int, error: ReplayError) -> Cause:
        cause = self._cause(point, "missing", f"cannot be looked into: {error.message}")
        try:
            array = self._points.array(point)
        except ReplayError:
            return cause
        return replace(
            cause, at=weighing.index(array, position), number=weighing.element(array, position)
        )

    def _cause(self, point: Point, kind: Kind, words: str) -> Cause:
        book, node = self._points.book, self._points.node(point)
        name = node.name
        if point.frame is None:
            name = book.values.get(point.value, name)
        seq, step, source = point.source.seq, point.execution.step, node.source
        return Cause(
            kind, name, node.op, node.phase, point.value, seq, step,
            words=words, source=source, line=self._line(source),
        )  # fmt: skip

    def _line(self, source: SourceLocation | None) -> str:
        if source is None:
            return ""
        text = self._points.book.recording.source(source.file) or ""
        lines = text.splitlines()
        return lines[source.line - 1].strip() if 0 < source.line <= len(lines) else ""

    def _explained(
        self, point: Point, opened: Opened, position: int
    ) -> tuple[Cause, list[tuple[Point, int]]]:
        array = opened.outs[opened.port]
        number = weighing.element(array, position)
        cause = replace(
            self._cause(point, "computed", ""),
            at=weighing.index(array, position), number=number, how=self._points.how(point),
        )  # fmt: skip
        if opened.call is None:
            return self._entered(cause, opened, position)
        op = opened.call.op
        made = made_from(op, opened.args, opened.call.attrs, opened.outs, position, opened.port)
        total, candidates = weighing.candidates(opened, made, op.name)
        state = state_of(number)
        same = weighing.same(op.name, kind_of(op), state, candidates, made)
        # Libraries may add elements times zero: a NaN among these is a NaN in the result.
        finite = not any(state_of(each.number) in ("nan", "inf") for each in candidates)
        if state == "nan" and (not candidates or (finite and kind_of(op) != "elementwise")):
            same = weighing.any_nan(opened, position)
            candidates = [*same, *candidates]
        if state == "finite":
            ranked = followed = weighing.ranked(op.name, candidates, number)
            words = weighing.made_words(op.name, ranked, opened, made, total)
        elif same:
            first, ranked = same[0], [*same, *(each for each in candidates if each not in same)]
            where = _told_at(self._named(opened, first), opened, first)
            words = f"{op.name} passes on the {told(first.number)} of {where}"
            many = weighing.count(opened, made, state)
            if many > 1:
                words += f" (one of {many:,} such operands)"
            cause = replace(cause, kind="passed")
            followed = same
        else:
            candidates = weighing.told_first(op.name, candidates, opened, made, position)
            numbers = [each.number for each in candidates]
            dtype = array.dtype.name
            terms = None
            if made.terms is not None:
                terms = [each.term for each in candidates if each.port == made.paired[0]]
            many = total if made.terms is None else made.terms.size
            born = birth(op.name, numbers, number, dtype, terms, many)
            at = born.blame
            blamed = weighing.blamed(candidates, at, born.trait)
            ranked = [*blamed, *(each for each in candidates if each not in blamed)]
            cause = replace(cause, kind="birth", birth=born, ranges=self._ranges(opened))
            followed = blamed or ([] if at >= 0 else weighing.ranked(op.name, candidates, number))
            words = born.words
        operands = tuple(
            Operand(
                self._named(opened, each), each.port, _place(opened, each), each.number, each.term,
                each.share,
            )
            for each in ranked[:MOST_OPERANDS]
        )  # fmt: skip
        operands += tuple(self._selectors(opened, made))
        if opened.doubt:
            words += "; but these operands do not reproduce it: one may be from another step"
        cause = replace(cause, words=words, operands=operands, others=max(total - MOST_OPERANDS, 0))
        following = [
            (source, each.position)
            for each in followed
            if (source := opened.points[each.port]) is not None
        ]
        return cause, following

    def _entered(
        self, cause: Cause, opened: Opened, position: int
    ) -> tuple[Cause, list[tuple[Point, int]]]:
        before = opened.points[0] if opened.points else None
        if opened.by_hand:
            return replace(cause, kind="leaf", words=opened.by_hand), []
        if before is None:
            words = {"constant": "a constant"}.get(cause.op, f"{cause.op} data, as it was given")
            return replace(cause, kind="leaf", words=words), []
        known = self._points.array(before)
        node = self._points.node(before)
        step = before.execution.step
        same = known.shape == opened.outs[0].shape and (
            weighing.element(known, position) == cause.number or state_of(cause.number) == "nan"
        )
        if not same:
            words = "the program changed it after a node computed it"
            return replace(cause, kind="leaf", words=words), []
        words = f"as {node.name} left it in step {step}"
        return replace(cause, kind="passed", words=words), [(before, position)]

    def _named(self, opened: Opened, each: weighing.Candidate) -> str:
        point = opened.points[each.port]
        if point is None:
            return told(opened.args[each.port])
        if point.frame is not None:
            return self._points.node(point).name
        return self._points.book.values.get(point.value, "")

    def _selectors(self, opened: Opened, made: Made) -> list[Operand]:
        found = []
        for read in made.reads:
            if read.selects and read.at.size == 1:
                each = weighing.Candidate(read.port, int(read.at[0]), None)
                number = weighing.element(np.asarray(opened.args[read.port]), each.position)
                found.append(
                    Operand(self._named(opened, each), read.port, _place(opened, each), number,
                            selects=True)
                )  # fmt: skip
        return found

    def _ranges(self, opened: Opened) -> tuple[str, ...]:
        found = []
        for port, each in enumerate(opened.args):
            array = np.asarray(each)
            if opened.points[port] is not None and array.dtype.kind in "fiu":
                name = self._named(opened, weighing.Candidate(port, 0, None))
                found.append(f"{name} {weighing.range_of(array)}")
        return tuple(dict.fromkeys(found))


def _place(opened: Opened, each: weighing.Candidate) -> tuple[int, ...] | None:
    if opened.points[each.port] is None:
        return None
    return weighing.index(np.asarray(opened.args[each.port]), each.position)


def _told_at(name: str, opened: Opened, each: weighing.Candidate) -> str:
    place = _place(opened, each)
    return f"{name} at {index_text(place)}" if place else name
