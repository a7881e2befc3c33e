"""RunTime: how long a run took, and how much of that was the program's.

Invariant: the one place that computes it; pages, lists and reports show what it says.
"""

from __future__ import annotations

import msgspec

from nodescope.record.recording import Recording
from nodescope.record.rows import Holds


class RunTime(msgspec.Struct, frozen=True):
    """How long a run took.

    Attributes:
        ran_ns: From the program's first line to its end, with imports, loading, compiling and
            observing; without what the debugger held it.
        held_ns: How long the debugger held it.
    """

    ran_ns: int = 0
    held_ns: int = 0


def run_time(recording: Recording) -> RunTime:
    """How long a run took so far.

    Raises:
        RecordingError: It is damaged.
    """
    total_ns = recording.time_ns()
    ran = Holds(recording.holds()).ran_ns(total_ns)
    return RunTime(ran, total_ns - ran)
