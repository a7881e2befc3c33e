"""Critical path: the chain of executions that the duration of a step depends on.

The longest chain by measured time in which each member began after the one before had ended, and
either read what that one wrote, or came next in the same lane: on the same thread, or in the same
queue of a device. So no two members overlap, and the chain is never longer than the step; what is
missing to the step's duration is time in which no operation of the chain ran. By data alone, lanes
are left out: so long would the operations take if all that do not need each other ran at once.

Invariant: pure; takes time in proportion to the executions and what they read.
"""

from __future__ import annotations

from typing import NamedTuple

from nodescope.ir.graph import Node
from nodescope.record.step_runs import StepRuns


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
    took = [
        0 if node.is_leaf else duration
        for node, duration in zip(runs.nodes, runs.durations(), strict=True)
    ]
    return CriticalPath(
        _longest(runs, took, by_lane=True),
        _longest(runs, took, by_lane=False),
        len(set(runs.places())),
        sum(took),
    )


def _longest(runs: StepRuns, took: list[int], *, by_lane: bool) -> Chain:
    """Args: took: The time of each row; what only holds data takes none."""
    rows, nodes = runs.rows, runs.nodes
    _, order = runs.moments()
    places = runs.places()
    length = [0] * len(rows)  # of the longest chain that ends with a row
    before = [-1] * len(rows)
    wrote: dict[int, int] = {}  # by value: the row that wrote it last
    row_of = {row.seq: at for at, row in enumerate(runs.called().rows)} if runs.operands else {}
    ended = set[int]()
    longest: dict[int, int] = {}  # by lane: the row at which its longest chain so far ends
    for moment in order.tolist():
        row = moment >> 1
        node, place = nodes[row], places[row]
        if moment & 1:
            if by_lane and length[row] >= length[longest.setdefault(place, row)]:
                longest[place] = row
            for value in _written(node):
                wrote[value] = row
            if row_of:
                ended.add(row)
            continue
        best = longest.get(place, -1)
        most = length[best] if best >= 0 else -1
        for port, value in enumerate(node.inputs):
            source = wrote.get(value, -1)
            if row_of and (exact := runs.operands.get((rows[row].seq, port))) is not None:
                source = row_of.get(exact, -1)
                source = source if source in ended else -1
            if source >= 0 and length[source] > most:
                best, most = source, length[source]
        before[row] = best
        length[row] = max(most, 0) + took[row]
    if not rows:
        return Chain([], 0)
    row = max(range(len(rows)), key=lambda at: (length[at], at))
    total = length[row]
    members = []
    while row >= 0:
        if not nodes[row].is_leaf:
            members.append(row)
        row = before[row]
    return Chain(members[::-1], total)


def _written(node: Node) -> tuple[int, ...]:
    """Its outputs, and what holds one of them from then on."""
    if not node.writes:
        return node.outputs
    into = [node.inputs[port] for _, port in node.writes if port < len(node.inputs)]
    return (*node.outputs, *into)
