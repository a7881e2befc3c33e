"""RunTime: how long a run took, and how much of that was the program's own time.

Invariant: the only place that computes run times; pages, lists and reports show its results.
"""

from __future__ import annotations

import msgspec

from nodescope.record.recording import Recording
from nodescope.record.rows import Holds


class RunTime(msgspec.Struct, frozen=True):
    """How long a run took.

    Attributes:
        ran_ns: From the program's first line to its end, with imports, loading, compiling and
            observing; without the time held by the debugger.
        held_ns: Time during which the debugger held the program.
    """

    ran_ns: int = 0
    held_ns: int = 0


def run_time(recording: Recording) -> RunTime:
    """How long a run has taken so far.

    Raises:
        RecordingError: The recording is damaged.
    """
    total_ns = recording.time_ns()
    ran = Holds(recording.holds()).ran_ns(total_ns)
    return RunTime(ran, total_ns - ran)
