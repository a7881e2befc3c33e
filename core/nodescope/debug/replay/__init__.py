"""Replay: reruns recorded nodes, from the nearest recorded values or from edited ones.

`Replay` gives the values of a moment, recorded or recomputed; `Replay.what_if` reruns what depends
on an edited value. See `nodescope.debug.replay.replay`.
"""

from nodescope.debug.replay.arrays import Difference
from nodescope.debug.replay.branch import Blocked, Branch, ChangedValue
from nodescope.debug.replay.execution_index import ExecutionIndex
from nodescope.debug.replay.replay import Replay
from nodescope.debug.replay.replay_view import ReplayedValue

__all__ = [
    "Blocked",
    "Branch",
    "ChangedValue",
    "Difference",
    "ExecutionIndex",
    "Replay",
    "ReplayedValue",
]
