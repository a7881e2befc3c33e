"""Held: the whole values of what ran last, held in memory until somebody looks.

To keep every array of a long run is too dear; what a person asks for is the newest. So copies of
the last steps wait here. They go to the file at a stop, at the end, and now and then while the
program runs, so that a page has some and little is lost in a crash.

Invariant: what waits is bounded in bytes and number, and the oldest makes room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from nodescope.events import Array

STEPS: Final = 2
"""Of so many of the last observed training steps all is whole."""

SHARE_NS: Final = 2_000_000_000
"""While the program runs, what waits is written this often."""

SHARE_BYTES: Final = 16 << 20
"""As long as it is no more than this."""

_MOST: Final = 16_384
_ENTRY_BYTES: Final = 512


class Held(NamedTuple):
    """The outputs of one execution, copied.

    Attributes:
        layouts: Strides of those that are not in C order, as of `Ran`.
        attrs: As of `NodeFinished`, if they are not recorded yet.
        summarised: Their statistics are recorded, or will be.
    """

    seq: int
    step: int
    outputs: tuple[tuple[int, Array], ...]
    nbytes: int
    layouts: tuple[tuple[int, tuple[int, ...]], ...] = ()
    attrs: dict[str, Any] | None = None
    summarised: bool = True


class Whole(NamedTuple):
    """Executions whose outputs are to be written as they are."""

    items: tuple[Held, ...]


class Recent:
    """What ran last.

    Args:
        most_bytes: How much may wait.
        give_back: Takes the memory of copies that are not needed any more.

    Attributes:
        nbytes: What waits.
        too_large: Arrays that are larger than all that may wait.
        made_room: Outputs of the last steps that were let go before their time.
    """

    def __init__(self, most_bytes: int, give_back: Callable[[Array], None]) -> None:
        self.most_bytes = most_bytes
        self.nbytes = 0
        self.too_large = self.made_room = 0
        self._give_back = give_back
        self._items: deque[Held] = deque()
        self._steps: deque[int] = deque(maxlen=STEPS)
        # (value, seq) of what was taken last, and of what was kept by itself since.
        self._taken: set[tuple[int, int]] = set()
        self._apart: set[tuple[int, int]] = set()
        self._most_apart = _MOST

    def fits(self, nbytes: int) -> bool:
        """Whether arrays of so many bytes may wait here at all; counted if not."""
        if nbytes + _ENTRY_BYTES <= self.most_bytes:
            return True
        self.too_large += 1
        return False

    def step(self, step: int) -> None:
        """An observed step begins; what is older than the one before it is let go."""
        if len(self._steps) == STEPS:
            oldest = self._steps[1]
            while self._items and self._items[0].step < oldest:
                self._let_go()
        self._steps.append(step)

    def add(self, item: Held) -> None:
        """Hold what an execution gave."""
        self._items.append(item)
        self.nbytes += item.nbytes + _ENTRY_BYTES
        while self.nbytes > self.most_bytes or len(self._items) > _MOST:
            self.made_room += len(self._items[0].outputs)
            self._let_go()

    def kept(self, value: int, seq: int) -> bool:
        """Note that a value is kept by itself; whether it had not been kept before."""
        if (value, seq) in self._taken or (value, seq) in self._apart:
            return False
        self._apart.add((value, seq))
        if len(self._apart) > self._most_apart:  # of what has been let go, nothing is taken
            oldest = self._items[0].seq if self._items else seq
            self._apart = {item for item in self._apart if item[1] >= oldest}
            self._most_apart = max(_MOST, 2 * len(self._apart))
        return True

    def take(self) -> Whole:
        """All that waits, in order; nothing does after this."""
        items = tuple(self._items)
        if self._apart:
            items = tuple(
                item._replace(
                    outputs=tuple(
                        each for each in item.outputs if (each[0], item.seq) not in self._apart
                    )
                )
                for item in items
            )
        self._taken = {(value, item.seq) for item in items for value, _ in item.outputs}
        self._taken |= self._apart
        self._apart = set()
        self._items.clear()
        self.nbytes = 0
        return Whole(items)

    def _let_go(self) -> None:
        item = self._items.popleft()
        self.nbytes -= item.nbytes + _ENTRY_BYTES
        for _, array in item.outputs:
            self._give_back(array)
