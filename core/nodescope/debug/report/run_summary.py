"""Run summary: how a run ended, its losses, its slowest parts, and its problems.

Invariant: read from the recording alone, with bounds on every list; unrecorded data is None or
empty, never guessed.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Final, Literal

import msgspec
import numpy as np

from nodescope.debug.watch.evaluator import WatchEvaluator
from nodescope.debug.why.first_nonfinite import NonfiniteOrigin, nonfinite_origin
from nodescope.debug.why.written_inf import written_inf
from nodescope.ir.capabilities import others
from nodescope.ir.graph import Node, SourceLocation
from nodescope.protocol import BrokenLoss
from nodescope.record.overview import Outcome, broken_loss, outcome_of
from nodescope.record.recording import Recording
from nodescope.record.rows import (
    FAILED,
    HAS_INF,
    HAS_NAN,
    Advice,
    Dropped,
    Execution,
    Governed,
    Holds,
    LossRow,
    NodeCost,
)
from nodescope.record.run_time import RunTime, run_time
from nodescope.record.step_times.step_rows import PARTS, Part
from nodescope.record.step_times.step_times import StepTimes

MOST_CURVES: Final = 4
MOST_POINTS: Final = 400
_MOST_SLOW: Final = 6
_MOST_LINES: Final = 400
_MOST_RANGES: Final = 4
_FRAME: Final = re.compile(r'^\s*File "(.+)", line (\d+)')

ProblemKind = Literal["error", "nan", "inf"]

_FLAGS: Final[tuple[tuple[ProblemKind, int], ...]] = (
    ("error", FAILED), ("nan", HAS_NAN), ("inf", HAS_INF),
)  # fmt: skip


class CurvePoint(msgspec.Struct, frozen=True):
    """A loss at a moment; ``value`` is None if it is not finite."""

    step: int
    seq: int
    value: float | None


class Curve(msgspec.Struct, frozen=True):
    """A loss over the run, thinned to at most 400 points including the last one.

    A loss that a backward pass begins with is known for every training step, another loss only for
    observed ones.

    Attributes:
        node, name: The node whose first output it is; 0 and ``loss`` if none of the nodes was
            observed.
        total: Number of known values.
        broken: Number of these that were NaN or Inf.
        first, last, least: Finite values; None if there are none.
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
        node: The node's id; 0 for a scope.
        name: The node's name, or the scope's path.
        times: Number of executions; for a scope, of its operations.
        total_ns: Sum of its durations.
        odd_ns, odd_step: Duration and step of an execution that took more than all the others
            together, if there is one among at least three; otherwise 0. A thread that the system
            set aside for a while looks like this.
    """

    node: int
    name: str
    times: int
    total_ns: int
    odd_ns: int = 0
    odd_step: int = 0


class Share(msgspec.Struct, frozen=True):
    """A part of the time of all training steps; see `nodescope.record.step_times`."""

    part: Part
    ns: float


class RunTrouble(msgspec.Struct, frozen=True):
    """The first problem of its kind.

    Attributes:
        node, name, step, seq: Its place and time; ``node`` and ``seq`` are 0 if only the loss of an
            unobserved step is known.
        nodes: Number of nodes that had the problem at some time.
        text: The exception, a note that the user set the value, or why no node is known; or ``""``.
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


class KeptValues(msgspec.Struct, frozen=True):
    """Which values can be viewed later, and which cannot.

    Attributes:
        arrays, arrays_bytes: Number and bytes of values kept with every element.
        ranges: Training steps with kept values, as ranges of first and last; unobserved steps do
            not interrupt a range. A single range from the first to the last if there are more than
            four.
        dropped: Counts of what was lost.
        governed: What the governor left out, without its nodes; None for a run without a limit.
        steps_left_out: Training steps that were not observed.
    """

    arrays: int
    arrays_bytes: int
    ranges: tuple[tuple[int, int], ...]
    dropped: Dropped
    governed: Governed | None
    steps_left_out: int


class Summary(msgspec.Struct, frozen=True):
    """A short description of a run.

    Attributes:
        outcome, status, error: How it ended.
        source: The user's line that raised, if known.
        steps: Number of training steps that began.
        time: Its run time.
        before_ns, after_ns: The part of the run time before the first training step, and after the
            last one; None for a run without steps.
        operations: Number of recorded executions of operations.
        operations_ns: Sum of the durations of operations, over all threads.
        nodes: Number of distinct operations.
        curves: Losses, those where a backward pass began first.
        slow_nodes, slow_scopes: By total time, slowest first; scopes of the first level.
        shares: Where the time of the observed training steps went, including held time; empty
            without any.
        troubles: First error, NaN and Inf; of the last two, the origin comes first.
        broken_loss: The loss at the end, if it is not finite.
        advice: What to do if nothing was observed.
    """

    outcome: Outcome
    status: int | None
    error: str
    source: SourceLocation | None
    steps: int
    time: RunTime
    before_ns: int | None
    after_ns: int | None
    operations: int
    operations_ns: int
    nodes: int
    curves: tuple[Curve, ...]
    slow_nodes: tuple[Cost, ...]
    slow_scopes: tuple[Cost, ...]
    shares: tuple[Share, ...]
    troubles: tuple[RunTrouble, ...]
    kept: KeptValues
    advice: Advice | None
    broken_loss: BrokenLoss | None = None


def summarise_run(
    recording: Recording, *, running: bool = False, times: StepTimes | None = None
) -> Summary:
    """Summarise a recording.

    Args:
        recording: The recording.
        running: Whether its program is still running.
        times: The times of its steps as far as known, which are brought up to date.

    Raises:
        RecordingError: The recording is damaged.
    """
    info = recording.run()
    nodes = {row.node.id: row.node for row in recording.nodes()}
    # Nodes that only hold data are not operations, though reading them in takes time.
    costs = [
        cost for cost in recording.costs() if cost.node in nodes and not nodes[cost.node].is_leaf
    ]
    troubles = _troubles(recording, nodes, nonfinite_origin(recording))
    outcome = outcome_of(info.status, info.error, running=running)
    source = None
    if outcome == "failed":
        failed = next((trouble for trouble in troubles if trouble.kind == "error"), None)
        same_error = failed is not None and failed.text.split(":")[0] == info.error.split(":")[0]
        source = failed.source if failed is not None and same_error else _raised_at(recording)
    arrays, nbytes = recording.kept_arrays()
    took = run_time(recording)
    times = StepTimes() if times is None else times
    times.update(recording)
    before, after = times.around(Holds(recording.holds()))
    return Summary(
        outcome=outcome,
        status=info.status,
        error=info.error,
        source=source,
        steps=len(times),
        time=took,
        before_ns=before,
        after_ns=after,
        operations=sum(cost.times for cost in costs),
        operations_ns=sum(cost.total_ns for cost in costs),
        nodes=sum(not node.is_leaf for node in nodes.values()),
        curves=_curves(recording, nodes),
        slow_nodes=tuple(_slow(cost, nodes[cost.node]) for cost in costs[:_MOST_SLOW]),
        slow_scopes=_scopes(costs, nodes),
        shares=_shares(times),
        troubles=troubles,
        kept=KeptValues(
            arrays, nbytes, _ranges(recording, times), recording.dropped(),
            _short(recording.governed()), times.left_out(),
        ),
        advice=recording.advice(),
        broken_loss=broken_loss(recording),
    )  # fmt: skip


def _ranges(recording: Recording, times: StepTimes) -> tuple[tuple[int, int], ...]:
    kept = np.array(sorted(recording.steps_with_arrays()), dtype=np.int64)
    if not len(kept):
        return ()
    began, is_observed = times.steps(int(kept[0]), int(kept[-1]))
    observed = began[is_observed]
    ranges: list[tuple[int, int]] = []
    for step in kept[np.isin(kept, began)].tolist():
        # Unobserved steps in between do not interrupt a range.
        place = int(np.searchsorted(observed, step))
        if ranges and place and ranges[-1][1] == observed[place - 1]:
            ranges[-1] = (ranges[-1][0], step)
        else:
            ranges.append((step, step))
    if len(ranges) > _MOST_RANGES:
        return ((ranges[0][0], ranges[-1][1]),)
    return tuple(ranges)


def _short(governed: Governed | None) -> Governed | None:
    return msgspec.structs.replace(governed, nodes=()) if governed is not None else None


def _curves(recording: Recording, nodes: dict[int, Node]) -> tuple[Curve, ...]:
    """Losses: those of backward passes, in every step; then others, where observed."""
    began: dict[int, list[LossRow]] = defaultdict(list)
    for row in recording.losses():
        began[row.curve].append(row)
    curves = [
        _curve_of(recording, rows, nodes)
        for _, rows in sorted(began.items(), key=lambda item: -len(item[1]))
    ]
    loss_nodes = {row.node for rows in began.values() for row in rows}
    # A mean of one number per element is the same curve.
    givers = [nodes[number] for number in loss_nodes if number in nodes]
    reduced = {value for node in givers if node.family == "reduction" for value in node.inputs}
    judging = WatchEvaluator(())
    judging.define(nodes.values())
    for pair in recording.gradients():
        judging.paired(pair.value, pair.gradient)
    for node in judging.losses():
        if len(curves) >= MOST_CURVES:
            break
        # If losses were recorded, there are no other backward passes.
        if node.id in loss_nodes or (loss_nodes and node.family != "loss"):
            continue
        if node.outputs[0] in reduced:
            continue
        means = [
            (seq, step, math.nan if mean is None or broken else mean)
            for seq, step, mean, broken in recording.means(node.outputs[0])
        ]
        if means:
            curves.append(_curve(node.id, node.name, means))
    return tuple(curves[:MOST_CURVES])


def _curve_of(recording: Recording, rows: list[LossRow], nodes: dict[int, Node]) -> Curve:
    """A curve over all steps, named after the node that computed the loss most often: another
    branch of the program may compute it by another node.
    """
    givers = Counter(row.node for row in rows if row.node in nodes)
    node = givers.most_common(1)[0][0] if givers else 0
    # The moment of an observed step is when the loss was computed; for others, their end is known.
    observed = {
        step: seq
        for giver in givers
        for seq, step, _, _ in recording.means(nodes[giver].outputs[0])
    }
    name = nodes[node].name if node else "loss"
    return _curve(
        node, name, [(observed.get(row.step, row.seq), row.step, row.value) for row in rows]
    )


def _curve(node: int, name: str, rows: list[tuple[int, int, float]]) -> Curve:
    finite = [value for _, _, value in rows if math.isfinite(value)]
    points = tuple(
        CurvePoint(step, seq, value if math.isfinite(value) else None)
        for seq, step, value in _thinned(rows)
    )
    return Curve(
        node, name, points, len(rows), len(rows) - len(finite),
        *((finite[0], finite[-1], min(finite)) if finite else (None, None, None)),
    )  # fmt: skip


def _thinned(rows: list[tuple[int, int, float]]) -> list[tuple[int, int, float]]:
    last = len(rows) - 1
    if last < MOST_POINTS:
        return rows
    return [rows[place * last // (MOST_POINTS - 1)] for place in range(MOST_POINTS)]


def _slow(cost: NodeCost, node: Node) -> Cost:
    is_odd = cost.times > 2 and 2 * cost.longest_ns > cost.total_ns
    odd = (cost.longest_ns, cost.longest_step) if is_odd else (0, 0)
    return Cost(node.id, node.name, cost.times, cost.total_ns, *odd)


def _scopes(costs: list[NodeCost], nodes: dict[int, Node]) -> tuple[Cost, ...]:
    total: dict[str, int] = defaultdict(int)
    times: dict[str, int] = defaultdict(int)
    for cost in costs:
        node = nodes.get(cost.node)
        if node is None or not node.scope:
            continue
        parts = node.scope.split("/")
        # The time of a pass over the whole model says little: that of its scopes does.
        deep = 2 if parts[0] in ("backward", "recompute") else 1
        path = "/".join(parts[:deep])
        total[path] += cost.total_ns
        times[path] += cost.times
    ordered = sorted(total, key=lambda path: -total[path])[:_MOST_SLOW]
    return tuple(Cost(0, path, times[path], total[path]) for path in ordered)


def _shares(times: StepTimes) -> tuple[Share, ...]:
    # For an unobserved step, it is unknown where its time went.
    sums = times.observed_parts().tolist()
    return tuple(Share(part, ns) for part, ns in zip(PARTS, sums, strict=True) if ns > 0)


def _troubles(
    recording: Recording, nodes: dict[int, Node], origin: NonfiniteOrigin | None
) -> tuple[RunTrouble, ...]:
    """The first error, then the first NaN and the first Inf; of these, the origin comes first."""
    troubles: list[RunTrouble] = []
    for kind, flag in _FLAGS:
        first = _first_inf(recording) if kind == "inf" else recording.first_flagged(flag)
        if first is None:
            continue
        row, affected = first
        text = (recording.failure(row.seq) or "") if kind == "error" else ""
        troubles.append(_trouble(kind, row.node, row.step, row.seq, affected, text, nodes))
    if origin is None:
        return tuple(troubles)
    errors = [trouble for trouble in troubles if trouble.kind == "error"]
    other_troubles = [trouble for trouble in troubles if trouble.kind != "error"]
    affected = next((trouble.nodes for trouble in other_troubles if trouble.kind == origin.kind), 1)
    other_troubles = [trouble for trouble in other_troubles if trouble.kind != origin.kind]
    began: list[RunTrouble] = []
    if origin.unseen_step:
        text = "this step was not observed"
        began.append(RunTrouble(origin.kind, 0, "loss", origin.unseen_step, 0, 0, text, None))
    if origin.node:
        text = "set by hand" if origin.edited else ""
        place = (origin.node, origin.step, origin.seq)
        began.append(_trouble(origin.kind, *place, affected, text, nodes))
    return (*errors, *began, *other_troubles)


def _first_inf(recording: Recording) -> tuple[Execution, int] | None:
    """The first Inf that the program did not write down itself, and the number of its nodes."""
    first = recording.first_flagged(HAS_INF)
    written = written_inf(recording) if first is not None else ()
    if first is None or not written:
        return first
    row, affected = first
    if row.node in written:
        rows = recording.flagged(HAS_INF) if affected > len(written) else ()
        other = next((row for row in rows if row.node not in written), None)
        if other is None:
            return None
        row = other
    return row, affected - len(written)


def _trouble(
    kind: ProblemKind, number: int, step: int, seq: int, affected: int, text: str,
    nodes: dict[int, Node],
) -> RunTrouble:  # fmt: skip
    node = nodes.get(number)
    name, source = (node.name, node.source) if node is not None else ("", None)
    return RunTrouble(kind, number, name, step, seq, affected, text, source)


def _raised_at(recording: Recording) -> SourceLocation | None:
    """The last frame of the last traceback that the program printed."""
    for row in reversed(recording.logs(limit=_MOST_LINES)):
        match = _FRAME.match(row.text) if row.stream == "stderr" else None
        if match:
            return SourceLocation(match[1], int(match[2]), "")
    return None


def last_words(recording: Recording) -> str:
    """One line for a terminal: how a run ended, its steps, its loss, the first NaN or Inf.

    Raises:
        RecordingError: The recording is damaged.
    """
    info = recording.run()
    nodes = {row.node.id: row.node for row in recording.nodes()}
    outcome = outcome_of(info.status, info.error)
    ends = {
        "running": "is running",
        "finished": "finished",
        "failed": "failed" if info.error else f"ended with status {info.status}",
        "interrupted": "was interrupted",
        "killed": "was killed before it could say how it ended",
        "unreadable": "cannot be read",
    }
    parts = [f"{info.name} {ends[outcome]}"]
    steps = recording.count_steps()
    if steps:
        parts.append(f"{steps:,} step{'s'[: steps != 1]}")
    libraries = others(info.frameworks)
    if libraries:
        parts.append(f"{libraries} observed")
    broken = broken_loss(recording)
    for curve in _curves(recording, nodes)[:1]:
        if curve.points and curve.points[-1].value is None:
            parts.append(f"{curve.name} is {broken or 'not finite'}")
        elif curve.first is not None and curve.last is not None and curve.total > 1:
            last = curve.points[-1].step
            suffix = f" in step {last:,}" if last != steps else ""  # the last observed one
            parts.append(f"{curve.name} {curve.first:.4g} → {curve.last:.4g}{suffix}")
    origin = nonfinite_origin(recording)
    if origin is not None:
        parts.append(first_words(origin, nodes))
    error = f": {info.error}" if outcome == "failed" and info.error else ""
    return ", ".join(parts) + error


def first_words(origin: NonfiniteOrigin, nodes: Mapping[int, Node]) -> str:
    """``first NaN in loss/log (step 21)``; if unknown, why."""
    word = "NaN" if origin.kind == "nan" else "Inf"
    node = nodes.get(origin.node)
    if node is None:
        return f"first {word} in step {origin.step:,}, which was not observed"
    if origin.unseen_step:
        return (
            f"first {word} in step {origin.unseen_step:,}, which was not observed; then in "
            f"{node.name} (step {origin.step:,})"
        )
    if origin.healed:
        return f"{word} in {node.name} (step {origin.step:,}), which was healed"
    how = "set by hand in" if origin.edited else "in"
    return f"first {word} {how} {node.name} (step {origin.step:,})"
