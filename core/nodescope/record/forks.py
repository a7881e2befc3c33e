"""Forks: a child process has a copy of every recorder, without its thread; it has to keep quiet.

Invariant: nothing here takes a lock.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forked(Protocol):
    """An object that must know that it is in a forked child."""

    def after_fork(self) -> None:
        """Called in the child, before anything else runs there."""


_known: weakref.WeakSet[Forked] = weakref.WeakSet()


def silence_in_child(recorder: Forked) -> None:
    """Tell ``recorder`` in each child that is forked from now on."""
    _known.add(recorder)


def _tell_all() -> None:
    for recorder in list(_known):
        recorder.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tell_all)
