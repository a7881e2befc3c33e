"""Operand sources: finds the execution that produced each operand of an execution.

Recordings of nodescope's own engine state it (`ExecutionIndex.exact`). For other libraries, files
of earlier releases and gaps in the recording, the source is the producer's latest execution, unless
the program kept an older tensor after the producer ran again, for example a gradient accumulated
over several steps. Rerunning the node on candidate operands decides between them.

Invariant: an execution other than the latest is chosen only if the latest ones do not reproduce the
recorded result, and the chosen ones reproduce it bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations_with_replacement, islice

from nodescope.debug.replay.arrays import alike
from nodescope.debug.replay.execution_index import ValueSource
from nodescope.debug.replay.replay_view import ReplayView
from nodescope.errors import ReplayError
from nodescope.events import Array
from nodescope.record.rows import Execution

MOST_ELEMENTS = 1 << 20
"""The total number of operand and output elements up to which a node is rerun for its sources."""
MOST_BEFORE = 3
"""The number of executions before the latest one that are candidates for an operand."""
MOST_TRIED = 32
"""The number of operand combinations that are tried."""

Run = Callable[[Execution, Sequence[Array]], tuple[Array, ...]]


def operand_sources(replay: ReplayView, execution: Execution, run: Run) -> list[ValueSource]:
    """The sources of an execution's inputs.

    The execution is added to ``replay.doubted`` if no combination reproduces its outputs exactly
    and the latest one does not even come close.

    Raises:
        ReplayError: The recording has no execution that wrote an input.
    """
    latest = replay.book.sources(execution)
    node = replay.book.node(execution.node, execution.seq)
    if not node.inputs or not latest:
        return latest
    if all(map(replay.book.exact, node.inputs)):
        return latest
    candidates = [_able(replay, origin) for origin in latest]
    sure = not any(replay.book.lost(origin, execution.seq) for origin in latest)
    if sure and all(len(choices) == 1 for choices in candidates):
        return latest
    outputs = [replay.recorded(ValueSource(value, execution)) for value in node.outputs]
    arrays_by_key = {(origin.value, origin.seq): replay.recorded(origin) for origin in latest}
    size = 0
    for array in (*arrays_by_key.values(), *outputs):
        if array is None:
            return latest
        size += array.size
    if size > MOST_ELEMENTS:
        return latest
    near = True  # also if the node cannot be rerun
    for choice in islice(choices_of([len(choices) for choices in candidates]), MOST_TRIED):
        sources = [choices[i] for choices, i in zip(candidates, choice, strict=True)]
        arrays = []
        for source in sources:
            key = (source.value, source.seq)
            if key not in arrays_by_key:
                arrays_by_key[key] = replay.recorded(source)
            arrays.append(arrays_by_key[key])
        operands = [array for array in arrays if array is not None]
        if len(operands) < len(arrays):
            continue
        try:
            computed = run(execution, operands)
        except ReplayError:
            continue  # for example, the candidate has another shape
        if len(computed) == len(outputs) and all(map(same, computed, outputs)):
            return sources
        if sources == latest:
            recorded = [array for array in outputs if array is not None]
            near = len(computed) == len(recorded) and all(map(alike, computed, recorded))
    if not near:
        replay.doubted.add(execution.seq)
    return latest


def choices_of(counts: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All index tuples with each index below its count, in order of their sums.

    They are generated lazily: an optimizer's node may have hundreds of operands.
    """
    open_places = [place for place, count in enumerate(counts) if count > 1][::-1]
    for total in range(1 + sum(counts[place] - 1 for place in open_places)):
        for raised in combinations_with_replacement(open_places, total):
            choice = [0] * len(counts)
            for place in raised:
                choice[place] += 1
            if all(choice[place] < counts[place] for place in raised):
                yield tuple(choice)


def _able(replay: ReplayView, latest: ValueSource) -> list[ValueSource]:
    sources = [latest]
    node = replay.book.node(latest.execution.node, latest.execution.seq)
    if node.role == "constant":
        return sources
    while len(sources) <= MOST_BEFORE:
        before = replay.book.source(latest.value, sources[-1].seq)
        if before is None:
            break
        sources.append(before)
    return sources


def same(computed: Array, recorded: Array | None) -> bool:
    """Whether shape, dtype and bits are equal; False without a recorded array."""
    return (
        recorded is not None
        and computed.shape == recorded.shape
        and computed.dtype == recorded.dtype
        and computed.tobytes() == recorded.tobytes()
    )
