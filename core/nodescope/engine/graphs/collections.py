"""Collections: the named lists of a graph.

Invariant: items stay in order; nothing is added once the graph is finalized.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any

from nodescope.engine.source import where
from nodescope.errors import UsageError


class Collections:
    """The part of `Graph` that holds collections."""

    def __init__(self) -> None:
        self.finalized = False
        self._items: dict[str, list[Any]] = {}
        self._collecting = threading.Lock()

    def add_to_collection(self, name: str, value: Any) -> None:
        """Append ``value`` to a collection."""
        self._check_collection()
        with self._collecting:
            self._items.setdefault(name, []).append(value)

    def add_to_collections(self, names: str | Sequence[str], value: Any) -> None:
        """Append ``value`` to several collections, each named once."""
        for name in [names] if isinstance(names, str) else dict.fromkeys(names):
            self.add_to_collection(name, value)

    def get_collection(self, name: str, scope: str | None = None) -> list[Any]:
        """A copy of a collection.

        Args:
            scope: Only items whose name this regular expression matches from the start.
        """
        with self._collecting:
            items = list(self._items.get(name, ()))
        if scope is None:
            return items
        pattern = re.compile(scope)
        return [item for item in items if pattern.match(getattr(item, "name", None) or "\0")]

    def get_collection_ref(self, name: str) -> list[Any]:
        """The collection itself; appending to it changes the collection."""
        with self._collecting:
            return self._items.setdefault(name, [])

    def get_all_collection_keys(self) -> list[str]:
        """Names of the non-empty collections."""
        with self._collecting:
            return [name for name, items in self._items.items() if items]

    def clear_collection(self, name: str) -> None:
        """Empty a collection."""
        self._check_collection()
        with self._collecting:
            self._items.pop(name, None)

    def _check_collection(self) -> None:
        if self.finalized:
            raise UsageError("this graph is finalized: its collections cannot change",
                             source=where())  # fmt: skip
