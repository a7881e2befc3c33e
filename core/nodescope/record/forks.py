"""Forks: a child process has a copy of every recorder, but not its thread; the copy must stay
silent.

Invariant: nothing here takes a lock.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forked(Protocol):
    """An object that must learn that it is in a forked child."""

    def after_fork(self) -> None:
        """Handle the fork. Called in the child, before anything else runs there."""


_known: weakref.WeakSet[Forked] = weakref.WeakSet()


def silence_in_child(recorder: Forked) -> None:
    """Silence ``recorder`` in each child forked from now on."""
    _known.add(recorder)


def _tell_all() -> None:
    for recorder in list(_known):
        recorder.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tell_all)
