"""Disk losses: counts records lost to a disk that is full, or too slow at the end of the program.

Invariant: between `DiskLosses.begin` and `DiskLosses.end`, every loss is attributed to the disk.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from nodescope.record.rows import Dropped, Unwritten


class LossCounts(NamedTuple):
    """Losses so far, whatever their cause.

    Attributes:
        dropped: The recording's counts.
        behind: Arrays that the queue reduced to their statistics to make room for newer arrays.
        step: The training step.
    """

    dropped: Dropped
    behind: int
    step: int


class DiskLosses:
    """Losses caused by a full disk, over any number of gaps."""

    def __init__(self) -> None:
        self._before = Unwritten("full")  # losses of finished gaps
        self._behind = 0
        self._since: LossCounts | None = None
        self._cause: Literal["full", "slow"] = "full"

    def begin(self, counts: LossCounts, cause: Literal["full", "slow"] = "full") -> None:
        """Begin a gap because the disk is full. Has no effect within one."""
        if self._since is None:
            self._since, self._cause = counts, cause

    def end(self, counts: LossCounts) -> Unwritten:
        """End the gap because the disk has room again; returns the losses since `begin`."""
        gap = self._gap(counts)
        self._before, self._behind = self.total(counts), self.behind(counts)
        self._since = None
        return gap

    def total(self, counts: LossCounts, structure: int = 0) -> Unwritten:
        """All losses so far, with the number of lost parts of the graph from ``structure``."""
        before, gap = self._before, self._gap(counts)
        if not before:
            return msgspec.structs.replace(gap, structure=structure)
        steps = (before, gap) if gap else (before,)
        return Unwritten(
            before.cause,
            before.arrays + gap.arrays,
            before.summaries + gap.summaries,
            before.executions + gap.executions,
            structure,
            min(lost.first_step for lost in steps),
            max(lost.last_step for lost in steps),
        )

    def behind(self, counts: LossCounts) -> int:
        """The number of lost arrays whose statistics are recorded."""
        return self._behind + (counts.behind - self._since.behind if self._since else 0)

    def _gap(self, counts: LossCounts) -> Unwritten:
        since = self._since
        if since is None:
            return Unwritten(self._cause)
        now, then = counts.dropped, since.dropped
        return Unwritten(
            self._cause,
            now.blobs - then.blobs,
            now.summaries - then.summaries,
            now.executions - then.executions,
            0,
            since.step,
            max(counts.step, since.step),
        )
