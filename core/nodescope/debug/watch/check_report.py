"""Checking: evaluates watches against a whole recording, with the verdicts as data.

Invariant: the same run gives the same report, whatever the recording had room for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from nodescope.debug.watch import get
from nodescope.debug.watch.birth_hits import RULE, BirthHits, birth_hit, birth_hits
from nodescope.debug.watch.causes import in_order
from nodescope.debug.watch.check_verdicts import (
    MOST_KEPT,
    CheckReport,
    State,
    VerdictHit,
    WatchVerdict,
)
from nodescope.debug.watch.hit_collection import HitCollection, ValueHits
from nodescope.debug.watch.offline import Asking
from nodescope.debug.watch.outcome import WatchOutcome
from nodescope.debug.watch.recommend import recommend_for
from nodescope.debug.watch.watch import Watch, head
from nodescope.ir.graph import Node, SourceLocation
from nodescope.record.ending import ended_by
from nodescope.record.recording import Recording
from nodescope.record.run_time import run_time


def check(recording: Recording, watches: Sequence[Watch] = (), *, recommended: bool) -> CheckReport:
    """Evaluate watches on a recording.

    Args:
        recording: The recording.
        watches: The watches; disabled ones are left out.
        recommended: Whether to add the watches recommended for the recorded program.

    Raises:
        WatchError: A watch is invalid.
    """
    chosen = [watch for watch in watches if watch.enabled]
    reasons: dict[str, str] = {}
    if recommended:
        heads = set(map(head, chosen))
        for suggestion in recommend_for(recording):
            if head(suggestion.watch) not in heads:
                chosen.append(suggestion.watch)
                reasons[head(suggestion.watch)] = suggestion.reason
    asking = Asking(recording, [msgspec.structs.replace(watch, id=0) for watch in chosen])
    hits = HitCollection()
    for hit in asking:
        hits.take(hit)
    return report_of(recording, asking.coverage().outcomes, hits, asking.ongoing, reasons)


def report_of(
    recording: Recording,
    outcomes: Iterable[WatchOutcome],
    hits: HitCollection,
    ongoing: Callable[[int], Iterable[int]],
    reasons: Mapping[str, str],
) -> CheckReport:
    """The report of evaluated watches.

    Args:
        recording: The recording of the run.
        outcomes: The outcomes of the watches.
        hits: The hits of the watches.
        ongoing: As in `HitCollection.of`.
        reasons: By the watch's text without actions: why it was recommended.
    """
    nodes = {row.node.id: row.node for row in recording.nodes()}
    sources = {number: node.source for number, node in nodes.items()}
    born = birth_hits(recording) if reasons else BirthHits((), ())
    verdicts = []
    for outcome in outcomes:
        verdict = _verdict(outcome, hits.of(outcome.watch, ongoing), sources, reasons)
        if verdict.reason and verdict.rule in _BY_REACH:
            verdict = _by_reach(verdict, outcome, born, recording)
        verdicts.append(verdict)
    first = born.first
    ordered = in_order(verdicts, first.seq if first is not None else 0)
    info = recording.run()
    failed = ended_by(recording)
    raised = "" if failed is None else f"{nodes[failed.node].name}@{failed.step}"
    return CheckReport(
        info.name, info.argv, info.status, info.error, str(recording.path), info.level,
        len(recording.steps()), msgspec.structs.asdict(recording.dropped()),
        run_time(recording).ran_ns, info.started_unix_ns, ordered,
        sum(not node.is_leaf for node in nodes.values()), recording.advice(), raised,
        _kept(recording, nodes.values()),
    )  # fmt: skip


def _kept(recording: Recording, nodes: Iterable[Node]) -> str:
    """A note on weights whose arrays were not kept in every step, or ``""``."""
    if recording.run().level != "values":
        return ""
    names = {node.outputs[0]: node.name for node in nodes if node.is_weight}
    counts = zip(recording.kept_of([*names]), names.values(), strict=True)
    few = [(kept, ran, name) for (kept, ran), name in counts if kept < ran]
    if not few:
        return ""
    kept, ran, name = min(few)
    more = f" and {len(few) - 1} more weights are" if len(few) > 1 else " is"
    return f"{name}{more} whole in {kept:,} of {ran:,} steps; --budget keeps more"


def _verdict(
    outcome: WatchOutcome,
    hits: list[ValueHits],
    sources: Mapping[int, SourceLocation | None],
    reasons: Mapping[str, str],
) -> WatchVerdict:
    state: State = "clean"
    if hits:
        state = "hit"
    elif outcome.fault:
        state = "failed"
    elif not outcome.judged:
        state = "unasked"
    name = head(outcome.watch)
    value_hits = tuple(_value_hits(hit, sources.get(hit.first.node)) for hit in hits[:MOST_KEPT])
    return WatchVerdict(
        name, outcome.watch.rule, get(outcome.watch.rule).about, reasons.get(name, ""), state,
        outcome.values, outcome.looked, sum(hit.times for hit in hits),
        dict(sorted(outcome.unasked.items())), outcome.fault, value_hits,
        tuple(outcome.shortcomings()), note=outcome.excuses(),
        explained=get(outcome.watch.rule).explains,
    )  # fmt: skip


# Recommended watches whose hits count only if they reached something.
_BY_REACH = (RULE, "gradient_exploding")


def _by_reach(
    verdict: WatchVerdict, outcome: WatchOutcome, born: BirthHits, recording: Recording
) -> WatchVerdict:
    """The verdict on NaN and Inf, without those that are harmless."""
    value_hits = verdict.found if born.harmful else ()
    times = verdict.hits if born.harmful else 0
    if verdict.rule == RULE:
        value_hits = tuple(
            msgspec.structs.replace(
                _value_hits(
                    ValueHits(birth_hit(recording, item.first, outcome.watch.id)),
                    item.first.node.source,
                ),
                times=item.times, last_step=item.last_step,
            )
            for item in born.harmful
        )  # fmt: skip
        times = sum(item.times for item in born.harmful)
    state: State = verdict.state
    if state in ("hit", "clean"):
        state = "hit" if value_hits else "clean"
    note = born.note() if verdict.rule == RULE else verdict.note
    return msgspec.structs.replace(verdict, found=value_hits, hits=times, state=state, note=note)


def _value_hits(hits: ValueHits, source: SourceLocation | None) -> VerdictHit:
    hit = hits.first
    text = hit.text.removeprefix(f"{hit.rule}: ")
    return VerdictHit(
        hit.node_name, hit.port, hit.step, hit.seq, text, source, hit.actual, hits.times,
        hits.last_step,
    )  # fmt: skip
