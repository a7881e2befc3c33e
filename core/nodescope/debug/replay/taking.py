"""Taking: which execution each operand of an execution was of.

That is not recorded. The latest one of its producer is meant, unless the program kept a tensor from
before and its producer has run again: gradients that are added up over several steps are such.

Invariant: another execution than the latest is taken only where the latest ones do not give what
was recorded, and others give it bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice, product
from typing import TYPE_CHECKING

from nodescope.debug.replay.arrays import alike
from nodescope.debug.replay.book import Source
from nodescope.errors import ReplayError
from nodescope.events import Array
from nodescope.record.rows import Execution

if TYPE_CHECKING:
    from nodescope.debug.replay.replay import Replay

MOST_ELEMENTS = 1 << 20
"""Elements of operands and outputs up to which a node is run again to see what it took."""
MOST_BEFORE = 3
"""Executions before the latest one that an operand may be of."""
MOST_TRIED = 32
"""Choices of operands that are tried."""

Run = Callable[[Execution, Sequence[Array]], tuple[Array, ...]]


def taken(replay: Replay, execution: Execution, run: Run) -> list[Source]:
    """Where the inputs came from; if none of those gives what it gave, it is noted as doubted.

    Raises:
        ReplayError: An input was never written, as far as the recording knows.
    """
    latest = replay.book.sources(execution)
    node = replay.book.node(execution.node, execution.seq)
    if not node.inputs or not latest:
        return latest
    able = [_able(replay, each) for each in latest]
    sure = not any(replay.book.lost(each, execution.seq) for each in latest)
    if sure and all(len(each) == 1 for each in able):
        return latest
    outputs = [replay.recorded(Source(value, execution)) for value in node.outputs]
    known = {(each.value, each.seq): replay.recorded(each) for each in latest}
    size = 0
    for array in (*known.values(), *outputs):
        if array is None:
            return latest
        size += array.size
    if size > MOST_ELEMENTS:
        return latest
    near = True  # also where it cannot be run
    order = sorted(product(*(range(len(each)) for each in able)), key=sum)
    for choice in islice(order, MOST_TRIED):
        sources = [each[i] for each, i in zip(able, choice, strict=True)]
        arrays = []
        for source in sources:
            key = (source.value, source.seq)
            if key not in known:
                known[key] = replay.recorded(source)
            arrays.append(known[key])
        given = [array for array in arrays if array is not None]
        if len(given) < len(arrays):
            continue
        try:
            made = run(execution, given)
        except ReplayError:
            continue  # of another shape, say
        if len(made) == len(outputs) and all(map(same, made, outputs)):
            return sources
        if sources == latest:
            kept = [array for array in outputs if array is not None]
            near = len(made) == len(kept) and all(map(alike, made, kept))
    if not near:
        replay.doubted.add(execution.seq)
    return latest


def _able(replay: Replay, latest: Source) -> list[Source]:
    found = [latest]
    node = replay.book.node(latest.execution.node, latest.execution.seq)
    if node.family == "leaf" and node.op == "constant":
        return found
    while len(found) <= MOST_BEFORE:
        before = replay.book.source(latest.value, found[-1].seq)
        if before is None:
            break
        found.append(before)
    return found


def same(made: Array, recorded: Array | None) -> bool:
    """Whether they are the same bits."""
    return (
        recorded is not None
        and made.shape == recorded.shape
        and made.dtype == recorded.dtype
        and made.tobytes() == recorded.tobytes()
    )
