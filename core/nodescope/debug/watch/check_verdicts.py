"""Check verdicts: the result of a check, as data.

Invariant: a watch that was never evaluated is never called clean.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from nodescope.events import Level
from nodescope.ir.graph import SourceLocation
from nodescope.record.rows import Advice

MOST_KEPT: Final = 100
"""The number of values with hits that a verdict lists; all hits are counted."""

State = Literal["clean", "hit", "unasked", "failed"]


class VerdictHit(msgspec.Struct, frozen=True):
    """The hits of a watch on one value; the first of them is shown.

    Attributes:
        node, port: The node's name, and the output port of the value.
        step, seq: Step and seq of the first hit.
        text: A description of the finding.
        source: The user's line.
        actual: The numbers found.
        times, last_step: The number of hits, and the step of the last one.
    """

    node: str
    port: int
    step: int
    seq: int
    text: str
    source: SourceLocation | None
    actual: dict[str, Any]
    times: int = 1
    last_step: int = 0

    @property
    def target(self) -> str:
        """The target for `nodescope why`: ``loss/log@3``."""
        return f"{self.node}{f':{self.port}' if self.port else ''}@{self.step}"


class WatchVerdict(msgspec.Struct, frozen=True):
    """The verdict of a watch.

    Attributes:
        watch: The watch's text without its actions.
        about: What its rule looks for.
        reason: Why it was recommended, or ``""``.
        state: ``hit``, ``clean``, ``failed`` if the rule raised, or ``unasked`` if nothing was
            judged: no value is covered, there were too few steps, or data was not kept.
        values: The number of values that it covers.
        looked, hits: The number of evaluations, and of hits.
        unasked: By reason: how often it could not be evaluated.
        fault: Why it failed, or ``""``.
        found: The values with hits, in order of their first hit.
        short: Why some or all values were not judged: ``needs 101 steps, had 40``.
        cause: The text of the watch whose hits explain these; ``""`` if there is none.
        note: What was left out of the hits, and why; or ``""``.
        explained: Whether the hits name the mistake and its place, so that `nodescope why` would
            add nothing.
    """

    watch: str
    rule: str
    about: str
    reason: str
    state: State
    values: int
    looked: int
    hits: int
    unasked: dict[str, int]
    fault: str
    found: tuple[VerdictHit, ...]
    short: tuple[str, ...] = ()
    cause: str = ""
    note: str = ""
    explained: bool = False

    @property
    def caveat(self) -> str:
        """A sentence on what could not be judged, or ``""``."""
        if self.fault:
            return f"it was disabled: {self.fault}"
        if not self.values:
            return "no value in the program matches it"
        if not self.looked:
            return "nothing that it applies to was computed"
        missing = (
            f"not evaluated {times} of {self.looked} times: {reason}"
            for reason, times in self.unasked.items()
        )
        return "; ".join((*self.short, *missing))


class CheckReport(msgspec.Struct, frozen=True):
    """The result of a check.

    Attributes:
        program: The script's name.
        argv: Its command line.
        status, error: How the program ended, if known.
        recording: The file; ``""`` if it was not kept.
        level, steps: The capture level, and the number of recorded steps.
        lost: Counts of what the recording lost.
        time_ns: The duration of the run, without time held by a debugger.
        started_unix_ns: The time at which the run began.
        verdicts: Verdicts with hits come first, in order of the first hit; those that follow from
            another one come after those that do not.
        nodes: The number of distinct operations.
        advice: What to do if there are none.
        raised: The operation whose error ended the program, as ``loss/log@7``; ``""`` if none did.
        kept: A note on weights whose arrays were not kept in every step, or ``""``.
    """

    program: str
    argv: tuple[str, ...]
    status: int | None
    error: str
    recording: str
    level: Level
    steps: int
    lost: dict[str, int]
    time_ns: int
    started_unix_ns: int
    verdicts: tuple[WatchVerdict, ...]
    nodes: int = 0
    advice: Advice | None = None
    raised: str = ""
    kept: str = ""

    @property
    def vacuous(self) -> bool:
        """Whether no watch gave a verdict: there were none, or none could be evaluated."""
        return len(self.having("unasked")) == len(self.verdicts)

    def having(self, *states: State) -> list[WatchVerdict]:
        """The verdicts in these states."""
        return [verdict for verdict in self.verdicts if verdict.state in states]
