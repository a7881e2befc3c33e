"""Phases: the part of training to which a thread's nodes belong.

Invariant: scope, phase and forward node are always restored.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from nodescope.emit import state as states
from nodescope.emit.state import ThreadState
from nodescope.ir.graph import Phase
from nodescope.ir.scopes import join

Place = Callable[[Any], tuple[str, int] | None]
"""Scope and id of the node that made a tensor (or an op's outputs), if known."""


def _moved(state: ThreadState) -> None:
    if states.moved is not None:
        states.moved(state)


@functools.lru_cache(maxsize=1024)
def backward_scope(scope: str) -> str:
    """The scope of gradients of the nodes in a scope.

    A recomputed tensor is differentiated in the scope of its first computation.
    """
    return join("backward", scope.removeprefix("recompute").lstrip("/")).rstrip("/")


class backward_phase:
    """Make the nodes inside backward nodes.

    The context's variable is a function to be called with each forward tensor before its rules run.
    """

    __slots__ = ("_place", "_saved", "_state")

    def __init__(self, state: ThreadState, place: Place) -> None:
        self._state, self._place = state, place

    def __enter__(self) -> Callable[[Any], None]:
        state = self._state
        self._saved = state.scope, state.phase, state.cursor, state.forward
        state.phase, state.cursor = "backward", None
        _moved(state)
        return self._differentiate

    def __exit__(self, *raised: object) -> None:
        state = self._state
        state.scope, state.phase, state.cursor, state.forward = self._saved
        _moved(state)

    def _differentiate(self, tensor: Any) -> None:
        state, place_found = self._state, self._place(tensor)
        if place_found is None:
            scope, state.forward = "backward", None
        else:
            scope, state.forward = backward_scope(place_found[0]), place_found[1]
        if scope != state.scope or state.cursor is None:
            state.scope = scope
            state.cursor = None


class optimizer_phase:
    """Make the nodes inside optimizer nodes under ``optimizer/<path>``."""

    __slots__ = ("_path", "_saved", "_state")

    def __init__(self, state: ThreadState, path: str) -> None:
        self._state, self._path = state, path

    def __enter__(self) -> None:
        state = self._state
        self._saved = state.scope, state.phase, state.cursor
        state.scope, state.phase, state.cursor = join("optimizer", self._path), "optimizer", None
        _moved(state)

    def __exit__(self, *raised: object) -> None:
        state = self._state
        state.scope, state.phase, state.cursor = self._saved
        _moved(state)


@contextlib.contextmanager
def recompute_phase(state: ThreadState, path: str) -> Iterator[None]:
    """Make the nodes inside recomputed nodes under ``recompute/<path>``."""
    saved = (state.scope, state.phase, state.cursor, state.forward)
    for outer in ("recompute", "backward"):  # a recomputation keeps the scope of its original
        if path == outer or path.startswith(outer + "/"):
            path = path.removeprefix(outer).lstrip("/")
    state.scope, state.phase = join("recompute", path).rstrip("/"), "recompute"
    state.cursor = state.forward = None
    _moved(state)
    try:
        yield
    finally:
        state.scope, state.phase, state.cursor, state.forward = saved
        _moved(state)


@contextlib.contextmanager
def phase(
    state: ThreadState, name: Phase, scope: str, forward: int | None = None
) -> Iterator[None]:
    """Assign the nodes inside to a phase; those of ``backward`` are placed under
    ``backward/<scope>``.

    Args:
        state: The calling thread's state.
        name: The phase.
        scope: For ``backward``: the scope being differentiated; otherwise ignored.
        forward: The node being differentiated, if known.
    """
    saved = (state.scope, state.phase, state.cursor, state.forward)
    if name == "backward":
        state.scope = backward_scope(scope)
    state.phase, state.cursor, state.forward = name, None, forward
    _moved(state)
    try:
        yield
    finally:
        state.scope, state.phase, state.cursor, state.forward = saved
        _moved(state)


class Scope:
    """A context that places the nodes inside in a scope below the current one."""

    __slots__ = ("_path", "_saved", "_state")

    def __init__(self, state: ThreadState, path: str) -> None:
        self._state, self._path = state, path

    def __enter__(self) -> None:
        state = self._state
        self._saved = state.scope, state.cursor
        state.scope, state.cursor = join(state.scope, self._path), None
        if states.moved is not None:
            states.moved(state)

    def __exit__(self, *raised: object) -> None:
        state = self._state
        state.scope, state.cursor = self._saved
        if states.moved is not None:
            states.moved(state)
