"""Held values: full arrays of the last steps, held in memory until they are written.

Keeping every array of a long run is too expensive, and people usually look at the newest. So copies
of the last steps wait here. They are written at a stop, at the end, and regularly while the program
runs, so that a page can show some and a crash loses little. Older ones also wait until they are
known to be finite: those around the first NaN are written as well.

Invariant: bounded in bytes and number; the oldest values make room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final, NamedTuple

from nodescope.events import Array
from nodescope.record.newest.held import ENTRY_BYTES
from nodescope.record.newest.held import Held as Held
from nodescope.record.newest.held_block import HeldBlock

STEPS: Final = 2
"""The number of last observed training steps, or observed calls outside of steps, held whole."""

SHARE_NS: Final = 2_000_000_000
"""Interval at which held values are written while the program runs."""

SHARE_BYTES: Final = 16 << 20
"""Held values larger than this in total are not written at an interval."""

_MOST: Final = 16_384


class Whole(NamedTuple):
    """Executions whose outputs are to be written whole."""

    items: tuple[Held, ...]


class HeldValues:
    """The outputs of the last executions.

    Args:
        most_bytes: Upper limit of held arrays.
        give_back: Takes back the memory of copies.

    Attributes:
        nbytes: Size of the held arrays.
        too_large: Number of arrays larger than ``most_bytes``.
        made_room: Number of outputs of the last steps that were released early.
        checked: The last seq whose values have been checked for being finite.
        needed_from: Values of steps older than this seq are not needed by any step still to be
            checked.
    """

    def __init__(self, most_bytes: int, give_back: Callable[[Array], None]) -> None:
        self.most_bytes = most_bytes
        self.nbytes = 0
        self.too_large = self.made_room = 0
        self.checked = self.needed_from = 1 << 62
        self._give_back = give_back
        # Outputs of steps, and of executions outside of steps and calls. Older ones that are still
        # to be checked are in front.
        self._items: deque[Held | HeldBlock] = deque()
        self._steps: deque[int] = deque(maxlen=STEPS)
        # Outputs of calls outside of steps, the newest call last. Older ones that are still to be
        # checked are in front.
        self._calls: deque[list[Held]] = deque()
        self._calling = False
        self._count = 0
        # (value, seq) of the arrays taken last, and of those kept individually since.
        self._taken: set[tuple[int, int]] = set()
        self._apart: set[tuple[int, int]] = set()
        self._most_apart = _MOST
        self._saved: set[tuple[int, int]] = set()  # taken by `take_between`

    def fits(self, nbytes: int) -> bool:
        """Whether arrays of this size may wait here at all; counted if not."""
        if nbytes + ENTRY_BYTES <= self.most_bytes:
            return True
        self.too_large += 1
        return False

    def step(self, step: int) -> None:
        """Note an observed step; values older than the previous step are released once checked."""
        self._calling = False
        self._steps.append(step)
        items, oldest, needed_from = self._items, self._steps[0], self.needed_from
        while items and items[0].step < oldest and items[0].seq < needed_from:
            self._let_go()

    def call(self) -> None:
        """Note a call outside of steps; values older than the previous call are released once
        checked.
        """
        calls = self._calls
        calls.append([])
        self._calling = True
        while len(calls) > STEPS and (not calls[0] or calls[0][-1].seq <= self.checked):
            self._drop(calls.popleft())

    def add(self, item: Held | HeldBlock) -> None:
        """Hold the outputs of an execution, or of several within a step."""
        if self._calling and isinstance(item, Held):
            self._calls[-1].append(item)
        else:
            self._items.append(item)
        self.nbytes += item.nbytes + ENTRY_BYTES
        self._count += 1
        while self.nbytes > self.most_bytes or self._count > _MOST:
            if self._items:
                if not self._steps or self._items[0].step >= self._steps[0]:
                    self.made_room += len(self._items[0].outputs)
                self._let_go()
            else:
                place = next(place for place, call in enumerate(self._calls) if call)
                oldest = self._calls[place].pop(0)
                if place >= len(self._calls) - STEPS:
                    self.made_room += len(oldest.outputs)
                self._drop([oldest])

    def kept(self, value: int, seq: int) -> bool:
        """Note that a value is kept individually; return whether that is new."""
        output = (value, seq)
        if output in self._taken or output in self._apart or output in self._saved:
            return False
        self._apart.add((value, seq))
        if len(self._apart) > self._most_apart:  # forget values that have been released
            outputs = [*self._items, *chain(*self._calls)]
            oldest = min([item.seq for item in outputs], default=seq)
            self._apart = {item for item in self._apart if item[1] >= oldest}
            self._most_apart = max(_MOST, 2 * len(self._apart))
        return True

    def take(self) -> Whole:
        """Take out the executions of the newest steps and calls, in order."""
        oldest = self._steps[0] if self._steps else 0
        self._open(lambda item: item.step >= oldest)
        calls = list(self._calls)[-STEPS:]
        newest = [item for item in self._items if isinstance(item, Held) and item.step >= oldest]
        older = [item for item in self._items if item.step < oldest]
        items = sorted(chain(newest, *calls), key=attrgetter("seq"))
        self._taken = {(value, item.seq) for item in items for value, _ in item.outputs}
        self._taken |= self._apart
        whole = self._whole(items)
        self._apart = set()
        self._items = deque(older)
        for call in calls:
            call.clear()
        self._forget(items)
        return whole

    def take_between(self, first: int, end: int) -> Whole:
        """Take out the executions with ``first <= seq < end``, in order."""
        self._open(lambda item: item.seq < end and item.end > first)
        between: list[Held] = []
        held: list[deque[Any] | list[Any]] = [self._items, *self._calls]
        for items in held:
            inside = [item for item in items if isinstance(item, Held) and first <= item.seq < end]
            if inside:
                rest = [item for item in items if not first <= item.seq < end]
                items.clear()
                items.extend(rest)
                between += inside
        between.sort(key=attrgetter("seq"))
        self._forget(between)
        self._saved |= {(value, item.seq) for item in between for value, _ in item.outputs}
        return self._whole(between)

    def _open(self, chosen: Callable[[HeldBlock], bool]) -> None:
        """Replace some of the blocks by their executions."""
        blocks = [item for item in self._items if isinstance(item, HeldBlock) and chosen(item)]
        if not blocks:
            return
        opened: deque[Held | HeldBlock] = deque()
        for item in self._items:
            if isinstance(item, HeldBlock) and chosen(item):
                executions = item.executions()
                self._forget((item,))
                self.nbytes += sum([one.nbytes + ENTRY_BYTES for one in executions])
                self._count += len(executions)
                opened.extend(executions)
            else:
                opened.append(item)
        self._items = opened

    def _whole(self, items: Iterable[Held]) -> Whole:
        """Executions without the values that were kept individually."""
        apart = self._apart
        if apart:
            items = [
                item._replace(
                    outputs=tuple(
                        output for output in item.outputs if (output[0], item.seq) not in apart
                    )
                )
                for item in items
            ]
        return Whole(tuple(items))

    def _forget(self, items: Sequence[Held | HeldBlock]) -> None:
        """Update the sizes after executions were taken out."""
        self.nbytes -= sum([item.nbytes + ENTRY_BYTES for item in items])
        self._count -= len(items)

    def _let_go(self) -> None:
        self._drop((self._items.popleft(),))

    def _drop(self, items: Sequence[Held | HeldBlock]) -> None:
        self._forget(items)
        for item in items:
            if isinstance(item, HeldBlock):  # its memory belongs to the block's sender
                continue
            for _, array in item.outputs:
                self._give_back(array)
