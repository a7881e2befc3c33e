"""Threads: the numbers by which an editor knows the program's Python threads.

Invariant: a number names one thread for the whole session; nodescope's own threads are not listed.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from nodescope.thread_frames import thread_frames

_OURS = "nodescope-"


class _Known(NamedTuple):
    ident: int
    thread: threading.Thread | None  # None for a thread that was not started by ``threading``
    name: str


class Threads:
    """Numbers of threads. The main thread is 1."""

    def __init__(self) -> None:
        main = threading.main_thread()
        self._known: dict[int, _Known] = {1: _Known(main.ident or 0, main, main.name)}
        self._told = {1}

    def number(self, ident: int) -> int:
        """The number of the thread that has this ident, or had it last."""
        numbers = [number for number, entry in self._known.items() if entry.ident == ident]
        return numbers[-1] if numbers else self._add(ident, None)

    def ident(self, number: int) -> int | None:
        """The ident of a thread; None if the number is unknown."""
        entry = self._known.get(number)
        return entry.ident if entry is not None else None

    def refresh(self) -> tuple[list[int], list[int]]:
        """The threads that have started and ended since the last call."""
        threads = {entry.thread for entry in self._known.values()}
        for thread in threading.enumerate():
            if thread not in threads and thread.ident and not thread.name.startswith(_OURS):
                self._add(thread.ident, thread)
        living = self._living()
        started, ended = living - self._told, self._told - living
        self._told = living
        return sorted(started), sorted(ended)

    def listed(self, also: int = 0) -> list[dict[str, Any]]:
        """The living threads, and the one numbered ``also`` even if it has ended."""
        entries = []
        for number, entry in self._known.items():
            if number in self._told:
                entries.append({"id": number, "name": entry.name})
            elif number == also:
                entries.append({"id": number, "name": f"{entry.name} (ended)"})
        return entries

    def _add(self, ident: int, thread: threading.Thread | None) -> int:
        number = len(self._known) + 1
        name = thread.name if thread is not None else f"thread {number}"
        self._known[number] = _Known(ident, thread, name)
        return number

    def _living(self) -> set[int]:
        running = thread_frames()
        named = {thread.ident for thread in threading.enumerate()}
        return {
            number
            for number, entry in self._known.items()
            if (
                entry.ident in running and entry.ident not in named
                if entry.thread is None
                else entry.thread.is_alive()
            )
        }
