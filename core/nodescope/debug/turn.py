"""Turn: who may touch the session now, and who waits until it changes.

A lock that can be asked for from anywhere: what interrupts a thread that has it, such as a signal
handler or a finalizer, is done when that thread has let go.

Invariant: nobody waits while the lock is held; an exception that arrives from outside, such as
KeyboardInterrupt, leaves the lock free and takes away nothing that was to be done.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable


class Turn:
    """The lock of a session.

    Attributes:
        lock: Written in C, so that an interrupt finds it either taken by a ``with`` or free.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._asleep: list[threading.Lock] = []
        self._later: deque[Callable[[], object]] = deque()

    @property
    def mine(self) -> bool:
        """Whether the calling thread has the lock."""
        return self.lock._is_owned()  # type: ignore[attr-defined, no-any-return]

    @property
    def overdue(self) -> bool:
        """Whether there is something left to be done."""
        return bool(self._later)

    def take(self, work: Callable[[], object]) -> None:
        """Do something under the lock; later, if this thread has it already.

        What is interrupted half-way is done once more by `catch_up`.
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
        """Do what is left to be done."""
        while self._later and not self.mine:
            try:
                work = self._later.popleft()
            except IndexError:
                return  # another thread was faster
            self.take(work)

    def sleep(self, asleep: Callable[[], bool], longest_s: float) -> None:
        """Wait until `wake`, if ``asleep`` says under the lock that there is something to wait for.

        Nothing is held meanwhile: interrupts and signal handlers come through.
        """
        mine = threading.Lock()
        mine.acquire()
        with self.lock:
            if not asleep():
                return
            self._asleep.append(mine)
        # Never without an end: a wait without one would keep Ctrl-C out on Windows.
        mine.acquire(timeout=longest_s)
        with self.lock:
            if mine in self._asleep:
                self._asleep.remove(mine)

    def wake(self) -> None:
        """End all waits, under the lock."""
        asleep, self._asleep = self._asleep, []
        for each in asleep:
            each.release()

    def forked(self) -> None:
        """In a forked child: who had the lock does not exist here."""
        self.lock = threading.RLock()
        self._asleep = []
        self._later.clear()
