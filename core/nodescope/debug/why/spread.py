"""Spread: where NaN and Inf originate in a training step, how far they spread, where they heal.

Based on the recorded statistics, which count NaN and Inf exactly; arrays are read only where NaN or
Inf originated, or may have originated beside non-finite inputs.

Invariant: reads only, and bounded: `MOST_NODES` executions, `MOST_LOOKS` of those with non-finite
inputs element by element.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from nodescope.debug.replay.execution_index import ExecutionIndex, ValueSource
from nodescope.debug.replay.replay import Replay
from nodescope.debug.why.answer import Cause
from nodescope.debug.why.body_frames import Point
from nodescope.debug.why.chain import Follower
from nodescope.debug.why.first_nonfinite import nonfinite_origin
from nodescope.debug.why.flow import NONFINITE, Flow, flow_of
from nodescope.debug.why.nonfinite_origins import state_of
from nodescope.debug.why.value_tracing import ValueTracer
from nodescope.errors import ReplayError
from nodescope.ir.graph import Node, SourceLocation
from nodescope.ops.traits import traits_of
from nodescope.record.recording import Recording
from nodescope.record.rows import HAS_SUMMARY, Execution

MOST_NODES = 100_000
MOST_LOOKS = 64
_MOST_ELEMENTS = 32

Fate = Literal["loss", "weights", "used", "unused", "healed"]
_FATES: dict[Fate, int] = {"loss": 0, "weights": 1, "used": 2, "unused": 3, "healed": 4}


@dataclass(frozen=True)
class Born:
    """A node that computed NaN or Inf from finite operands.

    Attributes:
        node, seq: The node's name, and the seq of the execution.
        at: The index of the first such element; None if no array is available.
        words: A description with the numbers.
        kind: A short name; ``data`` for input data, ``number`` for a literal of the program,
            ``unknown`` without arrays.
        ranges: Descriptions of the node's inputs.
        reached: The number of later executions with NaN or Inf that originates here.
        source: The user's line.
        fate: What it reached in its step: the ``loss``; else ``weights``; ``healed`` if all readers
            of its results return neither NaN nor Inf; ``used`` or ``unused`` otherwise.
        ends: Names of the weights, or of the nodes that healed it.
        made_of: Value id and seq of a NaN or Inf from which the finite operands were computed, or
            None. For example, a zero count of elements that equal themselves comes from NaN.
    """

    node: str
    seq: int
    at: tuple[int, ...] | None
    words: str
    kind: str
    ranges: tuple[str, ...]
    reached: int
    source: SourceLocation | None
    fate: Fate = "unused"
    ends: tuple[str, ...] = ()
    made_of: tuple[int, int] | None = None


@dataclass(frozen=True)
class Passed:
    """A node that got NaN or Inf from its inputs, or from earlier values behind them.

    Attributes:
        node, seq: The node's name, and the seq of the execution.
        sources: The names of the values with NaN or Inf.
    """

    node: str
    seq: int
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Healed:
    """A node that read NaN or Inf, and returned none.

    Attributes:
        node, seq: The node's name, and the seq of the execution.
        op: The node's op.
        words: How it removed them.
        sources: The names of the inputs with NaN or Inf.
    """

    node: str
    seq: int
    op: str
    words: str
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Spread:
    """NaN and Inf of one step.

    Attributes:
        step: The training step.
        executions: The number of operations examined.
        touched: The number of operations that produced NaN or Inf.
        known: The number of executions with statistics, including those of leaves.
        births: The origin of NaN or Inf in the run comes first, then births in the order of what
            they reached: the loss, weights, other nodes; healed ones and numbers of the program
            come last. A NaN computed from an Inf is a birth as well.
        passed, healed: In the order of the run.
    """

    step: int
    executions: int
    touched: int
    known: int
    births: tuple[Born, ...]
    passed: tuple[Passed, ...]
    healed: tuple[Healed, ...]


def spread(
    recording: Recording, step: int | None = None, *, replay: Replay | None = None
) -> Spread:
    """The origins, spread and ends of NaN and Inf in a step.

    Args:
        recording: A recording of level ``summary`` or ``values``; births are examined by elements
            if arrays are available.
        step: The training step; the last one if None.
        replay: An existing replay of the same recording and step; if None, a new one is created.

    Raises:
        ReplayError: The step is not in the recording.
    """
    replay = replay or Replay(recording, step)
    points = ValueTracer(replay)
    follower = Follower(points, None, 1)
    book = replay.book
    executions = replay.executions()[:MOST_NODES]
    flow = flow_of(book, executions)
    births: list[tuple[int, Born]] = []
    passed: list[Passed] = []
    operations = touched = with_statistics = looks = 0
    for execution in executions:
        with_statistics += bool(execution.flags & HAS_SUMMARY)
        node = book.node(execution.node, execution.seq)
        operations += not node.is_leaf
        if not execution.flags & NONFINITE:
            continue
        sources = flow.fed.get(execution.seq, [])
        births += [
            (source.edited, _by_hand(book, source))
            for source in sources
            if source.edited and all(source.edited != seq for seq, _ in births)
        ]
        touched += not node.is_leaf
        born: Born | None = None
        if not sources or looks < MOST_LOOKS:
            looks += bool(sources)
            born = _born(points, follower, node, execution, bool(sources))
        source = _made_of(flow, born) if born is not None and not sources else None
        if source is not None:
            sources, born = [source], None
            flow.fed[execution.seq] = sources
            flow.spread.add(source.seq)
        if born is not None:
            births.append((execution.seq, born))
        if sources:
            passed.append(Passed(node.name, execution.seq, _names(book, sources)))
    flow = flow.with_births([seq for seq, _ in births])
    losses = {row.node for row in recording.losses() if row.step == replay.step}
    births_with_fate = [(seq, _with_fate(book, flow, losses, seq, birth)) for seq, birth in births]
    origin = nonfinite_origin(recording)
    first = origin.seq if origin is not None else 0
    births_with_fate.sort(
        key=lambda entry: (entry[0] != first, entry[1].kind == "number", _FATES[entry[1].fate])
    )
    healed = [
        Healed(node.name, execution.seq, node.op, _how(node.op), _names(book, sources))
        for execution in flow.healing
        for node in (book.node(execution.node, execution.seq),)
        for sources in (flow.fed[execution.seq],)
    ]
    return Spread(
        replay.step,
        operations,
        touched,
        with_statistics,
        tuple(birth for _, birth in births_with_fate),
        tuple(passed),
        tuple(healed),
    )


def _names(book: ExecutionIndex, sources: list[ValueSource]) -> tuple[str, ...]:
    return tuple(book.values.get(source.value, "") for source in sources)


def _with_fate(book: ExecutionIndex, flow: Flow, losses: set[int], seq: int, birth: Born) -> Born:
    """A birth with its number of reached executions, its fate and its ends."""
    reached = flow.reached(seq)
    nodes = []
    for row in (seq, *reached):
        ran = flow.executions.get(row)
        if ran is not None:
            nodes.append(book.node(ran.node, ran.seq))
    weights = [node for node in nodes if node.writes]
    fate: Fate = "used" if reached else "unused"
    ends: tuple[str, ...] = ()
    if any(node.id in losses for node in nodes):
        fate = "loss"
    elif weights:
        fate = "weights"
        targets = [node.inputs[port] for node in weights for _, port in node.writes]
        ends = tuple(dict.fromkeys(book.values.get(value, "") for value in targets))
    elif flow.is_healed(seq):
        fate = "healed"
        healers = [
            flow.executions[by] for end in flow.ends(seq) for by in flow.healers.get(end, ())
        ]
        names = [book.node(row.node, row.seq).name for row in healers]
        ends = tuple(dict.fromkeys(names))
    return replace(birth, reached=len(reached), fate=fate, ends=ends)


def _by_hand(book: ExecutionIndex, source: ValueSource) -> Born:
    """An edit by the user that set NaN or Inf, or kept it."""
    node = book.node(source.execution.node, source.execution.seq)
    words = f"changed by hand: {book.edits[source.edited].how}"
    return Born(node.name, source.edited, None, words, "data", (), 0, node.source)


def _born(
    points: ValueTracer, follower: Follower, node: Node, execution: Execution, fed: bool
) -> Born | None:
    """The birth of NaN or Inf in an execution; None if all of them came from its inputs."""
    if node.is_leaf:
        return None if fed else Born(
            node.name, execution.seq, None, f"{node.op} data that already contains NaN or Inf",
            "data", (), 0, node.source,
        )  # fmt: skip
    for value in node.outputs:
        point = Point(value, execution)
        try:
            array = points.array(point)
        except ReplayError as error:
            return None if fed else Born(
                node.name, execution.seq, None,
                f"from finite inputs; its elements are not known: {error}", "unknown", (), 0,
                node.source,
            )  # fmt: skip
        if array.dtype.kind not in "fcV":
            continue
        with np.errstate(all="ignore"):
            places = np.flatnonzero(~np.isfinite(array))
        for position in _spaced(places):
            cause, behind = follower.look(point, position)
            if behind and cause.how.startswith("in "):
                cause = _inside(follower, point, position)
            if cause.birth is not None and state_of(cause.number) in ("nan", "inf"):
                born = cause.birth
                chain = follower.follow(point, position).chain() if not fed and behind else []
                # Nodes in the body of a kernel or loop belong to this execution.
                others = (link for link in chain[1:] if link.seq != execution.seq)
                made_of = next(
                    ((link.value, link.seq) for link in others if link.is_nonfinite), None
                )
                return Born(
                    cause.name, execution.seq, cause.at, born.words, born.kind, cause.ranges, 0,
                    cause.source, made_of=made_of,
                )  # fmt: skip
            if cause.kind == "passed" and not behind and not fed:
                return Born(
                    cause.name, execution.seq, cause.at, cause.words, "number", (), 0, cause.source
                )
    return None if fed else Born(
        node.name, execution.seq, None, f"{node.op} produces NaN or Inf from finite inputs",
        "unknown", (), 0, node.source,
    )  # fmt: skip


def _made_of(flow: Flow, born: Born) -> ValueSource | None:
    """The source of the NaN or Inf that a birth was computed from, if it is in this step."""
    value, seq = born.made_of or (0, 0)
    execution = flow.executions.get(seq)
    return None if execution is None else ValueSource(value, execution)


def _inside(follower: Follower, point: Point, position: int) -> Cause:
    """The birth inside a kernel or loop that an output element comes from, else its first cause."""
    first = follower.follow(point, position)
    born = first
    for link in first.chain():
        if link.seq != first.seq or not link.how.startswith("in "):
            break
        if link.birth is not None and state_of(link.number) in ("nan", "inf"):
            born = link
            if link.birth.trait != "infinite":
                break
    return born


def _spaced(places: np.ndarray[Any, Any]) -> list[int]:
    if places.size <= _MOST_ELEMENTS:
        return [int(place) for place in places]
    return [int(places[i * (places.size - 1) // (_MOST_ELEMENTS - 1)])
            for i in range(_MOST_ELEMENTS)]  # fmt: skip


def _how(op: str) -> str:
    effects = traits_of(op).effects
    if "selects" in effects:
        return f"{op} does not select those elements"
    if "repairs" in effects:
        return f"{op} replaces them with numbers"
    if "tests" in effects:
        return f"{op} never outputs NaN or Inf"
    if "prefers" in effects:
        return f"{op} selects the other operand"
    return f"{op} turns them into finite numbers"
