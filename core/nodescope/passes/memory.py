"""Memory: lifetimes of values, their places in one arena, and in-place operations.

A plan is made from the steps of a program: the values that each reads and writes. Back ends provide
them, since they know the layouts and the steps inside kernels.

Invariant: two values that are live at the same moment share no byte, unless one is a view of the
other, or takes its place at the moment of its last use.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

ALIGNMENT = 64
_SORTED_MOST = 384  # number of values up to which all pairs are compared


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """One step of a program.

    Attributes:
        makes: Values that are written.
        reads: Values that are read.
        replaces: Pairs of a written value and a read value whose place it may take: they have the
            same size and layout, and element i is not read after element i is written.
    """

    makes: tuple[int, ...]
    reads: tuple[int, ...]
    replaces: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class MemoryPlan:
    """The places of values.

    Attributes:
        offsets: Byte offsets in the arena by value; multiples of `ALIGNMENT`.
        arena_bytes: Size of the arena.
        in_place: Pairs of a value and the operand whose place it takes.
        unplanned_peak: The most bytes live at once if each value had its own memory.
        total_bytes: Total size of all planned values.
    """

    offsets: Mapping[int, int] = field(default_factory=dict)
    arena_bytes: int = 0
    in_place: tuple[tuple[int, int], ...] = ()
    unplanned_peak: int = 0
    total_bytes: int = 0


def live_ranges(
    moments: Sequence[ProgramStep], bases: Mapping[int, Collection[int]] | None = None
) -> dict[int, tuple[int, int]]:
    """The first and the last moment of each base written.

    Args:
        moments: The steps, in order.
        bases: The possible memory owners of values that are views. The range of a base covers the
            uses of all its views.
    """
    known = bases or {}
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for now, moment in enumerate(moments):
        for value in moment.makes:
            if value not in known:
                first[value] = now
        for value in (*moment.makes, *moment.reads):
            for base in known.get(value, (value,)):
                last[base] = now
    return {value: (begin, last[value]) for value, begin in first.items()}


def plan_memory(
    moments: Sequence[ProgramStep],
    sizes: Mapping[int, int],
    bases: Mapping[int, Collection[int]] | None = None,
    kept: Collection[int] = (),
) -> MemoryPlan:
    """Place values in one arena.

    Args:
        moments: The steps, in order.
        sizes: Bytes of the values to place; all others are placed elsewhere.
        bases: See `live_ranges`.
        kept: Values that live on after the last moment (bases, or views of them).
    """
    known = bases or {}
    ranges = live_ranges(moments, known)
    end = len(moments)
    for value in kept:
        for base in known.get(value, (value,)):
            if base in ranges:
                ranges[base] = (ranges[base][0], end)
    live = {value: ranges[value] for value in sizes if value in ranges}
    holder, in_place = _replacements(moments, sizes, known, live)
    blocks: dict[int, list[int]] = {}
    for value, (begin, stop) in live.items():
        top = holder[value]
        if top in blocks:
            block = blocks[top]
            block[0], block[1] = min(block[0], begin), max(block[1], stop)
        else:
            blocks[top] = [begin, stop, _aligned(sizes[top])]
    # A value of size 0 shares no byte with others.
    order = [(top, b[0], b[1], b[2]) for top, b in blocks.items() if b[2]]
    placed = _by_size(order) if len(order) <= _SORTED_MOST else _in_turn(order)
    offsets = {value: placed.get(holder[value], 0) for value in live}
    arena = max((placed[top] + block[2] for top, block in blocks.items() if block[2]), default=0)
    return MemoryPlan(
        offsets, arena, tuple(in_place), _peak(live, sizes, end),
        sum(sizes[value] for value in live),
    )  # fmt: skip


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _replacements(
    moments: Sequence[ProgramStep],
    sizes: Mapping[int, int],
    bases: Mapping[int, Collection[int]],
    live: Mapping[int, tuple[int, int]],
) -> tuple[dict[int, int], list[tuple[int, int]]]:
    """For each value, the first one whose place it takes in a chain; and the pairs."""
    holder = {value: value for value in live}
    pairs: list[tuple[int, int]] = []
    for now, moment in enumerate(moments):
        replaced: set[int] = set()
        for result, operand in moment.replaces:
            if result not in live or operand not in live or holder[result] != result:
                continue
            if live[operand][1] != now or sizes[result] != sizes[operand] or operand in replaced:
                continue
            # Another view of the operand would be read in another order.
            later_reads = [r for r in moment.reads if r != operand and operand in bases.get(r, ())]
            if later_reads or live[result][0] != now:
                continue
            holder[result] = holder[operand]
            replaced.add(operand)
            pairs.append((result, operand))
    return holder, pairs


_Block = tuple[int, int, int, int]  # value, first moment, last moment, bytes


def _by_size(blocks: list[_Block]) -> dict[int, int]:
    """Largest first, each into the smallest gap that is free for its whole lifetime."""
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last
    offsets: dict[int, int] = {}
    for value, first, last, size in sorted(blocks, key=lambda b: (-b[3], b[1])):
        gap_at, gap_size, at = -1, -1, 0
        for offset, stop, begin, end in placed:
            if begin > last or end < first:
                continue
            room = offset - at
            if room >= size and (gap_at < 0 or room < gap_size):
                gap_at, gap_size = at, room
            if stop > at:
                at = stop
        offsets[value] = start = gap_at if gap_at >= 0 else at
        _insert(placed, (start, start + size, first, last))
    return offsets


def _insert(placed: list[tuple[int, int, int, int]], block: tuple[int, int, int, int]) -> None:
    bisect.insort(placed, block)


def _in_turn(blocks: list[_Block]) -> dict[int, int]:
    """In order of time, each into the smallest hole free at that time."""
    holes: list[tuple[int, int]] = []  # offset, size; by offset
    top = 0
    busy: list[tuple[int, int, int]] = []  # last, offset, size
    offsets: dict[int, int] = {}
    for value, first, last, size in sorted(blocks, key=lambda b: (b[1], -b[3])):
        while busy and busy[0][0] < first:
            _, offset, freed = heapq.heappop(busy)
            _release(holes, offset, freed)
        best = min(
            (i for i, (_, room) in enumerate(holes) if room >= size),
            key=lambda i: holes[i][1], default=None,
        )  # fmt: skip
        if best is None:
            if holes and holes[-1][0] + holes[-1][1] == top:
                at, _ = holes.pop()
            else:
                at = top
            top = at + size
        else:
            at, room = holes.pop(best)
            if room > size:
                holes.insert(best, (at + size, room - size))
        offsets[value] = at
        heapq.heappush(busy, (last, at, size))
    return offsets


def _release(holes: list[tuple[int, int]], offset: int, size: int) -> None:
    """Add a hole and merge it with its neighbours."""
    i = bisect.bisect(holes, (offset, 0))
    if i < len(holes) and offset + size == holes[i][0]:
        size += holes.pop(i)[1]
    if i and holes[i - 1][0] + holes[i - 1][1] == offset:
        before = holes.pop(i - 1)
        offset, size = before[0], before[1] + size
        i -= 1
    holes.insert(i, (offset, size))


def _peak(live: Mapping[int, tuple[int, int]], sizes: Mapping[int, int], end: int) -> int:
    change = [0] * (end + 2)
    for value, (first, last) in live.items():
        change[first] += sizes[value]
        change[last + 1] -= sizes[value]
    most = now = 0
    for delta in change:
        now += delta
        most = max(most, now)
    return most
