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
"""Values with hits of a watch that are listed; all hits are counted."""

State = Literal["clean", "hit", "unasked", "failed"]


class VerdictHit(msgspec.Struct, frozen=True):
    """The hits of a watch on one value; the first of them is shown.

    Attributes:
        node, port: Whose value, and which.
        step, seq: When.
        text: In words.
        source: The user's line.
        actual: The numbers that were found.
        times, last_step: How many hits there are, and the step of the last one.
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
    """How it went with a watch.

    Attributes:
        watch: As it is written, without its actions.
        about: What its rule looks for.
        reason: Why it was recommended, or ``""``.
        state: ``unasked`` if it covers nothing, or could judge nothing of what was recorded: too
            few steps, nothing that the rule is about, not enough kept; ``failed`` if the rule did.
        values: How many values it covers.
        looked, hits: How often it was asked, and found something.
        unasked: How often it could not be asked, by reason.
        fault: Why it failed, or ``""``.
        found: The values that have hits, in order of their first.
        short: Why it is no verdict, or none on some values: ``needs 101 steps, had 40``.
        cause: The watch whose hits explain these, as it is written; ``""`` if none does.
        note: What was left out of the hits, and why; or ``""``.
        explained: Whether the hits name the mistake and its place, so that there is nothing left to
            ask `nodescope why` about them.
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
        """What could not be judged, in words; or ``""``."""
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
        status, error: How the program ended, if that is known.
        recording: The file; ``""`` if it was not kept.
        level, steps: What was recorded.
        lost: What the recording lost, counted.
        time_ns: How long the run took, without what a debugger held.
        started_unix_ns: When it began.
        verdicts: Those with hits lead, in order of the first hit; what follows from another one
            comes after those that do not.
        nodes: How many operations the program has.
        advice: If it has none: what can be done.
        raised: The operation whose error ended the program, as ``loss/log@7``; ``""`` if none did.
        kept: Which weights the recording does not hold whole in every step; ``""`` if it holds all.
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
        """The verdicts of these kinds."""
        return [verdict for verdict in self.verdicts if verdict.state in states]
