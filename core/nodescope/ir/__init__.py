"""The graph as data: specs, values, nodes, graphs, and their identity across steps."""

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
