"""Waiting: executions in the recorder's queue whose arrays may be dropped for newer ones.

If the writer cannot keep up, something must be dropped. It is the oldest, because people look at
the newest.

Invariant: used under the recorder's lock. What the writer has taken out is never touched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from nodescope.events import Array
from nodescope.record.queued import RECORD_BYTES, QueuedExecution
from nodescope.record.summary import TensorSummary, summarise


class OverflowQueue:
    """Executions with arrays, oldest first.

    Args:
        give_back: Takes the memory of copies that are not needed any more.

    Attributes:
        given_up: Arrays of which only the statistics were kept, since the writer was behind.
        freed: By seq, how much lighter than it says an execution in the queue has become.
    """

    def __init__(self, give_back: Callable[[Array], None]) -> None:
        self._give_back = give_back
        self._items: deque[QueuedExecution] = deque()
        self.given_up = 0
        self.freed: dict[int, int] = {}

    def add(self, item: QueuedExecution) -> None:
        """An execution was queued; its outputs are a list."""
        self._items.append(item)

    def taken(self, item: QueuedExecution) -> None:
        """The writer took an execution out of the queue, and so all before it."""
        seq, items = item.timed[0], self._items
        while items and items[0].timed[0] <= seq:
            items.popleft()

    def free(self, nbytes: int) -> tuple[int, int]:
        """Turn the oldest arrays into statistics, until the queue is so much lighter.

        Returns:
            How much lighter it is, and how many arrays were given up.
        """
        freed = given_up = 0
        while freed < nbytes and self._items:
            item = self._items.popleft()
            outputs = item.outputs
            assert isinstance(outputs, list)
            for place, (value, content) in enumerate(outputs):
                if not isinstance(content, TensorSummary):
                    outputs[place] = (value, summarise(content))
                    self._give_back(content)
                    given_up += 1
            lighter = max(item.weight - RECORD_BYTES * (1 + len(outputs)), 0)
            self.freed[item.timed[0]] = lighter
            freed += lighter
        self.given_up += given_up
        return freed, given_up
