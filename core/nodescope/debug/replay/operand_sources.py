"""Operand sources: from which execution each operand of an execution came.

Recordings of nodescope's own engine say so (`ExecutionIndex.exact`). Of other libraries, of files
of earlier releases, and where executions were not recorded, it is the latest execution of the
producer, unless the program kept an older tensor and the producer has run again: gradients
accumulated over several steps, for example. This is found out by running the node again.

Invariant: an execution other than the latest is chosen only if the latest ones do not reproduce the
recorded result, and others do so bit for bit.
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
"""Elements of operands and outputs up to which a node is run again to find its operands."""
MOST_BEFORE = 3
"""Executions before the latest one that an operand may be of."""
MOST_TRIED = 32
"""Choices of operands that are tried."""

Run = Callable[[Execution, Sequence[Array]], tuple[Array, ...]]


def operand_sources(replay: ReplayView, execution: Execution, run: Run) -> list[ValueSource]:
    """The sources of an execution's inputs; noted as doubtful if none reproduces its outputs.

    Raises:
        ReplayError: An input was never written, as far as the recording knows.
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
    near = True  # also where it cannot be run
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
            continue  # of another shape, say
        if len(computed) == len(outputs) and all(map(same, computed, outputs)):
            return sources
        if sources == latest:
            recorded = [array for array in outputs if array is not None]
            near = len(computed) == len(recorded) and all(map(alike, computed, recorded))
    if not near:
        replay.doubted.add(execution.seq)
    return latest


def choices_of(counts: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All choices of one number below each count, those with the smallest sums first.

    They are made one by one: an optimizer's node may have hundreds of operands.
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
    """Whether they are the same bits."""
    return (
        recorded is not None
        and computed.shape == recorded.shape
        and computed.dtype == recorded.dtype
        and computed.tobytes() == recorded.tobytes()
    )
