"""Times of devices, as they are reported.

Invariant: frozen data.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np


class DeviceRan(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A device has run the work that operations enqueued. Emitted later than the operations' own
    events, on a thread of nodescope.

    Attributes:
        lane: The number of the device's queue in the run, from 1.
        name: The queue's name: ``cuda:0``, ``cuda:0 stream 1``.
        times: int64 of shape (executions, 4): the node, the start of the execution on the host,
            which identifies it, and start and end on the device, in nanoseconds since the run
            began.
    """

    lane: int
    name: str
    times: np.ndarray[Any, Any]
