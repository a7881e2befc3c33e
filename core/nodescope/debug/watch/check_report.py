"""Checking: evaluates watches against a whole recording, with the verdicts as data.

Invariant: a watch that was never evaluated is never called clean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from nodescope.debug.watch import get
from nodescope.debug.watch.offline import Asking, Coverage
from nodescope.debug.watch.recommend import recommend_for
from nodescope.debug.watch.watch import Hit, Watch, describe
from nodescope.events import Level
from nodescope.ir.graph import SourceLocation
from nodescope.record.recording import Recording
from nodescope.record.rows import Advice
from nodescope.record.run_time import run_time

MOST_KEPT: Final = 100
"""Hits of a watch that are told of; all are counted."""

State = Literal["clean", "hit", "unasked", "failed"]


class VerdictHit(msgspec.Struct, frozen=True):
    """One hit.

    Attributes:
        node, port: Whose value, and which.
        step, seq: When.
        text: In words.
        source: The user's line.
        actual: The numbers that were found.
    """

    node: str
    port: int
    step: int
    seq: int
    text: str
    source: SourceLocation | None
    actual: dict[str, Any]

    @property
    def target(self) -> str:
        """How `nodescope why` is asked about it: ``loss/log@3``."""
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
        found: The first hits.
        short: Why it is no verdict, or none on some values: ``needs 101 steps, had 40``.
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
    """What a check found.

    Attributes:
        program: The script's name.
        argv: Its command line.
        status, error: How the program ended, if that is known.
        recording: The file; ``""`` if it was not kept.
        level, steps: What was recorded.
        lost: What the recording lost, counted.
        time_ns: How long the run took, without what a debugger held.
        started_unix_ns: When it began.
        verdicts: In order of the watches.
        nodes: How many operations the program has.
        advice: If it has none: what can be done.
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

    @property
    def vacuous(self) -> bool:
        """Whether no watch came to a verdict: there were none, or none could be asked."""
        return len(self.having("unasked")) == len(self.verdicts)

    def having(self, *states: State) -> list[WatchVerdict]:
        """The verdicts of these kinds."""
        return [verdict for verdict in self.verdicts if verdict.state in states]


def check(recording: Recording, watches: Sequence[Watch] = (), *, recommended: bool) -> CheckReport:
    """Ask watches of a recording.

    Args:
        watches: Which; those that are switched off are left out.
        recommended: Ask those as well that are recommended for what was recorded.

    Raises:
        WatchError: A watch makes no sense.
    """
    chosen = [watch for watch in watches if watch.enabled]
    reasons: dict[str, str] = {}
    if recommended:
        heads = {_head(watch) for watch in chosen}
        for suggestion in recommend_for(recording):
            if _head(suggestion.watch) not in heads:
                chosen.append(suggestion.watch)
                reasons[_head(suggestion.watch)] = suggestion.reason
    asking = Asking(recording, [msgspec.structs.replace(watch, id=0) for watch in chosen])
    sources = {row.node.id: row.node.source for row in recording.nodes()}
    findings: dict[int, list[VerdictHit]] = {watch.id: [] for watch in asking.watches}
    for hit in asking:
        if len(findings[hit.watch]) < MOST_KEPT:
            findings[hit.watch].append(_watch_hit(hit, sources.get(hit.node)))
    info = recording.run()
    return CheckReport(
        info.name, info.argv, info.status, info.error, str(recording.path), info.level,
        len(recording.steps()), msgspec.structs.asdict(recording.dropped()),
        run_time(recording).ran_ns, info.started_unix_ns,
        _verdicts(asking.coverage(), findings, reasons),
        sum(not row.node.is_leaf for row in recording.nodes()), recording.advice(),
    )  # fmt: skip


def _verdicts(
    coverage: Coverage, findings: dict[int, list[VerdictHit]], reasons: dict[str, str]
) -> tuple[WatchVerdict, ...]:
    verdicts: list[WatchVerdict] = []
    for outcome in coverage.outcomes:
        unasked = dict(sorted(outcome.unasked.items()))
        state: State = "clean"
        if outcome.hits:
            state = "hit"
        elif outcome.fault:
            state = "failed"
        elif not outcome.judged:
            state = "unasked"
        head = _head(outcome.watch)
        verdict = WatchVerdict(
            head, outcome.watch.rule, get(outcome.watch.rule).about, reasons.get(head, ""), state,
            outcome.values, outcome.looked, outcome.hits, unasked, outcome.fault,
            tuple(findings[outcome.watch.id]), tuple(outcome.shortcomings()),
        )  # fmt: skip
        verdicts.append(verdict)
    return tuple(verdicts)


def _head(watch: Watch) -> str:
    """The watch as it is written, without what follows a hit."""
    return describe(watch).rpartition(" -> ")[0]


def _watch_hit(hit: Hit, source: SourceLocation | None) -> VerdictHit:
    text = hit.text.removeprefix(f"{hit.rule}: ")
    return VerdictHit(hit.node_name, hit.port, hit.step, hit.seq, text, source, hit.actual)
