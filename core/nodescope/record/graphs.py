"""The graph of a recording, as the exporters and the comparison want it.

Invariant: the latest definition of each node; topological order where the graph has no cycle.
"""

from __future__ import annotations

from nodescope.ir.graph import Graph, Node, Value
from nodescope.record.recording import Recording


def graph_of(recording: Recording) -> Graph:
    """The whole eager graph of a run.

    Nodes that met other inputs in a later step are taken as last defined; such a redefinition can
    close a cycle, and the nodes on it then stand in order of their ids.

    Raises:
        RecordingError: The recording is damaged.
    """
    nodes = {row.node.id: row.node for row in recording.nodes()}
    values = {row.value.id: row.value for row in recording.values()}
    produced = {value: node.id for node in nodes.values() for value in node.outputs}
    fed = tuple(sorted(each for each in values if each not in produced))
    constants = tuple(
        value for node in nodes.values() if node.op == "constant" for value in node.outputs
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
    return [values[each] for each in sorted(values)]


def _sorted(nodes: dict[int, Node], produced: dict[int, int]) -> list[Node]:
    needs = {
        node.id: {
            each
            for each in (*(produced.get(v, 0) for v in node.inputs), *node.control_inputs)
            if each in nodes and each != node.id
        }
        for node in nodes.values()
    }
    users: dict[int, list[int]] = {}
    for node, sources in needs.items():
        for each in sources:
            users.setdefault(each, []).append(node)
    waiting = {node: len(sources) for node, sources in needs.items()}
    ready = sorted((node for node, count in waiting.items() if not count), reverse=True)
    done: list[int] = []
    while ready:
        current = ready.pop()
        done.append(current)
        freed = []
        for user in users.get(current, ()):
            waiting[user] -= 1
            if not waiting[user]:
                freed.append(user)
        ready.extend(sorted(freed, reverse=True))
    placed = set(done)
    return [nodes[each] for each in (*done, *sorted(set(nodes) - placed))]
