"""The graph as data: specs, values, nodes, graphs, and their identity over steps."""

from nodescope.ir.graph import (
    PHASES,
    Graph,
    GraphKind,
    Node,
    Phase,
    SourceLocation,
    TensorSpec,
    Value,
)

__all__ = [
    "PHASES",
    "Graph",
    "GraphKind",
    "Node",
    "Phase",
    "SourceLocation",
    "TensorSpec",
    "Value",
]
