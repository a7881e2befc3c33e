"""The chain of causes of an element: operand by operand, back to its origin.

NaN, Inf and zero are followed through operands of the same kind; other numbers through the operand
with the largest share. Where a NaN, Inf or zero arises from other operands, the operand to blame is
followed a few nodes further. If an operation raised, its most suspicious input is followed.

Invariant: only reads, is bounded and deterministic. Missing data ends a chain with the reason.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nodescope.console_output import index_text
from nodescope.debug.replay.branch import Branch
from nodescope.debug.replay.execution_index import ExecutionIndex
from nodescope.debug.replay.replay import Replay
from nodescope.debug.why import effects, operand_ranking, raised, slopes, updates
from nodescope.debug.why.answer import Cause, Kind, Operand, Why
from nodescope.debug.why.body_frames import Point, point_of
from nodescope.debug.why.nonfinite_origins import birth, number_text, state_of
from nodescope.debug.why.target import Target, parse_target, positions, value_named
from nodescope.debug.why.value_tracing import Opened, ValueTracer
from nodescope.errors import ReplayError
from nodescope.events import Array
from nodescope.ir.graph import SourceLocation
from nodescope.ops.reading import ElementDependence
from nodescope.record.recording import Recording
from nodescope.record.rows import HAS_INF, HAS_NAN, HAS_SUMMARY, Execution

MOST_ELEMENTS = 16
"""The number of elements that are followed; chosen evenly if the target selects more."""
MOST_OPERANDS = 6
"""The number of operands that a cause lists; the others are counted."""
_FLAGS = {"nan": HAS_NAN, "inf": HAS_INF, "nonfinite": HAS_NAN | HAS_INF}
BEHIND = 5
"""The number of nodes for which the operand to blame for a birth is followed."""


def why(
    recording: Recording,
    target: str | int | Target,
    index: Any = None,
    *,
    step: int | None = None,
    seq: int | None = None,
    replay: Replay | None = None,
    branch: Branch | None = None,
    depth: int | None = None,
    width: int = 3,
) -> Why:
    """Explain how an element got its content.

    Args:
        recording: The open recording; arrays that it lacks are recomputed if possible.
        target: ``name[index]@step``, or a value id.
        index: Overrides the target's index: an int, a tuple of ints and slices, an array of
            booleans, or one of ``nan inf nonfinite zero max min``. None takes the first NaN, else
            the first Inf, else the largest element.
        step, seq: The moment; by default the target's step, else the end of the first step in which
            the value has NaN or Inf, else the end of the last step.
        replay: An existing replay of the same recording; if None, a new one is created.
        branch: Explains the value in this what-if branch, following the branch's changes first.
        depth: The maximum length of a chain; if None, 200 for NaN, Inf and zero, and 12 otherwise.
        width: The number of operands of the first element that are reported.

    Raises:
        ReplayError: There is no such value or element, or its array is unavailable.
    """
    element = parse_target(target) if isinstance(target, str) else target
    if isinstance(element, Target):
        step = element.step if step is None else step
        index = element.index if index is None else index
    book = replay.book if replay is not None else ExecutionIndex(recording)
    value = element if isinstance(element, int) else value_named(book, element.name)
    note = ""
    if replay is None:
        sought = index if isinstance(index, str) else None
        if step is None and seq is None and (index is None or sought in _FLAGS):
            step, note = _first_step(book, value, sought)
        replay = Replay(recording, step, seq=seq, book=book)
    moment = replay.last if seq is None else seq
    source = book.source(value, moment + 1)
    name = book.values.get(value, f"value {value}")
    if branch is not None and source is not None and source.seq > branch.until:
        branch = None  # the branch ends before this execution
    points = ValueTracer(replay, branch)
    failed = book.raised(value, moment + 1) if index is None else None
    if failed is not None and (branch is None or (value, failed.seq) not in branch.stuck):
        cause = Follower(points, depth, width).raised(value, failed)
        return Why(name, 1, 1, ((1, cause),), note)
    if source is None:
        raise ReplayError(f"{name} has not been computed yet at this point")
    point = point_of(source)
    array = points.array(point)
    elements = positions(array, index, name)
    if index is None and state_of(operand_ranking.element(array, elements[0])) == "finite":
        elements = points.changed_by_hand(point)[:1] or elements
    if index is None and not points.differs(point, elements[0]):
        farthest = points.farthest(point)
        elements = elements if farthest is None else [farthest]
    chosen = _spaced(elements)
    follower = Follower(points, depth, width)
    groups: dict[tuple[str, str], tuple[int, Cause]] = {}
    for position in chosen:
        cause = follower.follow(point, position)
        end = cause.culprit()
        key = (end.name, end.birth.kind if end.birth is not None else end.kind)
        count, first = groups.get(key, (0, cause))
        groups[key] = (count + 1, first)
    text = str(element) if isinstance(element, Target) else name
    return Why(text, len(elements), len(chosen), tuple(groups.values()), note)


def _first_step(book: ExecutionIndex, value: int, which: str | None) -> tuple[int | None, str]:
    """The first step in which a value has NaN or Inf, and a note if later steps have it as well.

    The step is None if there is none, or if that is not certain from the recording.

    Raises:
        ReplayError: ``which`` names NaN or Inf, and the complete statistics show none.
    """
    number = book.producer.get(value)
    ran = book.ran(number) if number is not None else []
    flag = _FLAGS[which or "nonfinite"]
    broken = [execution for execution in ran if execution.flags & flag]
    flags_seen = 0
    for execution in broken:
        flags_seen |= execution.flags & flag
    word = {HAS_NAN: "NaN", HAS_INF: "Inf"}.get(flags_seen or flag, "NaN or Inf")
    if broken:
        first, last = broken[0].step, broken[-1].step
        if first == last:
            return first, ""
        steps = len({execution.step for execution in broken})
        return first, f"the first of {steps:,} steps with {word}; @{last} explains the last one"
    if which is not None and ran and all(execution.flags & HAS_SUMMARY for execution in ran):
        name, times = book.values.get(value, f"value {value}"), f"{len(ran):,} times"
        raise ReplayError(f"{name} has no {word}: it was recorded {times}, always without")
    return None, ""


def _spaced(elements: list[int]) -> list[int]:
    if len(elements) <= MOST_ELEMENTS:
        return elements
    last = len(elements) - 1
    return [elements[i * last // (MOST_ELEMENTS - 1)] for i in range(MOST_ELEMENTS)]


class Follower:
    """Follows elements back to their origins.

    Args:
        points: The tracer that opens values.
        depth, width: See `why`.
    """

    def __init__(self, points: ValueTracer, depth: int | None, width: int) -> None:
        self._points = points
        self._depth = depth
        self._width = max(width, 1)

    def follow(self, point: Point, position: int) -> Cause:
        """The cause of one element, with the chain of causes nested within it.

        The loop collects the links from the element to its origin; they are then nested from the
        end.
        """
        links: list[Cause] = []
        sides: list[Cause] = []
        depth = limit = self._depth
        born = False
        while True:
            cause, following = self.look(point, position)
            if limit is None or depth is None:
                finite = cause.number is None or state_of(cause.number) == "finite"
                finite = finite and cause.recorded is None
                depth = limit = 12 if finite else 200
            if born and cause.is_nonfinite:  # the operand to blame was itself made of NaN or Inf
                limit, born = depth, False
            if not following or len(links) >= limit:
                cut = cause.kind in ("passed", "computed") and bool(following)
                links.append(replace(cause, kind="limit") if cut else cause)
                break
            if not links:
                sides = [self.look(*side)[0] for side in following[1 : self._width]]
            links.append(cause)
            blame = cause.birth is not None and cause.birth.trait != "infinite"
            blame = blame and cause.recorded is None
            if blame and not born:
                limit, born = min(limit, len(links) + BEHIND), True
            point, position = following[0]
        nested = links[-1]
        for link in reversed(links[:-1]):
            nested = replace(link, causes=(nested,))
        return replace(nested, causes=(*nested.causes, *sides)) if sides else nested

    def raised(self, value: int, execution: Execution) -> Cause:
        """The cause of a missing value: the exception raised, and the most suspicious input."""
        inputs = raised.inputs_of(self._points, execution)
        cause = self._cause(Point(value, execution), "raised", "")
        error = self._points.book.recording.failure(execution.seq) or "an exception"
        causes = () if inputs.follow is None else (self.follow(*inputs.follow),)
        if causes and not causes[0].is_nonfinite:
            # No single element is to blame, so only the origin of the input is reported.
            origin = causes[0]
            words = origin.words if origin.kind == "leaf" else ""
            causes = (replace(origin, at=(), number=None, words=words, operands=(), causes=()),)
        return replace(
            cause, words=inputs.reshaped, error=raised.message_of(error, cause.source),
            operands=inputs.operands[:MOST_OPERANDS],
            others=max(len(inputs.operands) - MOST_OPERANDS, 0), ranges=inputs.ranges,
            causes=causes,
        )  # fmt: skip

    def look(self, point: Point, position: int) -> tuple[Cause, list[tuple[Point, int]]]:
        """The cause of one element alone, and the operands' elements to follow, in order."""
        try:
            point, position, opened = self._points.open(point, position)
            cause, following = self._explained(point, opened, position)
            return self._compared(cause, following, point, opened, position)
        except ReplayError as error:
            return self._missing(point, position, error), []

    def _compared(
        self,
        cause: Cause,
        following: list[tuple[Point, int]],
        point: Point,
        opened: Opened,
        position: int,
    ) -> tuple[Cause, list[tuple[Point, int]]]:
        """In a branch: add the recorded number to the cause, and follow changed operands first."""
        points = self._points
        old = points.as_recorded(point)
        if old is None or not points.differs(point, position):
            return cause, following
        cause = replace(cause, recorded=operand_ranking.element(old, position))
        if opened.call is None:
            return cause, following
        changed = [one for one in following if points.differs(*one)]
        if not changed:
            reads = opened.call.reads(opened.args, opened.outs, opened.port, position).reads
            changed = [
                (source, at)
                for read in reads
                if (source := opened.points[read.port]) is not None
                and (at := _most_changed(points, source, read.at)) is not None
            ]
        return cause, [*changed, *(one for one in following if one not in changed)]

    def _missing(self, point: Point, position: int, error: ReplayError) -> Cause:
        cause = self._cause(point, "missing", f"cannot be traced further: {error.message}")
        try:
            array = self._points.array(point)
        except ReplayError:
            return cause
        return replace(
            cause,
            at=operand_ranking.index(array, position),
            number=operand_ranking.element(array, position),
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
        number = operand_ranking.element(array, position)
        cause = replace(
            self._cause(point, "computed", ""),
            at=operand_ranking.index(array, position), number=number, how=self._points.how(point),
        )  # fmt: skip
        if opened.call is None:
            return self._entered(cause, opened, position)
        if opened.node.writes and state_of(number) == "finite":
            latest = updates.updates_of(self._points, point, position)
            if latest:
                return self._updated(cause, latest)
        op, kind = opened.node.op, opened.call.kind
        derivation = opened.call.reads(opened.args, opened.outs, opened.port, position)
        total, candidates = operand_ranking.candidates(opened, derivation, op)
        state = state_of(number)
        alike = operand_ranking.same(op, kind, state, candidates, derivation)
        if derivation.note:  # uncertain: the operand's element at the same position is likeliest
            alike.sort(key=lambda candidate: not _same_place(opened, candidate, position))
        # A library may include other elements multiplied by zero: a NaN there makes the result NaN.
        finite = not any(state_of(candidate.number) in ("nan", "inf") for candidate in candidates)
        if state == "nan" and (not candidates or (finite and kind != "elementwise")):
            alike = operand_ranking.any_nan(opened, position)
            candidates = [*alike, *candidates]
        flat = slopes.slope_step(
            opened, derivation, candidates, number, lambda one: self._named(opened, one),
            lambda one: self._op_of(opened, one),
        )  # fmt: skip
        if flat is not None:
            words, ranked, followed = flat.words, candidates, flat.followed
            cause = replace(
                cause, kind="passed" if flat.birth is None else "birth", birth=flat.birth
            )
        elif state == "finite":
            ranked = followed = operand_ranking.ranked(op, candidates, number)
            words = operand_ranking.made_words(op, ranked, opened, derivation, total)
            if kind == "elementwise":
                by_port = {candidate.port: candidate.number for candidate in candidates}
                numbers = [by_port[port] for port in sorted(by_port)]
                effect = effects.effect_of(op, numbers, number, array.dtype)
                words += f"; {effect}" if effect else ""
        elif alike:
            first, ranked = (
                alike[0],
                [*alike, *(candidate for candidate in candidates if candidate not in alike)],
            )
            place = _told_at(self._named(opened, first), opened, first)
            words = f"{op} passes on the {number_text(first.number)} of {place}"
            matching = operand_ranking.count(opened, derivation, state)
            many = effects.alike_words(number_text(first.number), matching, total)
            words += f" ({many})" if many else ""
            cause = replace(cause, kind="passed")
            followed = alike
        else:
            candidates = operand_ranking.blame_order(op, candidates, opened, derivation, position)
            numbers = [candidate.number for candidate in candidates]
            dtype = array.dtype.name
            terms = None
            if derivation.terms is not None:
                terms = [
                    candidate.term
                    for candidate in candidates
                    if candidate.port == derivation.paired[0]
                ]
            count = total if derivation.terms is None else derivation.terms.size
            born = birth(op, numbers, number, dtype, terms, count)
            at = born.blame
            blamed = operand_ranking.blamed(candidates, at, born.trait)
            ranked = [*blamed, *(candidate for candidate in candidates if candidate not in blamed)]
            cause = replace(cause, kind="birth", birth=born, ranges=self._ranges(opened))
            followed = blamed or ([] if at >= 0 else operand_ranking.ranked(op, candidates, number))
            words = born.words
            if born.kind == "softmax of all -inf":
                axis = opened.call.attrs.get("axis", -1)
                if isinstance(axis, int):
                    words += f": {effects.masked_row(op, cause.at, axis)}"
                    cause = replace(cause, birth=replace(born, words=words))
        operands = tuple(
            Operand(
                self._named(opened, candidate),
                candidate.port,
                _place(opened, candidate),
                candidate.number,
                candidate.term,
                share,
            )
            for candidate, share in zip(
                ranked[:MOST_OPERANDS],
                operand_ranking.shares_of(ranked[:MOST_OPERANDS]),
                strict=True,
            )
        )
        operands += tuple(self._selectors(opened, derivation))
        if derivation.note:
            words += f" ({derivation.note})"
        if opened.doubt:
            words += ", but these operands do not reproduce it: one may be from another step"
        cause = replace(cause, words=words, operands=operands, others=max(total - MOST_OPERANDS, 0))
        following = [
            (source, candidate.position)
            for candidate in followed
            if (source := opened.points[candidate.port]) is not None
        ]
        return cause, following

    def _updated(
        self, cause: Cause, latest: list[updates.Update]
    ) -> tuple[Cause, list[tuple[Point, int]]]:
        """The cause of a weight's element: the terms that changed it in the last steps."""
        terms = latest[0].terms[:MOST_OPERANDS]
        total = sum(abs(term.amount) for term in latest[0].terms) + abs(latest[0].decay)
        places = [
            operand_ranking.index(self._points.array(term.point), term.position) for term in terms
        ]
        operands = tuple(
            Operand(
                term.name, nth, place, term.number, term.amount,
                abs(term.amount) / total if total else None,
            )
            for nth, (term, place) in enumerate(zip(terms, places, strict=True))
        )  # fmt: skip
        words = updates.words_of(latest)
        others = max(len(latest[0].terms) - MOST_OPERANDS, 0)
        cause = replace(cause, kind="updated", words=words, operands=operands, others=others)
        gradients = [term for term in latest[0].terms if term.source == "gradient"]
        followed = gradients or list(latest[0].terms)
        return cause, [(term.point, term.position) for term in followed]

    def _entered(
        self, cause: Cause, opened: Opened, position: int
    ) -> tuple[Cause, list[tuple[Point, int]]]:
        before = opened.points[0] if opened.points else None
        if opened.by_hand:
            kind: Kind = "set" if opened.set_here else "leaf"
            return replace(cause, kind=kind, words=opened.by_hand), []
        if before is None:
            constant = opened.node.role == "constant"
            words = "a constant" if constant else f"{cause.op} data from the program"
            return replace(cause, kind="leaf", words=words), []
        assigned = self._points.array(before)
        node = self._points.node(before)
        step = before.execution.step
        unchanged = assigned.shape == opened.outs[0].shape and (
            operand_ranking.element(assigned, position) == cause.number
            or state_of(cause.number) == "nan"
        )
        if not unchanged:
            words = f"the program changed it after step {step}, outside of recorded operations"
            if self._points.book.lost(before.source, cause.seq):
                words = (
                    f"updated in steps that were not observed; {node.name} gave it its last "
                    f"recorded value in step {step}"
                )
            return replace(cause, kind="leaf", words=words), []
        words = f"as assigned by {node.name} in step {step}"
        if node.is_leaf:
            words = f"as it was in step {step}"
        return replace(cause, kind="passed", words=words), [(before, position)]

    def _named(self, opened: Opened, candidate: operand_ranking.Candidate) -> str:
        point = opened.points[candidate.port]
        if point is None:
            return number_text(opened.args[candidate.port])
        if point.frame is not None:
            return self._points.node(point).name
        return self._points.book.values.get(point.value, "")

    def _op_of(self, opened: Opened, candidate: operand_ranking.Candidate) -> str:
        point = opened.points[candidate.port]
        return self._points.node(point).op if point is not None else ""

    def _selectors(self, opened: Opened, derivation: ElementDependence) -> list[Operand]:
        selectors = []
        for read in derivation.reads:
            if read.selects and read.at.size == 1:
                candidate = operand_ranking.Candidate(read.port, int(read.at[0]), None)
                number = operand_ranking.element(
                    np.asarray(opened.args[read.port]), candidate.position
                )
                selectors.append(
                    Operand(self._named(opened, candidate), read.port, _place(opened, candidate),
                            number, selects=True)
                )  # fmt: skip
        return selectors

    def _ranges(self, opened: Opened) -> tuple[str, ...]:
        ranges = []
        for port, operand in enumerate(opened.args):
            array = np.asarray(operand)
            if opened.points[port] is not None and array.dtype.kind in "fiu":
                name = self._named(opened, operand_ranking.Candidate(port, 0, None))
                ranges.append(f"{name} {operand_ranking.range_of(array)}")
        return tuple(dict.fromkeys(ranges))


def _most_changed(points: ValueTracer, source: Point, at: Array) -> int | None:
    changed = points.changed(source)
    if changed is None or not changed[0][at].any():
        return None
    sizes = np.where(changed[0][at], np.nan_to_num(changed[1][at], nan=np.inf), -1.0)
    return int(at[np.argmax(sizes)])


def _place(opened: Opened, candidate: operand_ranking.Candidate) -> tuple[int, ...] | None:
    if opened.points[candidate.port] is None:
        return None
    return operand_ranking.index(np.asarray(opened.args[candidate.port]), candidate.position)


def _same_place(opened: Opened, candidate: operand_ranking.Candidate, position: int) -> bool:
    shape = np.shape(opened.args[candidate.port])
    return candidate.position == position and shape == opened.outs[opened.port].shape


def _told_at(name: str, opened: Opened, candidate: operand_ranking.Candidate) -> str:
    place = _place(opened, candidate)
    return f"{name} at {index_text(place)}" if place else name
