"""Scope paths: slash-separated names, ``""`` at the top.

Invariant: pure string functions; engine, debugger and exporters share one reading of a path.
"""

from __future__ import annotations


def join(scope: str, name: str) -> str:
    """``join("a/b", "c") == "a/b/c"``; ``join("", "c") == "c"``."""
    return f"{scope}/{name}" if scope else name


def parent(scope: str) -> str:
    """The enclosing scope: ``parent("a/b") == "a"``; the top is its own parent."""
    return scope.rpartition("/")[0]


def is_within(scope: str, ancestor: str) -> bool:
    """Whether ``scope`` is ``ancestor`` or lies inside it. Everything lies inside the top."""
    return not ancestor or scope == ancestor or scope.startswith(ancestor + "/")


def ancestors(scope: str) -> list[str]:
    """``ancestors("a/b/c") == ["a", "a/b", "a/b/c"]``."""
    parts = scope.split("/") if scope else []
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
