"""Thread frames: `sys._current_frames` without its deadlock.

Before Python 3.11.9 it allocates while it holds a lock of the interpreter. This may start a garbage
collection; one that frees a `threading.local` then waits for that very lock, and holds the
interpreter's own: the whole process stands still (https://github.com/python/cpython/issues/106883).

Invariant: whether the program's collections are on is afterwards as it was, and no other thread
runs in between: none sees them off, and none can switch them meanwhile.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from itertools import chain, compress, islice
from operator import call
from types import FrameType
from typing import Any, Final

_DEADLOCKS: Final = sys.version_info < (3, 11, 9)


def thread_frames() -> dict[int, FrameType]:
    """The innermost frame of each thread, by the thread's number."""
    return next(thread_frames_once())


def thread_frames_once() -> Iterator[dict[int, FrameType]]:
    """An iterator that gives `thread_frames` once, when it is asked.

    It is made of functions in C alone, so that what consumes it in C, too, lets no thread run
    while frames are held.
    """
    if not _DEADLOCKS:
        return islice(iter(sys._current_frames, None), 1)
    return _without_collections()


def _without_collections() -> Iterator[dict[int, FrameType]]:
    # Grows as the steps are taken, so that the last step sees what the first one gave.
    results: list[Any] = []
    steps = chain((gc.isenabled, gc.disable, sys._current_frames), compress((gc.enable,), results))
    # None comes of taking them, then the third result, which is not kept.
    return filter(None, chain(map(results.extend, (map(call, steps),)), map(results.pop, (2,))))
