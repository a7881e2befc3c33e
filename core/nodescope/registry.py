"""Registry: a named table that refuses duplicates and suggests near names.

Invariant: entries are added while modules load and are never replaced.
"""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from nodescope.errors import RegistryError

T = TypeVar("T")


class Registry(Generic[T]):
    """A table of extensions of one kind, in order of registration.

    Args:
        kind: The singular noun for messages, such as ``"op"`` or ``"exporter"``.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

    def add(self, name: str, entry: T) -> T:
        """Register ``entry`` under ``name`` and return it.

        Raises:
            RegistryError: The name is taken.
        """
        if name in self._entries:
            raise RegistryError(
                f"{self.kind} {name!r} is registered twice", hint="choose another name"
            )
        self._entries[name] = entry
        return entry

    def get(self, name: str) -> T:
        """Return the entry of ``name``.

        Raises:
            RegistryError: No such entry; the hint names similar ones.
        """
        try:
            return self._entries[name]
        except KeyError:
            near = did_you_mean(name, self._entries)
            raise RegistryError(f"no {self.kind} named {name!r}", hint=near) from None

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def items(self) -> Iterator[tuple[str, T]]:
        """Names and entries in order of registration."""
        return iter(self._entries.items())


class Once:
    """An action that is performed at the first call, once, however many threads call.

    Args:
        run: The action. Calls from within it return at once.

    Attributes:
        done: Whether the action has been performed.
    """

    def __init__(self, run: Callable[[], None]) -> None:
        self._run, self._lock = run, threading.RLock()
        self._begun = self.done = False

    def __call__(self) -> None:
        """Return when the action has been performed. Raises its exceptions, and then retries next
        time.
        """
        if self.done:
            return
        with self._lock:
            if self._begun:
                return
            self._begun = True
            try:
                self._run()
            except BaseException:
                self._begun = False
                raise
            self.done = True


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return ``did you mean 'a' or 'b'?`` for names similar to ``name``, or ``""``."""
    close = difflib.get_close_matches(name, list(names), n=3, cutoff=0.65)
    return f"did you mean {' or '.join(map(repr, close))}?" if close else ""
