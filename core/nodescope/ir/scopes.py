"""Scope paths: slash-separated names, ``""`` at the top.

Invariant: pure string functions; engine, debugger and exporters share one reading of a path.
"""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = re.compile(r"(.*)_(\d+)", re.DOTALL)


def join(scope: str, name: str) -> str:
    """``join("a/b", "c") == "a/b/c"``; ``join("", "c") == "c"``."""
    return f"{scope}/{name}" if scope else name


def parent(scope: str) -> str:
    """The enclosing scope: ``parent("a/b") == "a"``; the top is its own parent."""
    return scope.rpartition("/")[0]


def is_within(scope: str, ancestor: str) -> bool:
    """Whether ``scope`` is ``ancestor`` or lies inside it. Everything lies inside the top."""
    return not ancestor or scope == ancestor or scope.startswith(ancestor + "/")


def split_number(name: str) -> tuple[str, int | None]:
    """A name and the number that makes it unique, or None: ``split_number("cell_2") == ("cell",
    2)``. Repeated calls of a module, and modules in a list, have such names.
    """
    match = _NUMBER.fullmatch(name)
    return (name, None) if match is None else (match[1], int(match[2]))


def unnumbered(scope: str) -> str:
    """``unnumbered("net/cell_2") == "net/cell"``."""
    return "/".join([split_number(name)[0] for name in scope.split("/")])


def without_phase(scope: str) -> str:
    """The scope of the forward pass: ``without_phase("backward/net") == "net"``."""
    first, _, rest = scope.partition("/")
    return rest if first in ("backward", "recompute") else scope


def depth(scope: str) -> int:
    """The number of scopes around its nodes: ``depth("a/b") == 2``; 0 at the top."""
    return scope.count("/") + 1 if scope else 0


def ancestors(scope: str) -> list[str]:
    """``ancestors("a/b/c") == ["a", "a/b", "a/b/c"]``."""
    parts = scope.split("/") if scope else []
    return ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]


def placed(scope: str, phase: str, base: str) -> str:
    """The scope of a graph's node that runs inside scope ``base``, as if it ran eagerly."""
    if not base or phase == "optimizer":
        return scope or base
    if phase == "backward":
        inner = _without_backward(scope)
        outer = _without_backward(base)
        return join("backward", join(outer, inner) if outer and inner else outer or inner)
    return join(base, scope) if scope else base


def base_of(ran: str, scope: str, phase: str) -> str | None:
    """The scope in which a graph runs, from the scope of one of its nodes there.

    Args:
        ran: The node's scope where it ran.
        scope: Its scope within the graph; this is the inverse of `placed`.
        phase: Its phase.

    Returns:
        None if the node does not determine it: an optimizer's node, or one whose scopes do not
        match.
    """
    if phase == "optimizer":
        return None
    if phase == "backward":
        ran, scope = _without_backward(ran), _without_backward(scope)
    if not scope:
        return ran
    if ran == scope:
        return ""
    return ran.removesuffix(f"/{scope}") if ran.endswith(f"/{scope}") else None


def _without_backward(scope: str) -> str:
    if scope == "backward" or scope.startswith("backward/"):
        return scope.removeprefix("backward").removeprefix("/")
    return scope
