"""Failed inputs: the inputs of an operation that raised in an unobserved step.

Invariant: runs on the program's thread and raises nothing; inputs that do not fit are summarised.
"""

from __future__ import annotations

import numpy as np

from nodescope.events import Array, Level, NodeFailed
from nodescope.record.queued import RECORD_BYTES
from nodescope.record.summary import TensorSummary, summarise


def failed_inputs(
    event: NodeFailed, level: Level, room: int
) -> tuple[list[tuple[int, Array | TensorSummary]], int]:
    """The inputs by value id, and how many bytes they take in the queue.

    None at a level without values, and if the operations that computed the inputs were observed,
    because these are recorded already.

    Args:
        event: The operation that raised.
        level: The level of its node.
        room: Bytes that are free in the queue.
    """
    if not event.unseen or level in ("timing", "graph"):
        return [], 0
    arrays = {
        value: array
        for value, array in zip(event.node.inputs, event.inputs, strict=False)
        if isinstance(array, np.ndarray)
    }
    nbytes = sum(array.nbytes for array in arrays.values())
    fits = nbytes <= room
    try:
        contents = [
            (value, array.copy() if fits else summarise(array)) for value, array in arrays.items()
        ]
    except MemoryError:
        return [], 0
    return contents, RECORD_BYTES * len(contents) + (nbytes if fits else 0)
