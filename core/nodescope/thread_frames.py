"""Thread frames: `sys._current_frames` without its deadlock, and stacks of running threads.

Before Python 3.11.9, that function allocates while it holds a lock of the interpreter. This may
start a garbage collection, and one that frees a `threading.local` waits for that very lock while
holding the interpreter's: the whole process hangs
(https://github.com/python/cpython/issues/106883).

Before Python 3.12, reading the next frame of a stack may also start a garbage collection. If a
finalizer then lets other threads run, the stack's own thread may leave the frame that is being
read, and the process crashes.

Invariant: the program's garbage collection is afterwards enabled or disabled as before, and no
other thread runs in between, so that none sees it off or can switch it.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from itertools import accumulate, chain, compress, islice, repeat, takewhile
from operator import call
from types import FrameType
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")

_DEADLOCKS: Final = sys.version_info < (3, 11, 9)


def thread_frames() -> dict[int, FrameType]:
    """The innermost frame of each thread, by the thread's number."""
    return next(thread_frames_once())


def thread_frames_once() -> Iterator[dict[int, FrameType]]:
    """An iterator that yields `thread_frames` once, evaluated when it is consumed.

    It consists of C functions only, so that consuming it in C as well lets no other thread run
    while frames are held.
    """
    if not _DEADLOCKS:
        return islice(iter(sys._current_frames, None), 1)
    return _without_collections()


def _without_collections() -> Iterator[dict[int, FrameType]]:
    # Grows as the steps are consumed, so that the last step sees the results of the first.
    results: list[Any] = []
    steps = chain((gc.isenabled, gc.disable, sys._current_frames), compress((gc.enable,), results))
    # Taking the frames yields None, then the third result, which is discarded.
    return filter(None, chain(map(results.extend, (map(call, steps),)), map(results.pop, (2,))))


def stack_of(ident: int, most: int, see: Callable[[FrameType], T]) -> list[T]:
    """The results of a function on the frames of a thread, innermost first.

    Everything happens within one call into C without a garbage collection, so that no other thread
    runs while frames are held. If a function returned meanwhile, we would be left to free its
    locals.

    Args:
        ident: The thread. One that has ended, or that runs no Python code, has no frames.
        most: The number of frames from the innermost on.
        see: A function in C, such as an `attrgetter`, whose results are true.
    """
    seen: list[T] = []
    collects: list[bool] = []
    innermost = map(dict.get, thread_frames_once(), (ident,))
    stack: Any = accumulate(chain(innermost, repeat("f_back", most - 1)), cast("Any", getattr))
    steps: tuple[Iterator[Any], ...] = (
        map(collects.append, map(call, (gc.isenabled,))),
        map(call, (gc.disable,)),
        map(see, takewhile(bool, stack)),  # None follows the outermost frame
        map(call, compress((gc.enable,), collects)),
    )
    try:
        seen.extend(filter(None, chain.from_iterable(steps)))
    except BaseException:
        if any(collects):
            gc.enable()
        raise
    return seen


# A probe that needs more frames than this is itself at fault, whatever the program did.
_OWN_FRAMES: Final = 200


def has_no_room(error: Exception) -> bool:
    """Whether a probe raised because the program was near its recursion limit."""
    if not isinstance(error, RecursionError):
        return False
    frames, at = 0, error.__traceback__
    while at is not None and frames <= _OWN_FRAMES:
        frames, at = frames + 1, at.tb_next
    return frames <= _OWN_FRAMES
