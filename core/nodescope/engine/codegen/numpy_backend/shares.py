"""Shares: the tiles of a large kernel on several threads at once.

Each thread has its own temporaries and takes one tile after another, so a thread on a busy core
delays no other. The calling thread takes part and waits only for threads that have begun, so never
for one that waits for it. Ufuncs release the interpreter's lock while they compute.

Invariant: bit-equal to one share; threads are created by the first large kernel, not before, and a
forked process creates its own.
"""

from __future__ import annotations

import collections
import contextvars
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from nodescope.engine.execution.parallel import cores

SHARED_FROM = 1 << 20
"""Number of elements from which a kernel runs in shares: it takes milliseconds, far longer than
waking a thread.
"""

_pool: ThreadPoolExecutor | None = None
_lock = threading.Lock()


def threads(environ: Mapping[str, str]) -> int:
    """How many threads a kernel may use, by the same variables as in C, without loading C."""
    for name in ("NODESCOPE_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        setting = environ.get(name, "").split(",")[0].strip()
        if setting.isdigit() and int(setting):
            return min(cores(), int(setting))
    return cores()


def shares(elements: int) -> int:
    """How many threads a kernel may use, by its number of elements."""
    return threads(os.environ) if elements >= SHARED_FROM else 1


def run_shares(work: Callable[[Any, Iterator[int]], None], parts: Sequence[Sequence[Any]]) -> None:
    """Call ``work`` concurrently, with each part and the numbers of the tiles that it takes.

    It runs with the caller's `numpy.errstate`.

    Raises:
        What ``work`` raises; of several errors, that of the first tile. All calls have ended by
        then.
    """
    left = iter(range(len(parts[0])))  # the interpreter takes a number atomically
    errors: dict[int, BaseException] = {}

    def share(part: Sequence[Any]) -> None:
        now = -1

        def taken() -> Iterator[int]:
            nonlocal now
            for index in left:
                now = index
                yield index

        try:
            work(part, taken())
        except BaseException as error:
            errors[now] = error
            collections.deque(left, 0)  # the others stop, too

    later = [_begun(share, part) for part in parts[1:]]
    share(parts[0])
    for future in later:
        if future is not None and not future.cancel():
            future.result()
    if errors:
        raise errors[min(errors)]


def _begun(share: Callable[[Any], None], part: Sequence[Any]) -> Future[None] | None:
    try:
        return _threads().submit(contextvars.copy_context().run, share, part)
    except RuntimeError:  # the interpreter is about to end
        return None


def _threads() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max(threads(os.environ) - 1, 1), "nodescope share")
        return _pool


def _forked() -> None:
    """Forget the threads in a forked child, where they do not exist."""
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
