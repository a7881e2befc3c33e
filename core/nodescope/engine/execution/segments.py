"""Segments: the nodes of a partition that run without waiting for another partition.

A segment receives values before its first node and sends values after its last. Segments are made
in the graph's order: a node joins the open segment of its partition. If it needs a value from a
segment that this one does not run after, it opens a new segment. The segment that makes the value
is closed.

Invariant: no deadlock. A segment is closed before any that receives from it is opened, so that in
order of opening each receives from earlier ones only. Each partition runs its own in that order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nodescope.engine.execution.placement import Placement, transfers
from nodescope.ir.graph import GIVEN, Graph, Node
from nodescope.ops.op import Array


@dataclass(frozen=True, eq=False)
class Segment:
    """Nodes of one partition that run together.

    Attributes:
        part: The position of the partition.
        graph: The nodes, with the ids of the whole graph. Its inputs are fed, received, or made by
            earlier segments of the partition.
        arrays: Its constants by value id.
        fed: Values that the caller passes: inputs of the whole graph, when first used here.
        received: Values that other partitions send, when first used here.
        sent: Values that others receive, or that the whole graph returns.
        dropped: Values that the partition no longer needs afterwards.
    """

    part: int
    graph: Graph
    arrays: Mapping[int, Array]
    fed: tuple[int, ...]
    received: tuple[int, ...]
    sent: tuple[int, ...]
    dropped: tuple[int, ...]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Its nodes, without constants."""
        return tuple(node for node in self.graph.nodes if node.op not in GIVEN)


@dataclass(eq=False)
class _Open:
    part: int
    nodes: list[Node] = field(default_factory=list)
    after: set[int] = field(default_factory=set)  # numbers of the segments that run before it


def segments_of(
    graph: Graph, arrays: Mapping[int, Array], placement: Placement
) -> tuple[Segment, ...]:
    """Cut a placed graph into segments, in an order in which they can be submitted."""
    part_of = placement.part_of
    makers = {value: node for node in graph.nodes for value in node.outputs}
    made: list[_Open] = []
    open_of: dict[int, int] = {}  # by partition; numbers in `made`
    newest: dict[int, int] = {}
    segment_of: dict[int, int] = {}  # by value
    for node in graph.nodes:
        if node.op in GIVEN:
            continue
        part = part_of[node.id]
        needs = {
            segment_of[value]
            for value in node.inputs
            if value in segment_of and made[segment_of[value]].part != part
        }
        number = open_of.get(part)
        if number is None or not needs <= made[number].after:
            before = newest.get(part)
            after = {*needs, *(() if before is None else (before,))}
            for other in tuple(after):
                after |= made[other].after
            number = open_of[part] = newest[part] = len(made)
            made.append(_Open(part, [], after))
        for other in needs:
            if open_of.get(made[other].part) == other:
                del open_of[made[other].part]
        made[number].nodes.append(node)
        segment_of.update(dict.fromkeys(node.outputs, number))
    return tuple(_finished(graph, arrays, part_of, made, makers))


def _finished(
    graph: Graph, arrays: Mapping[int, Array], part_of: Mapping[int, int],
    made: Sequence[_Open], makers: Mapping[int, Node],
) -> list[Segment]:  # fmt: skip
    sent = {value for value, _ in transfers(graph, part_of)}.union(graph.outputs)
    last: dict[tuple[int, int], int] = {}  # by partition and value
    for number, opened in enumerate(made):
        for node in opened.nodes:
            for value in (*node.inputs, *node.outputs):
                last[opened.part, value] = number
    values = {value.id: value for value in graph.values}
    there: dict[int, set[int]] = {opened.part: set() for opened in made}
    segments = []
    for number, opened in enumerate(made):
        part, held = opened.part, there[opened.part]
        produced = {value for node in opened.nodes for value in node.outputs}
        used = dict.fromkeys(value for node in opened.nodes for value in node.inputs)
        outside = [value for value in used if value not in produced]
        constants = [value for value in outside if value in arrays]
        inputs = tuple(value for value in outside if value not in arrays)
        new = [value for value in inputs if value not in held]
        held.update(new, produced)
        received = tuple(value for value in new if value in makers and not makers[value].is_leaf)
        outputs = tuple(
            value for value in sorted(produced) if value in sent or last[part, value] > number
        )
        nodes = (*(makers[value] for value in constants), *opened.nodes)
        mentioned = sorted({*produced, *used})
        segments.append(Segment(
            part,
            Graph(graph.id, "compiled", inputs, outputs, nodes,
                  tuple(values[value] for value in mentioned), tuple(constants)),
            {value: arrays[value] for value in constants},
            tuple(value for value in new if value not in received),
            received,
            tuple(value for value in outputs if value in sent),
            tuple(value for value in sorted({*inputs, *produced}) if last[part, value] == number),
        ))  # fmt: skip
    return segments
