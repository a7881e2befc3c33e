"""The graph of a recording, for the exporters and the comparison.

Invariant: each node and value in its latest definition, at the requested moment or in the whole
run; topological order where the graph has no cycle.
"""

from __future__ import annotations

from nodescope.ir.graph import Graph, Node, Value
from nodescope.ir.order import in_order
from nodescope.record.recording import Recording
from nodescope.record.rows import MAX_SEQ, ValueRow


def end_of(recording: Recording, step: int) -> int:
    """The seq at which a step ended or the next one began; for the last step, beyond all seqs.

    Step 0 is the part of the run before the first step.
    """
    return recording.step_table.end_of(step, MAX_SEQ)


def defined(recording: Recording, until: int = MAX_SEQ) -> tuple[list[Node], list[ValueRow]]:
    """Nodes and values as they were at a seq: inputs, shapes and dtypes change over the steps.

    Raises:
        RecordingError: The recording is damaged.
    """
    nodes = {row.node.id: row.node for row in recording.nodes() if row.seq <= until}
    return list(nodes.values()), recording.values(until=until)


def graph_of(recording: Recording, until: int = MAX_SEQ) -> Graph:
    """The eager graph of a run at a seq, or the whole graph in its latest definition.

    Nodes whose inputs changed in a later step are taken in their latest definition. A redefinition
    can close a cycle; the nodes on it are then ordered by id.

    Raises:
        RecordingError: The recording is damaged.
    """
    node_list, rows = defined(recording, until)
    nodes = {node.id: node for node in node_list}
    values = {row.value.id: row.value for row in rows}
    produced = {value: node.id for node in nodes.values() for value in node.outputs}
    fed = tuple(sorted(value for value in values if value not in produced))
    constants = tuple(
        value for node in nodes.values() if node.role == "constant" for value in node.outputs
    )
    return Graph(
        id=0,
        kind="eager",
        inputs=fed,
        nodes=tuple(_sorted(nodes, produced)),
        values=tuple(_by_id(values)),
        constants=constants,
    )


def _by_id(values: dict[int, Value]) -> list[Value]:
    return [values[number] for number in sorted(values)]


def _sorted(nodes: dict[int, Node], produced: dict[int, int]) -> list[Node]:
    needs = {
        node.id: {
            source
            for source in (*(produced.get(v, 0) for v in node.inputs), *node.control_inputs)
            if source in nodes and source != node.id
        }
        for node in nodes.values()
    }
    done = in_order(needs)
    placed = set(done)
    return [nodes[number] for number in (*done, *sorted(set(nodes) - placed))]
