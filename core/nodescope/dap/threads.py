"""Threads: the program's Python threads by the numbers that an editor knows them by.

Invariant: a number names one thread for the whole session; threads of nodescope's own are not told.
"""

from __future__ import annotations

import sys
import threading
from typing import Any, NamedTuple

_OURS = "nodescope-"


class _Known(NamedTuple):
    ident: int
    thread: threading.Thread | None  # None for one that was not started by ``threading``
    name: str


class Threads:
    """Numbers of threads. The main thread is 1."""

    def __init__(self) -> None:
        main = threading.main_thread()
        self._known: dict[int, _Known] = {1: _Known(main.ident or 0, main, main.name)}
        self._told = {1}

    def number(self, ident: int) -> int:
        """The number of the thread that has this ident, or had it last."""
        found = [number for number, each in self._known.items() if each.ident == ident]
        return found[-1] if found else self._add(ident, None)

    def ident(self, number: int) -> int | None:
        """The ident of a thread; None if there is none of this number."""
        found = self._known.get(number)
        return found.ident if found is not None else None

    def refresh(self) -> tuple[list[int], list[int]]:
        """Which threads have started and which have ended since this was asked last."""
        known = {each.thread for each in self._known.values()}
        for each in threading.enumerate():
            if each not in known and each.ident and not each.name.startswith(_OURS):
                self._add(each.ident, each)
        living = self._living()
        started, ended = living - self._told, self._told - living
        self._told = living
        return sorted(started), sorted(ended)

    def listed(self, also: int = 0) -> list[dict[str, Any]]:
        """Those that live, and the one of a number though it may have ended."""
        found = []
        for number, each in self._known.items():
            if number in self._told:
                found.append({"id": number, "name": each.name})
            elif number == also:
                found.append({"id": number, "name": f"{each.name} (ended)"})
        return found

    def _add(self, ident: int, thread: threading.Thread | None) -> int:
        number = len(self._known) + 1
        name = thread.name if thread is not None else f"thread {number}"
        self._known[number] = _Known(ident, thread, name)
        return number

    def _living(self) -> set[int]:
        running = sys._current_frames()
        taken = {each.ident for each in threading.enumerate()}
        return {
            number
            for number, each in self._known.items()
            if (
                each.ident in running and each.ident not in taken
                if each.thread is None
                else each.thread.is_alive()
            )
        }
