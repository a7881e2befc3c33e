"""How a program ended: the operation whose error ended it.

Invariant: reads only.
"""

from __future__ import annotations

from nodescope.record.recording import Recording
from nodescope.record.rows import FAILED, Execution


def ended_by(recording: Recording) -> Execution | None:
    """The operation whose exception ended the program; None if there is none.

    Exceptions that the program caught, or replaced by its own, do not count.
    """
    error = recording.run().error
    failed = recording.flagged(FAILED) if error else []
    if not failed:
        return None
    last = failed[-1]
    raised = recording.failure(last.seq) or ""
    return last if raised.partition(":")[0] == error.partition(":")[0] else None
