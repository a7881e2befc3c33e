"""InterruptibleLock: the lock of a session, which deferred work and Ctrl-C get through.

It can be acquired from anywhere: code that interrupts the thread holding it, such as a signal
handler or a finalizer, is deferred until that thread releases it.

Invariant: no thread waits while holding the lock; an exception from outside, such as
KeyboardInterrupt, leaves the lock free and loses no deferred work.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable


class InterruptibleLock:
    """The lock of a session.

    Attributes:
        lock: Implemented in C, so that an interrupt finds it either taken by a ``with`` or free.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._asleep: list[threading.Lock] = []
        self._later: deque[Callable[[], object]] = deque()

    @property
    def mine(self) -> bool:
        """Whether the calling thread holds the lock."""
        return self.lock._is_owned()  # type: ignore[attr-defined, no-any-return]

    @property
    def overdue(self) -> bool:
        """Whether deferred work is left."""
        return bool(self._later)

    def take(self, work: Callable[[], object]) -> None:
        """Run ``work`` under the lock, or defer it if this thread holds the lock already.

        Work that is interrupted half-way is repeated by `catch_up`.
        """
        if self.mine:
            self._later.append(work)
            return
        try:
            with self.lock:
                work()
        except Exception:
            raise
        except BaseException:
            self._later.append(work)
            raise

    def catch_up(self) -> None:
        """Run deferred work."""
        while self._later and not self.mine:
            try:
                work = self._later.popleft()
            except IndexError:
                return  # another thread was faster
            self.take(work)

    def sleep(self, asleep: Callable[[], bool], longest_s: float) -> None:
        """Wait for `wake`, if ``asleep()``, called under the lock, is true.

        The lock is not held during the wait, so interrupts and signal handlers get through.
        """
        wakeup = threading.Lock()
        wakeup.acquire()
        with self.lock:
            if not asleep():
                return
            self._asleep.append(wakeup)
        # Always with a timeout: on Windows, a wait without one blocks Ctrl-C.
        wakeup.acquire(timeout=longest_s)
        with self.lock:
            if wakeup in self._asleep:
                self._asleep.remove(wakeup)

    def wake(self) -> None:
        """End all waits, under the lock."""
        asleep, self._asleep = self._asleep, []
        for wakeup in asleep:
            wakeup.release()

    def forked(self) -> None:
        """Renew the lock in a forked child, where the thread that held it does not exist."""
        self.lock = threading.RLock()
        self._asleep = []
        self._later.clear()
