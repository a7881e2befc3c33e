"""The chain of causes of an element: operand by operand, back to where it was born.

NaN, Inf and zero are followed through the operands that are such; other numbers through the operand
with the largest share. Where a NaN, Inf or zero was born of operands that are none, the operand to
blame is followed a few nodes further.

Invariant: reads only, bounded, and the same each time. What cannot be had ends a chain and says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from nodescope.debug.replay.replay import Replay
from nodescope.debug.why.births import Birth, birth, state_of, told
from nodescope.debug.why.points import Opened, Point, Points
from nodescope.debug.why.target import Target, parse_target, positions, value_named
from nodescope.errors import ReplayError
from nodescope.events import Array
from nodescope.ir.graph import Phase, SourceLocation
from nodescope.ops.dependence import Made, kind_of, made_from
from nodescope.ops.reading import flat
from nodescope.record.recording import Recording

MOST_ELEMENTS = 16
"""Elements of a mask that are followed; evenly chosen."""
MOST_OPERANDS = 6
"""Operands that a cause lists; of the others it says how many there are."""
BEHIND = 5
"""Nodes that the operand to blame for a birth is followed."""

Kind = Literal["leaf", "birth", "passed", "computed", "missing", "limit"]
_BY_SIZE = {"add", "subtract"}
_BY_FACTOR = {"multiply", "divide", "power"}
_KEEPS_ZERO = {
    "multiply", "divide", "sqrt", "square", "abs", "fabs", "negative", "positive", "sin", "tan",
    "tanh", "relu", "where", "astype", "copy", "assign", "expm1", "log1p", "arcsin", "arctan",
    "keep", "dropout", "clip", "maximum", "minimum", "cbrt", "leaky_relu", "gelu", "silu", "erf",
}  # fmt: skip


@dataclass(frozen=True)
class Operand:
    """An element that another one is made from.

    Attributes:
        name: The value's, or the text of a Python scalar.
        port: Of the op.
        at: Its index; None for a Python scalar.
        number: What it is.
        term: What it adds to the result, where that is a sum.
        share: Of the result, from 0 to 1, where that is a sum.
        selects: It only says what is taken.
    """

    name: str
    port: int
    at: tuple[int, ...] | None
    number: Any
    term: Any = None
    share: float | None = None
    selects: bool = False


@dataclass(frozen=True)
class Cause:
    """One element of one value, and how it came to be.

    Attributes:
        kind: ``birth`` (NaN, Inf or zero of operands that are none), ``passed`` (on from an
            operand), ``computed`` (any other number), ``leaf`` (it entered here), ``missing`` (the
            recording does not hold enough) or ``limit`` (followed no further).
        name: Of the value.
        op, phase: Of the node that made it.
        value, seq, step: Which value, written by which execution, in which step.
        at, number: Which element, and what it is; None where it could not be had.
        how: ``recorded``, ``recomputed``, or ``in <kernel>``.
        words: What happened here.
        birth: Of a birth: how.
        operands: What matters, first; ``others`` are not listed.
        ranges: Of a birth: what is in the op's inputs.
        source, line: The user's line, and its text.
        causes: The operands that are followed.
    """

    kind: Kind
    name: str
    op: str
    phase: Phase
    value: int
    seq: int
    step: int
    at: tuple[int, ...] = ()
    number: Any = None
    how: str = ""
    words: str = ""
    birth: Birth | None = None
    operands: tuple[Operand, ...] = ()
    others: int = 0
    ranges: tuple[str, ...] = ()
    source: SourceLocation | None = None
    line: str = ""
    causes: tuple[Cause, ...] = ()

    def chain(self) -> list[Cause]:
        """This one, its first cause, that one's first cause, and so on."""
        found = [self]
        while found[-1].causes:
            found.append(found[-1].causes[0])
        return found

    def culprit(self) -> Cause:
        """Where the chain ends that this is about: the birth, the leaf, or what is not known.

        A NaN that was born of an Inf is the fault of what made the Inf.
        """
        best: Cause | None = None
        chain = self.chain()
        for each in chain:
            if best is not None and state_of(each.number) not in ("nan", "inf"):
                return best
            if each.birth is not None:
                best = each
                if each.birth.trait != "infinite":
                    return best
        end = chain[-1]
        return end if best is None or end.kind in ("leaf", "missing", "limit") else best


@dataclass(frozen=True)
class Why:
    """The answer.

    Attributes:
        asked: The target's text.
        elements: How many elements were meant.
        followed: How many of them were followed.
        groups: Those with the same culprit together: how many, and the cause of the first.
    """

    asked: str
    elements: int
    followed: int
    groups: tuple[tuple[int, Cause], ...]

    @property
    def root(self) -> Cause:
        """The cause of the first element."""
        return self.groups[0][1]

    @property
    def culprit(self) -> Cause:
        """Where the first element's chain ends."""
        return self.root.culprit()


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
    writer = book.writer(value, moment + 1)
    name = book.values.get(value, f"value {value}")
    if writer is None:
        raise ReplayError(f"{name} was not computed up to here")
    points = Points(replay)
    point = Point(value, writer)
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


@dataclass
class _Candidate:
    """An operand's element that may be followed."""

    port: int
    position: int
    number: Any
    term: Any = None
    share: float | None = None


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
            point, opened = self._points.open(point)
            return self._explained(point, opened, position)
        except ReplayError as error:
            return self._missing(point, position, error), []

    def _missing(self, point: Point, position: int, error: ReplayError) -> Cause:
        cause = self._cause(point, "missing", f"cannot be looked into: {error.message}")
        try:
            array = self._points.array(point)
        except ReplayError:
            return cause
        return replace(cause, at=_index(array, position), number=_number(array, position))

    def _cause(self, point: Point, kind: Kind, words: str) -> Cause:
        book, node = self._points.book, self._points.node(point)
        name = node.name
        if point.frame is None:
            name = book.values.get(point.value, name)
        execution, source = point.execution, node.source
        return Cause(
            kind, name, node.op, node.phase, point.value, execution.seq, execution.step,
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
        number = _number(array, position)
        cause = replace(
            self._cause(point, "computed", ""),
            at=_index(array, position), number=number, how=self._points.how(point),
        )  # fmt: skip
        if opened.call is None:
            return self._entered(cause, opened, position)
        op = opened.call.op
        made = made_from(op, opened.args, opened.call.attrs, opened.outs, position, opened.port)
        candidates = _candidates(opened, made, op.name)
        state = state_of(number)
        same = _same(op.name, kind_of(op), state, candidates, made)
        if state == "nan" and not candidates:
            same = _any_nan(opened, position)
            candidates = [*same, *candidates]
        if state == "finite":
            ranked = followed = _ranked(op.name, candidates)
            words = _made_words(op.name, number, ranked, made)
        elif same:
            first, ranked = same[0], [*same, *(each for each in candidates if each not in same)]
            where = _told_at(self._named(opened, first), opened, first)
            words = f"{op.name} passes on the {told(first.number)} of {where}"
            if len(same) > 1:
                words += f" (one of {len(same)} such operands)"
            cause = replace(cause, kind="passed")
            followed = same
        else:
            numbers = [each.number for each in candidates]
            dtype = array.dtype.name
            born = birth(op.name, numbers, number, dtype, made.terms)
            at = born.blame
            blamed = [candidates[at]] if 0 <= at < len(candidates) else []
            ranked = [*blamed, *(each for each in candidates if each not in blamed)]
            cause = replace(cause, kind="birth", birth=born, ranges=self._ranges(opened))
            followed = blamed or ([] if at >= 0 else _ranked(op.name, candidates))
            words = born.words
        operands = tuple(
            Operand(
                self._named(opened, each), each.port, _place(opened, each), each.number, each.term,
                each.share,
            )
            for each in ranked[:MOST_OPERANDS]
        )  # fmt: skip
        operands += tuple(self._selectors(opened, made))
        cause = replace(
            cause, words=words, operands=operands, others=max(len(ranked) - MOST_OPERANDS, 0)
        )
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
        if before is None:
            words = {"constant": "a constant"}.get(cause.op, f"{cause.op} data, as it was given")
            return replace(cause, kind="leaf", words=words), []
        known = self._points.array(before)
        node = self._points.node(before)
        step = before.execution.step
        same = known.shape == opened.outs[0].shape and (
            _number(known, position) == cause.number or state_of(cause.number) == "nan"
        )
        if not same:
            words = "it was changed by the program since a node gave it"
            return replace(cause, kind="leaf", words=words), []
        words = f"as {node.name} left it in step {step}"
        return replace(cause, kind="passed", words=words), [(before, position)]

    def _named(self, opened: Opened, each: _Candidate) -> str:
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
                each = _Candidate(read.port, int(read.at[0]), None)
                number = _number(np.asarray(opened.args[read.port]), each.position)
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
                name = self._named(opened, _Candidate(port, 0, None))
                found.append(f"{name} {range_of(array)}")
        return tuple(dict.fromkeys(found))


def range_of(array: Array) -> str:
    """What is in an array: its range, and how many elements are special."""
    if not array.size:
        return "is empty"
    with np.errstate(all="ignore"):
        finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array.reshape(-1)
    words = "has nothing finite"
    if finite.size:
        low, high = finite.min(), finite.max()
        words = f"ranges from {told(low)} to {told(high)}" if low != high else f"is {told(low)}"
    special = [
        ("negative", int(np.sum(array < 0))),
        ("zero", int(np.sum(array == 0))),
        ("nan", int(np.sum(array != array))),
        ("infinite", int(np.sum(np.isinf(array))) if array.dtype.kind == "f" else 0),
    ]
    told_counts = [f"{count:,} {what}" for what, count in special if count]
    more = f" ({', '.join(told_counts)} of {array.size:,})" if told_counts else ""
    return words + more


def _index(array: Array, position: int) -> tuple[int, ...]:
    return tuple(int(each) for each in np.unravel_index(position, array.shape))


def _number(array: Any, position: int) -> Any:
    return flat(array, np.array([position], np.int64))[0]


def _place(opened: Opened, each: _Candidate) -> tuple[int, ...] | None:
    if opened.points[each.port] is None:
        return None
    return _index(np.asarray(opened.args[each.port]), each.position)


def _told_at(name: str, opened: Opened, each: _Candidate) -> str:
    place = _place(opened, each)
    return f"{name} at {place}" if place else name


def _candidates(opened: Opened, made: Made, op: str) -> list[_Candidate]:
    """The operands' elements, by port and in the order of the terms."""
    found: list[_Candidate] = []
    shares = _shares(made.terms)
    for read in made.reads:
        if read.selects:
            continue
        numbers = flat(opened.args[read.port], read.at)
        paired = read.port in made.paired and made.terms is not None
        for i, (position, number) in enumerate(zip(read.at.tolist(), numbers, strict=True)):
            term = made.terms[i] if paired and made.terms is not None else None
            share = shares[i] if paired and made.how == "sum" else None
            found.append(_Candidate(read.port, position, number, term, share))
    if op in _BY_SIZE and len(found) == 2:
        sizes = _shares(np.array([complex(each.number) for each in found]))
        for each, size in zip(found, sizes, strict=True):
            each.share = size
    return found


def _shares(terms: Array | None) -> list[float]:
    if terms is None or not terms.size:
        return []
    with np.errstate(all="ignore"):
        sizes = np.abs(terms.astype(np.complex128))
        total = float(sizes.sum())
        if not math.isfinite(total) or not total:
            return [1.0 if not math.isfinite(each) else 0.0 for each in sizes.tolist()]
        return [float(each) for each in sizes / total]


def _same(
    op: str, kind: str, state: str, candidates: list[_Candidate], made: Made
) -> list[_Candidate]:
    """Of NaN, Inf and zero: the operands that are such and pass it on."""
    if state == "finite":
        return []
    same = [each for each in candidates if state_of(each.number) == state]
    if state != "zero":
        return same
    if made.how == "sum" or op in _BY_SIZE:
        terms = made.terms if made.terms is not None else [each.number for each in candidates]
        return same if all(state_of(each) == "zero" for each in terms) else []
    if op == "divide":
        return [each for each in same if each.port == 0]
    passes = op in _KEEPS_ZERO or kind in ("moved", "extreme", "ordered", "winner", "chosen",
                                           "product", "replaced")  # fmt: skip
    return same if passes else []


def _any_nan(opened: Opened, position: int) -> list[_Candidate]:
    """A NaN among the operands that has no share by derivatives, as in a softmax of one element."""
    shape = opened.outs[opened.port].shape
    for port, each in enumerate(opened.args):
        array = np.asarray(each)
        if opened.points[port] is None or array.dtype.kind in "biu":
            continue
        with np.errstate(all="ignore"):
            places = np.flatnonzero(array != array)
        if places.size:
            here = array.shape == shape and position in places
            at = position if here else int(places[0])
            return [_Candidate(port, at, _number(array, at))]
    return []


def _ranked(op: str, candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """The operands by how much of the result is theirs."""

    def key(each: _Candidate) -> tuple[float, float]:
        size = abs(complex(each.number)) if each.number is not None else 0.0
        size = size if math.isfinite(size) else math.inf
        if each.share is not None:
            return -each.share, -size
        if op in _BY_FACTOR and size:
            return -abs(math.log(size)) if math.isfinite(size) else -math.inf, -size
        return 0.0, -size

    return sorted(candidates, key=key)


def _made_words(op: str, number: Any, ranked: list[_Candidate], made: Made) -> str:
    if not ranked:
        return f"{op} makes it of no operand"
    first = ranked[0]
    if made.how == "sum" and made.terms is not None and made.terms.size > 2:
        share = f", the largest makes up {first.share:.0%}" if first.share is not None else ""
        return f"{op} of {made.terms.size:,} terms{share}"
    if len(ranked) > 4:
        return f"{op} of {len(ranked):,} elements"
    numbers = {each.port: told(each.number) for each in reversed(ranked)}
    return f"{op} of {' and '.join(numbers[port] for port in sorted(numbers))}"
