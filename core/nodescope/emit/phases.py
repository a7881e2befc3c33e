"""Phases: what part of training the nodes of a thread belong to.

Invariant: scope, phase and forward node are put back as they were in any case.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from nodescope.emit.state import ThreadState
from nodescope.ir.graph import Phase
from nodescope.ir.scopes import join

Place = Callable[[Any], tuple[str, int] | None]
"""Scope and id of the node that made a tensor (or the outputs of an op), if it is known."""


@contextlib.contextmanager
def backward_phase(state: ThreadState, place: Place) -> Iterator[Callable[[Any], None]]:
    """Nodes inside are backward nodes.

    Yields:
        To be called with the forward tensor before its rules run.
    """
    saved = (state.scope, state.phase, state.cursor, state.forward)

    def differentiate(tensor: Any) -> None:
        place_found = place(tensor)
        if place_found is None:
            scope, state.forward = "backward", None
        else:
            # What was computed again is differentiated where its first time would be.
            place_of = place_found[0].removeprefix("recompute").lstrip("/")
            scope, state.forward = join("backward", place_of).rstrip("/"), place_found[1]
        if scope != state.scope or state.cursor is None:
            state.scope = scope
            state.cursor = None

    state.phase = "backward"
    state.cursor = None
    try:
        yield differentiate
    finally:
        state.scope, state.phase, state.cursor, state.forward = saved


@contextlib.contextmanager
def optimizer_phase(state: ThreadState, path: str) -> Iterator[None]:
    """Nodes inside are optimizer nodes under ``optimizer/<path>``."""
    saved = (state.scope, state.phase, state.cursor)
    state.scope, state.phase, state.cursor = join("optimizer", path), "optimizer", None
    try:
        yield
    finally:
        state.scope, state.phase, state.cursor = saved


@contextlib.contextmanager
def recompute_phase(state: ThreadState, path: str) -> Iterator[None]:
    """Nodes inside are computed a second time, under ``recompute/<path>``."""
    saved = (state.scope, state.phase, state.cursor, state.forward)
    path = path.removeprefix("recompute").lstrip("/")
    state.scope, state.phase = join("recompute", path).rstrip("/"), "recompute"
    state.cursor = state.forward = None
    try:
        yield
    finally:
        state.scope, state.phase, state.cursor, state.forward = saved


@contextlib.contextmanager
def phase(
    state: ThreadState, name: Phase, scope: str, forward: int | None = None
) -> Iterator[None]:
    """Nodes inside belong to a phase; those of ``backward`` stand under ``backward/<scope>``.

    Args:
        state: Of the calling thread.
        name: The phase.
        scope: Of what is differentiated, for ``backward``; else ignored.
        forward: The node that is differentiated, if known.
    """
    saved = (state.scope, state.phase, state.cursor, state.forward)
    if name == "backward":
        state.scope = join("backward", scope.removeprefix("recompute").lstrip("/")).rstrip("/")
    state.phase, state.cursor, state.forward = name, None, forward
    try:
        yield
    finally:
        state.scope, state.phase, state.cursor, state.forward = saved


@contextlib.contextmanager
def scope(state: ThreadState, path: str) -> Iterator[None]:
    """Nodes inside stand in a scope below the current one."""
    saved = (state.scope, state.cursor)
    state.scope, state.cursor = join(state.scope, path), None
    try:
        yield
    finally:
        state.scope, state.cursor = saved
