"""The summary of a run that has ended: how it went, its losses, what was slow, what went wrong.

Invariant: read from the recording alone, with bounds on every list; what is not recorded is None or
empty, never guessed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Final, Literal

import msgspec

from nodescope.debug.watch.judging import Judging
from nodescope.ir.graph import Node, SourceLocation
from nodescope.record.glance import Outcome, outcome_of
from nodescope.record.recording import Recording
from nodescope.record.rows import FAILED, HAS_INF, HAS_NAN, Advice, Dropped, Governed, Holds
from nodescope.record.step_times import PARTS, Part, StepTimes

MOST_CURVES: Final = 4
MOST_POINTS: Final = 400
_MOST_SLOW: Final = 6
_MOST_LINES: Final = 400
_FRAME: Final = re.compile(r'^\s*File "(.+)", line (\d+)')

ProblemKind = Literal["error", "nan", "inf"]


class CurvePoint(msgspec.Struct, frozen=True):
    """A loss at a moment; ``value`` is None where it is not finite."""

    step: int
    seq: int
    value: float | None


class Curve(msgspec.Struct, frozen=True):
    """A loss over the run, thinned to at most 400 points, the last one among them.

    Attributes:
        node, name: Whose first output it is.
        total: How often it was computed.
        broken: How many of these were NaN or Inf.
        first, last, least: Finite values; None if there is none.
    """

    node: int
    name: str
    points: tuple[CurvePoint, ...]
    total: int
    broken: int
    first: float | None
    last: float | None
    least: float | None


class Cost(msgspec.Struct, frozen=True):
    """The time of a node or a scope over the whole run.

    Attributes:
        node: Its id; 0 for a scope.
        name: The node's name, or the scope's path.
        times: How often the node ran; of a scope, its operations.
        total_ns: Sum of its durations.
    """

    node: int
    name: str
    times: int
    total_ns: int


class Share(msgspec.Struct, frozen=True):
    """A part of the time of all training steps; see `nodescope.record.step_times`."""

    part: Part
    ns: float


class Trouble(msgspec.Struct, frozen=True):
    """What went wrong first, of its kind.

    Attributes:
        node, name, step, seq: Where and when: the first in the order of execution.
        nodes: How many nodes had it at some time.
        text: What was raised, or ``""``.
        source: The user's line.
    """

    kind: ProblemKind
    node: int
    name: str
    step: int
    seq: int
    nodes: int
    text: str
    source: SourceLocation | None


class Kept(msgspec.Struct, frozen=True):
    """What can be looked at later, and what cannot.

    Attributes:
        arrays, arrays_bytes: Values of which every element is kept.
        first_step, last_step: The training steps of which some are; None if of none.
        dropped: What was lost, counted.
        governed: What the governor left out, without its nodes; None of a run without a limit.
        steps_left_out: Training steps that were not observed.
    """

    arrays: int
    arrays_bytes: int
    first_step: int | None
    last_step: int | None
    dropped: Dropped
    governed: Governed | None
    steps_left_out: int


class Summary(msgspec.Struct, frozen=True):
    """A run in short.

    Attributes:
        outcome, status, error: How it ended.
        source: The user's line that raised, if that is known.
        steps: Training steps that began.
        wall_ns: From the start to the end, without what a debugger held.
        operations: How many were recorded.
        operations_ns: Sum of their durations, over all threads.
        nodes: How many different ones.
        curves: Losses, those first where a backward pass began.
        slow_nodes, slow_scopes: By total time, the slowest first; scopes of the first level.
        shares: Where the time of the observed training steps went, what the debugger held among it;
            empty without any.
        troubles: First error, NaN and Inf.
        advice: What to do if nothing was seen.
    """

    outcome: Outcome
    status: int | None
    error: str
    source: SourceLocation | None
    steps: int
    wall_ns: int
    operations: int
    operations_ns: int
    nodes: int
    curves: tuple[Curve, ...]
    slow_nodes: tuple[Cost, ...]
    slow_scopes: tuple[Cost, ...]
    shares: tuple[Share, ...]
    troubles: tuple[Trouble, ...]
    kept: Kept
    advice: Advice | None


def summarise_run(recording: Recording, *, running: bool = False) -> Summary:
    """Sum up a recording.

    Raises:
        RecordingError: It is damaged.
    """
    info, steps = recording.run(), recording.steps()
    nodes = {row.node.id: row.node for row in recording.nodes()}
    costs = recording.costs()
    troubles = _troubles(recording, nodes)
    outcome = outcome_of(info.status, info.error, running=running)
    source = None
    if outcome == "failed":
        failed = next((each for each in troubles if each.kind == "error"), None)
        same = failed is not None and failed.text.split(":")[0] == info.error.split(":")[0]
        source = failed.source if failed is not None and same else _raised_at(recording)
    arrays, nbytes, first, last = recording.kept_arrays()
    return Summary(
        outcome=outcome,
        status=info.status,
        error=info.error,
        source=source,
        steps=len(steps),
        wall_ns=Holds(recording.holds()).ran_ns(recording.time_ns()),
        operations=sum(times for _, times, _ in costs),
        operations_ns=sum(total for _, _, total in costs),
        nodes=sum(node.family != "leaf" for node in nodes.values()),
        curves=_curves(recording, nodes),
        slow_nodes=tuple(
            Cost(node, nodes[node].name, times, total)
            for node, times, total in costs
            if node in nodes
        )[:_MOST_SLOW],
        slow_scopes=_scopes(costs, nodes),
        shares=_shares(recording),
        troubles=troubles,
        kept=Kept(
            arrays, nbytes, first, last, recording.dropped(), _short(recording.governed()),
            sum(not each.observed for each in steps),
        ),
        advice=recording.advice(),
    )  # fmt: skip


def _short(governed: Governed | None) -> Governed | None:
    return msgspec.structs.replace(governed, nodes=()) if governed is not None else None


def _curves(recording: Recording, nodes: dict[int, Node]) -> tuple[Curve, ...]:
    judging = Judging(())
    judging.define(nodes.values())
    for row in recording.gradients():
        judging.paired(row.value, row.gradient)
    curves: list[Curve] = []
    for node in judging.losses():
        rows = recording.means(node.outputs[0])
        finite = [mean for _, _, mean, broken in rows if mean is not None and not broken]
        if not rows:
            continue
        points = tuple(
            CurvePoint(step, seq, None if broken or mean is None else mean)
            for seq, step, mean, broken in _thinned(rows)
        )
        curves.append(
            Curve(
                node.id, node.name, points, len(rows), len(rows) - len(finite),
                *((finite[0], finite[-1], min(finite)) if finite else (None, None, None)),
            )
        )  # fmt: skip
        if len(curves) == MOST_CURVES:
            break
    return tuple(curves)


def _thinned(
    rows: list[tuple[int, int, float | None, bool]],
) -> list[tuple[int, int, float | None, bool]]:
    last = len(rows) - 1
    if last < MOST_POINTS:
        return rows
    return [rows[place * last // (MOST_POINTS - 1)] for place in range(MOST_POINTS)]


def _scopes(costs: list[tuple[int, int, int]], nodes: dict[int, Node]) -> tuple[Cost, ...]:
    total: dict[str, int] = defaultdict(int)
    times: dict[str, int] = defaultdict(int)
    for number, many, duration in costs:
        node = nodes.get(number)
        if node is None or not node.scope:
            continue
        parts = node.scope.split("/")
        # What a pass over the whole model did says little: its scopes do.
        deep = 2 if parts[0] in ("backward", "recompute") else 1
        path = "/".join(parts[:deep])
        total[path] += duration
        times[path] += many
    ordered = sorted(total, key=lambda path: -total[path])[:_MOST_SLOW]
    return tuple(Cost(0, path, times[path], total[path]) for path in ordered)


def _shares(recording: Recording) -> tuple[Share, ...]:
    times = StepTimes()
    times.update(recording)
    # Of a step that was not observed it is not known where its time went.
    seen = [times.of(row.step) for row in recording.steps() if row.observed]
    rows = [each.parts for each in seen if each is not None]
    if not rows:
        return ()
    sums = [float(sum(column)) for column in zip(*rows, strict=True)]
    return tuple(Share(part, ns) for part, ns in zip(PARTS, sums, strict=True) if ns > 0)


def _troubles(recording: Recording, nodes: dict[int, Node]) -> tuple[Trouble, ...]:
    flags: tuple[tuple[ProblemKind, int], ...] = (
        ("error", FAILED), ("nan", HAS_NAN), ("inf", HAS_INF),
    )  # fmt: skip
    found: list[Trouble] = []
    for kind, flag in flags:
        first = recording.first_flagged(flag)
        if first is None:
            continue
        row, many = first
        node = nodes.get(row.node)
        text = (recording.failure(row.seq) or "") if kind == "error" else ""
        found.append(
            Trouble(
                kind, row.node, node.name if node else "", row.step, row.seq, many, text,
                node.source if node else None,
            )
        )  # fmt: skip
    return tuple(found)


def _raised_at(recording: Recording) -> SourceLocation | None:
    """The last frame of the last traceback that the program wrote."""
    for row in reversed(recording.logs(limit=_MOST_LINES)):
        found = _FRAME.match(row.text) if row.stream == "stderr" else None
        if found:
            return SourceLocation(found[1], int(found[2]), "")
    return None


def last_words(recording: Recording) -> str:
    """One line for a terminal: how a run ended, its steps, its loss, the first NaN or Inf.

    Raises:
        RecordingError: It is damaged.
    """
    info = recording.run()
    nodes = {row.node.id: row.node for row in recording.nodes()}
    outcome = outcome_of(info.status, info.error)
    ends = {
        "running": "is running",
        "finished": "finished",
        "failed": f"failed: {info.error}" if info.error else f"ended with status {info.status}",
        "interrupted": "was interrupted",
        "killed": "was killed before it could say how it ended",
        "unreadable": "cannot be read",
    }
    parts = [f"{info.name} {ends[outcome]}"]
    steps = recording.count_steps()
    if steps:
        parts.append(f"{steps:,} step{'s'[: steps != 1]}")
    for curve in _curves(recording, nodes)[:1]:
        if curve.points and curve.points[-1].value is None:
            parts.append(f"{curve.name} is not finite")
        elif curve.first is not None and curve.last is not None and curve.total > 1:
            last = curve.points[-1].step
            seen = f" in step {last}" if last != steps else ""  # the last that was observed
            parts.append(f"{curve.name} {curve.first:.4g} → {curve.last:.4g}{seen}")
    for each in _troubles(recording, nodes):
        if each.kind != "error":
            word = {"nan": "NaN", "inf": "Inf"}[each.kind]
            parts.append(f"first {word} in {each.name} (step {each.step})")
            break
    return ", ".join(parts)
