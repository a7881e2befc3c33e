"""Queue overflow: queued executions whose arrays may be dropped for newer ones.

If the writer cannot keep up, the oldest arrays are dropped, because users look at the newest.

Invariant: used under the recorder's lock. Executions that the writer has taken out are never
touched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from nodescope.events import Array
from nodescope.record.queued import RECORD_BYTES, QueuedExecution
from nodescope.record.summary import TensorSummary, summarise


class OverflowQueue:
    """Queued executions with arrays, oldest first.

    Args:
        give_back: Takes back the memory of copies that are no longer needed.

    Attributes:
        given_up: Number of arrays reduced to statistics because the writer was behind.
        freed: By seq, how much lighter a queued execution has become than its stated weight.
    """

    def __init__(self, give_back: Callable[[Array], None]) -> None:
        self._give_back = give_back
        self._items: deque[QueuedExecution] = deque()
        self.given_up = 0
        self.freed: dict[int, int] = {}

    def add(self, item: QueuedExecution) -> None:
        """Note that an execution was queued; its outputs are a list."""
        self._items.append(item)

    def taken(self, item: QueuedExecution) -> None:
        """Note that the writer took an execution, and so all earlier ones, out of the queue."""
        seq, items = item.timed[0], self._items
        while items and items[0].timed[0] <= seq:
            items.popleft()

    def free(self, nbytes: int) -> tuple[int, int]:
        """Reduce the oldest arrays to statistics until the queue is lighter by ``nbytes``.

        Returns:
            The weight freed, and the number of arrays given up.
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
