"""Resolving: replaces captures in queued records by elements or statistics.

Invariant: on the recorder's thread only; a capture that its library cannot resolve counts as lost.
"""

from __future__ import annotations

import numpy as np

from nodescope.events import Array
from nodescope.record.captures import resolved
from nodescope.record.newest.held_values import Whole
from nodescope.record.queued import QueuedExecution
from nodescope.record.summary import TensorSummary


def resolved_execution(item: QueuedExecution) -> tuple[QueuedExecution, int]:
    """An execution without captures, and how many of them were lost."""
    outputs: list[tuple[int, Array | TensorSummary]] = []
    for value, content in item.outputs:
        try:
            outputs.append((value, resolved(content)))
        except Exception:  # raised by the library: its device may be gone
            continue
    return item._replace(outputs=outputs), len(item.outputs) - len(outputs)


def resolved_whole(whole: Whole) -> tuple[Whole, int]:
    """Whole values without captures, and how many of them were lost."""
    items = []
    lost = 0
    for item in whole.items:
        outputs = []
        for value, content in item.outputs:
            try:
                array = content if isinstance(content, np.ndarray) else resolved(content)
            except Exception:  # raised by the library
                lost += 1
                continue
            if isinstance(array, np.ndarray):  # statistics are recorded in any case
                outputs.append((value, array))
        items.append(item._replace(outputs=tuple(outputs)))
    return Whole(tuple(items)), lost
