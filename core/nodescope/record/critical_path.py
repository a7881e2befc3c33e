"""Critical path: the chain of executions that the duration of a step depends on.

It is the longest chain by measured time in which each member began after the previous one ended,
and either read what that one wrote or came next in the same lane: on the same thread, or in the
same queue of a device. So no two members overlap, and the chain is never longer than the step; the
rest of the step's duration is time in which no operation of the chain ran. The chain by data alone
ignores lanes: it is how long the step would take if all independent operations ran at once.

Invariant: pure; the time is proportional to the number of executions and of their inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodescope.ir.graph import Node
from nodescope.record.step_runs import StepRuns

Integers = NDArray[np.int64]


class Chain(NamedTuple):
    """A chain of executions.

    Attributes:
        members: Rows of the `StepRuns`, in order of time.
        total_ns: The sum of their durations.
    """

    members: list[int]
    total_ns: int


class CriticalPath(NamedTuple):
    """The longest chains of a step: as it ran, and by data alone."""

    ran: Chain
    data: Chain
    lanes: int
    operations_ns: int


def critical_path(runs: StepRuns) -> CriticalPath:
    """The longest chains of a step."""
    distinct = {id(node): node for node in runs.nodes}
    leaves = {number for number, node in distinct.items() if node.is_leaf}
    took = [
        0 if id(node) in leaves else duration
        for node, duration in zip(runs.nodes, runs.durations(), strict=True)
    ]
    order = runs.moments()[1]
    sources = _sources(runs, order)
    places = runs.places()
    return CriticalPath(
        _longest(runs, took, order, sources, places),
        _longest(runs, took, order[order & 1 == 0], sources, None),
        len(set(places)),
        sum(took),
    )


class _Sources(NamedTuple):
    """The executions whose results each row read: for row k, `rows[first[k]:first[k + 1]]`, by
    port; -1 if no execution of the step had written the input."""

    first: list[int]
    rows: list[int]


def _sources(runs: StepRuns, order: Integers) -> _Sources:
    """Args: order: The moments, see `StepRuns.moments`."""
    count = len(runs.rows)
    place = np.empty(2 * count, np.int64)
    place[order] = np.arange(2 * count)
    start, end = place[::2], place[1::2]
    numbers: dict[int, int] = {}
    distinct: list[Node] = []
    kind = np.empty(count, np.int64)
    for row, node in enumerate(runs.nodes):
        number = numbers.get(id(node))
        if number is None:
            number = numbers[id(node)] = len(distinct)
            distinct.append(node)
        kind[row] = number
    values: dict[int, int] = {}
    first, read = _expanded([node.inputs for node in distinct], kind, values)
    begin, written = _expanded([_written(node) for node in distinct], kind, values)
    reader = np.repeat(np.arange(count), np.diff(first))
    writer = np.repeat(np.arange(count), np.diff(begin))
    # Sorted by value, then by moment: the last write before a moment is directly before it.
    moments = 2 * count + 1
    keys = written * moments + end[writer]
    sorting = np.argsort(keys, kind="stable")
    keys, writer, written = keys[sorting], writer[sorting], written[sorting]
    at = np.searchsorted(keys, read * moments + start[reader]) - 1
    rows = np.full(len(read), -1, np.int64)
    if len(keys):
        known = (at >= 0) & (written[at] == read)
        rows[known] = writer[at[known]]
    for row, port, source in _exact(runs):
        if port < first[row + 1] - first[row]:
            ended = source >= 0 and end[source] < start[row]
            rows[first[row] + port] = source if ended else -1
    return _Sources(first.tolist(), rows.tolist())


def _expanded(
    lists: list[tuple[int, ...]], kind: Integers, numbers: dict[int, int]
) -> tuple[Integers, Integers]:
    """The lists of all rows, concatenated; each row has the list of its kind. Returns where each
    row's items begin, and the items as numbers of values."""
    sizes = np.array([len(items) for items in lists], np.int64)
    flat = np.array(
        [numbers.setdefault(item, len(numbers)) for items in lists for item in items], np.int64
    )
    starts = np.cumsum(sizes) - sizes
    size = sizes[kind] if len(kind) else sizes[:0]
    first = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    within = np.arange(first[-1]) - np.repeat(first[:-1], size)
    return first, flat[np.repeat(starts[kind] if len(kind) else size, size) + within]


def _exact(runs: StepRuns) -> Iterator[tuple[int, int, int]]:
    """Row, port and writing row of each operand that is known not to be from the latest writer."""
    if not runs.operands:
        return
    row_of = {row.seq: at for at, row in enumerate(runs.called().rows)}
    rows_of: dict[int, list[int]] = {}
    for at, row in enumerate(runs.rows):
        rows_of.setdefault(row.seq, []).append(at)
    for (seq, port), wrote in runs.operands.items():
        for at in rows_of.get(seq, ()):
            yield at, port, row_of.get(wrote, -1)


def _longest(
    runs: StepRuns, took: list[int], order: Integers, sources: _Sources, places: list[int] | None
) -> Chain:
    """The longest chain.

    Args:
        took: The time of each row; 0 for nodes that only hold data.
        order: The moments; only starts if lanes do not count.
        places: The lane of each row; None if lanes do not count.
    """
    count = len(runs.rows)
    if not count:
        return Chain([], 0)
    first, read = sources
    length = [0] * count  # of the longest chain that ends with a row
    before = [-1] * count
    longest: dict[int, int] = {}  # by lane: the row at which its longest chain so far ends
    for moment in order.tolist():
        row = moment >> 1
        if moment & 1:
            if places is not None and length[row] >= length[longest.setdefault(places[row], row)]:
                longest[places[row]] = row
            continue
        best = -1 if places is None else longest.get(places[row], -1)
        most = length[best] if best >= 0 else -1
        for source in read[first[row] : first[row + 1]]:
            if source >= 0 and length[source] > most:
                best, most = source, length[source]
        before[row] = best
        length[row] = took[row] + (most if most > 0 else 0)
    ends = np.array(length, np.int64)
    row = int(np.flatnonzero(ends == ends.max())[-1])
    total = length[row]
    members = []
    while row >= 0:
        if not runs.nodes[row].is_leaf:
            members.append(row)
        row = before[row]
    return Chain(members[::-1], total)


def _written(node: Node) -> tuple[int, ...]:
    """The values that a node writes: its outputs, and the inputs that it overwrites."""
    if not node.writes:
        return node.outputs
    into = [node.inputs[port] for _, port in node.writes if port < len(node.inputs)]
    return (*node.outputs, *into)
