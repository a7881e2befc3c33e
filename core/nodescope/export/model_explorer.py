"""Model Explorer: the whole graph as JSON for Google's viewer, with shapes, times and statistics.

Invariant: scopes are namespaces, and nothing is folded: that viewer folds by itself.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from nodescope.console_output import shape_words
from nodescope.export import ExportOptions, exporter, graph_and_title
from nodescope.export.folding import within
from nodescope.export.table import Row, rows_of
from nodescope.export.words import label, visible
from nodescope.ir.attrs import plain
from nodescope.ir.graph import Graph, Node, Value
from nodescope.ir.scopes import join
from nodescope.record.recording import Recording

_LONGEST: Final = 1000
_FACTS: Final = ("runs", "total_ms", "mean_ms", "min", "max", "mean", "std", "nan", "inf", "source")


@exporter("model-explorer", suffix=".json")
def render_model_explorer(recording: Recording, options: ExportOptions) -> bytes:
    """JSON in UTF-8."""
    graph, title = graph_and_title(recording, options)
    part = within(graph, options.scope) if options.scope else graph
    facts = {row["id"]: row for row in rows_of(recording, part, options)}
    name = _text(title) or "graph"
    content = {"label": name, "graphs": [{"id": name, "nodes": _nodes(part, facts)}]}
    return msgspec.json.encode(content)


def _nodes(graph: Graph, facts: dict[Any, Row]) -> list[dict[str, Any]]:
    values = {value.id: value for value in graph.values}
    produced = {
        value: (node.id, port) for node in graph.nodes for port, value in enumerate(node.outputs)
    }
    known = {node.id for node in graph.nodes}
    return [_node(node, values, produced, known, facts.get(node.id, {})) for node in graph.nodes]


def _node(
    node: Node, values: dict[int, Value], produced: dict[int, tuple[int, int]],
    known: set[int], facts: Row,
) -> dict[str, Any]:  # fmt: skip
    edges = [
        {
            "sourceNodeId": str(source),
            "sourceNodeOutputId": str(port),
            "targetNodeInputId": str(place),
        }
        for place, value in enumerate(node.inputs)
        for source, port in (produced.get(value, (0, 0)),)
        if source in known
    ]
    edges += [
        {"sourceNodeId": str(source), "sourceNodeOutputId": "control", "targetNodeInputId": "^"}
        for source in node.control_inputs
        if source in known
    ]
    attrs = {"op": node.op, "family": node.family, "role": node.role, "phase": node.phase}
    attrs |= {key: str(plain(key, value)) for key, value in node.attrs.items()}
    attrs |= {key: str(facts[key]) for key in _FACTS if facts.get(key, "") != ""}
    # Leaves get their scope as namespace too: Model Explorer would hide weights in one of its own.
    return {
        "id": str(node.id),
        "label": label(node),
        "namespace": "/".join(_text(part) for part in node.scope.split("/")),
        "attrs": [{"key": _text(key), "value": _text(value)} for key, value in attrs.items()],
        "incomingEdges": edges,
        "outputsMetadata": [
            {"id": str(port), "attrs": _output(values[value])}
            for port, value in enumerate(node.outputs)
            if value in values
        ],
    }


def _output(value: Value) -> list[dict[str, str]]:
    shape = shape_words(value.spec.shape) if value.spec.shape else ""
    return [
        {"key": "__tensor_tag", "value": _text(value.name)},
        {"key": "tensor_shape", "value": _text(join("", f"{value.spec.dtype} {shape}".strip()))},
    ]


def _text(text: str) -> str:
    return visible(text, most=_LONGEST)
