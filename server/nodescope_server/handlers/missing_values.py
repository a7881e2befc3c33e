"""Missing values: why elements were not kept, and the remedy.

Invariant: answers follow from the recording alone; reading it blocks on the disk.
"""

from __future__ import annotations

from nodescope.record.recording import Recording
from nodescope.record.rows import (
    BEHIND,
    CHANGED,
    LATER,
    UNWRITTEN,
    WANTED,
    Execution,
    Keeping,
    ValueAt,
)

_MIB = 1 << 20


def why_not_kept(recording: Recording, level: str, value: int, seq: int) -> str:
    """Why the elements of an execution's output are not in the recording.

    Args:
        recording: The recording without them.
        level: The run's capture level.
        value: The value's id.
        seq: The execution.
    """
    keeping = recording.keeping()
    at = recording.latest_at(value, seq)
    ran = recording.executions(seq - 1, seq)
    waits = recording.waits(seq)
    if at is None or at.seq == seq:
        return _told(keeping, level, at, ran, waits)
    reason = _told(keeping, level, None, ran, waits)
    # The known statistics are of an older execution. If the value was computed at `seq`, the text
    # names the step of that older execution.
    return (
        f"{reason} No statistics of this execution; last known: step {at.step}." if ran else reason
    )


def _told(
    keeping: Keeping | None,
    level: str,
    at: ValueAt | None,
    ran: list[Execution],
    waits: bool = False,
) -> str:
    flags = ran[0].flags if ran else 0
    lead = "Only statistics were kept" if at is not None else "Only its time was kept"
    not_yet = f"{lead}: its elements are not written yet, or the program ended before they were."
    if keeping is None:  # a recording of an earlier release
        if level == "values":
            return "Not kept: the byte budget was used up, or the recorder fell behind."
        return f"{lead}, at level {level}; run with --level values."
    if flags & BEHIND:
        return (
            f"{lead}: the recorder fell behind, and dropped older values for newer ones. "
            "Select what you need (--select), or stop there."
        )
    if flags & UNWRITTEN:
        return f"{lead}: the disk was full."
    if flags & CHANGED:
        return (
            f"{lead}: the program wrote to its array, as through `x.data`, before its elements "
            "were copied. Write x[...] = y, or use nodescope.assign."
        )
    if flags & LATER and not flags & WANTED:
        return not_yet
    nbytes = at.summary.nbytes if at is not None else 0
    if nbytes > keeping.budget_bytes:
        return (
            f"{lead}: with {_size(nbytes)} it is larger than the whole budget "
            f"({_size(keeping.budget_bytes)}). Raise --budget."
        )
    if flags & WANTED and waits:
        return not_yet
    if flags & WANTED or (keeping.level == "values" and keeping.limit is None):
        return (
            f"{lead}: newer values took its place in the budget of {_size(keeping.budget_bytes)}. "
            "Raise --budget."
        )
    if keeping.newest_steps and nbytes > keeping.newest_bytes:
        return (
            f"{lead}: with {_size(nbytes)} it is too large to be held for the newest steps "
            f"({_size(keeping.newest_bytes)}). Stop at it, pin it, or run with --level values."
        )
    if keeping.limit is not None and keeping.newest_steps:
        return (
            f"{lead}, to stay below {keeping.limit:g}× slower; the newest steps and those of the "
            "first NaN and Inf are kept in full. "
            "Pin it to keep it from now on, or run with --level values."
        )
    if keeping.limit is not None and at is None and keeping.level != "timing":
        return f"{lead}, to stay below {keeping.limit:g}× slower. Raise --max-slowdown."
    return f"{lead}, at level {keeping.level}; run with --level values."


def _size(nbytes: int) -> str:
    if nbytes >= _MIB:
        return f"{nbytes / _MIB:,.4g} MiB"
    return f"{nbytes / 1024:,.3g} KiB"
