"""Held values: full arrays of the last steps, held in memory until they are written.

Keeping every array of a long run is too expensive; people usually look at the newest. So copies of
the last steps wait here. They are written at a stop, at the end, and regularly while the program
runs, so that a page has some and a crash loses little. Older ones wait as well until it is known
that they are finite: those around the first NaN are written, too.

Invariant: bounded in bytes and number; the oldest make room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final, NamedTuple

from nodescope.events import Array

STEPS: Final = 2
"""The last observed training steps, and observed calls outside of steps, that are whole."""

SHARE_NS: Final = 2_000_000_000
"""Interval at which held values are written while the program runs."""

SHARE_BYTES: Final = 16 << 20
"""Held values beyond this size are not written at an interval."""

_MOST: Final = 16_384
_ENTRY_BYTES: Final = 512


class Held(NamedTuple):
    """The outputs of one execution, copied.

    Attributes:
        outputs: By value. Of arrays of other libraries what was set aside of them, to be resolved
            before it is written.
        layouts: Strides of those that are not in C order, as of `Ran`.
        attrs: As of `NodeFinished`, if they are not recorded yet.
        summarised: Their statistics are recorded, or will be.
    """

    seq: int
    step: int
    outputs: tuple[tuple[int, Any], ...]
    nbytes: int
    layouts: tuple[tuple[int, tuple[int, ...]], ...] = ()
    attrs: dict[str, Any] | None = None
    summarised: bool = True


class Whole(NamedTuple):
    """Executions whose outputs are to be written as they are."""

    items: tuple[Held, ...]


class HeldValues:
    """The outputs of the last executions.

    Args:
        most_bytes: Upper limit of held arrays.
        give_back: Takes back the memory of copies.

    Attributes:
        nbytes: What waits.
        too_large: Arrays that are larger than all that may wait.
        made_room: Outputs of the last steps that were let go before their time.
        checked: The last seq of which it is known whether its values are finite.
        needed_from: Of steps, what is older than this seq is needed by none that is to be checked.
    """

    def __init__(self, most_bytes: int, give_back: Callable[[Array], None]) -> None:
        self.most_bytes = most_bytes
        self.nbytes = 0
        self.too_large = self.made_room = 0
        self.checked = self.needed_from = 1 << 62
        self._give_back = give_back
        # Of steps, and of what no call outside of them holds; first older ones to be checked.
        self._items: deque[Held] = deque()
        self._steps: deque[int] = deque(maxlen=STEPS)
        # Outside of steps, the newest last; first older ones to be checked.
        self._calls: deque[list[Held]] = deque()
        self._calling = False
        self._count = 0
        # (value, seq) of what was taken last, and of what was kept by itself since.
        self._taken: set[tuple[int, int]] = set()
        self._apart: set[tuple[int, int]] = set()
        self._most_apart = _MOST
        self._saved: set[tuple[int, int]] = set()  # taken by `take_between`

    def fits(self, nbytes: int) -> bool:
        """Whether arrays of so many bytes may wait here at all; counted if not."""
        if nbytes + _ENTRY_BYTES <= self.most_bytes:
            return True
        self.too_large += 1
        return False

    def step(self, step: int) -> None:
        """An observed step begins; what is older than the one before it is let go once checked."""
        self._calling = False
        self._steps.append(step)
        items, oldest, needed_from = self._items, self._steps[0], self.needed_from
        while items and items[0].step < oldest and items[0].seq < needed_from:
            self._let_go()

    def call(self) -> None:
        """A call outside of steps begins; what is older than the one before it is let go once
        checked."""
        calls = self._calls
        calls.append([])
        self._calling = True
        while len(calls) > STEPS and (not calls[0] or calls[0][-1].seq <= self.checked):
            self._drop(calls.popleft())

    def add(self, item: Held) -> None:
        """Hold the outputs of an execution."""
        (self._calls[-1] if self._calling else self._items).append(item)
        self.nbytes += item.nbytes + _ENTRY_BYTES
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
        """Note that a value is kept by itself; whether it had not been kept before."""
        output = (value, seq)
        if output in self._taken or output in self._apart or output in self._saved:
            return False
        self._apart.add((value, seq))
        if len(self._apart) > self._most_apart:  # of what has been let go, nothing is taken
            outputs = chain(self._items, *self._calls)
            oldest = min([item.seq for item in outputs], default=seq)
            self._apart = {item for item in self._apart if item[1] >= oldest}
            self._most_apart = max(_MOST, 2 * len(self._apart))
        return True

    def take(self) -> Whole:
        """Take out the executions of the newest steps and calls, in order."""
        oldest = self._steps[0] if self._steps else 0
        calls = list(self._calls)[-STEPS:]
        items = [item for item in self._items if item.step >= oldest]
        older = [item for item in self._items if item.step < oldest]
        items = sorted(chain(items, *calls), key=attrgetter("seq"))
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
        """Take out the executions from one seq up to, without, another one, in order."""
        between: list[Held] = []
        for items in (self._items, *self._calls):
            inside = [item for item in items if first <= item.seq < end]
            if inside:
                rest = [item for item in items if not first <= item.seq < end]
                items.clear()
                items.extend(rest)
                between += inside
        between.sort(key=attrgetter("seq"))
        self._forget(between)
        self._saved |= {(value, item.seq) for item in between for value, _ in item.outputs}
        return self._whole(between)

    def _whole(self, items: Iterable[Held]) -> Whole:
        """Executions without what was kept by itself."""
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

    def _forget(self, items: Sequence[Held]) -> None:
        """Executions were taken out."""
        self.nbytes -= sum([item.nbytes + _ENTRY_BYTES for item in items])
        self._count -= len(items)

    def _let_go(self) -> None:
        self._drop((self._items.popleft(),))

    def _drop(self, items: Sequence[Held]) -> None:
        self._forget(items)
        for item in items:
            for _, array in item.outputs:
                self._give_back(array)
