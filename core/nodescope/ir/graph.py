"""The central types: what a node, a value and a graph are.

Invariant: everything here is frozen. A changed graph is a new graph; ids are never reused in a run.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

Phase = Literal["forward", "backward", "optimizer", "recompute", "other"]
PHASES: tuple[Phase, ...] = get_args(Phase)
GraphKind = Literal["eager", "static", "compiled", "backward-joined", "tasks"]


class TensorSpec(msgspec.Struct, frozen=True):
    """Shape and NumPy dtype name of a tensor, such as ``((32, 10), "float32")``."""

    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype} {'×'.join(map(str, self.shape)) if self.shape else 'scalar'}"


class SourceLocation(msgspec.Struct, frozen=True):
    """A line of the user's program."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Value(msgspec.Struct, frozen=True):
    """An edge's tensor: what one output port of a node carries.

    Attributes:
        id: Unique in the run.
        spec: Shape and dtype as first seen; a later execution may carry another shape.
        name: ``<node name>`` for the first output, ``<node name>:<port>`` for the others.
    """

    id: int
    spec: TensorSpec
    name: str


class Node(msgspec.Struct, frozen=True):
    """One operation of the graph. Its executions are named by ``seq``.

    Attributes:
        id: Unique in the run, from 1 up, in order of first execution.
        name: Unique and readable: ``<scope>/<op>``, then ``<scope>/<op>_1`` and so on.
        op: The op's registered name, such as ``matmul``. Leaves have the ops ``parameter``,
            ``tensor`` (data that the user gave) and ``constant``.
        family: The op's family, which gives its colour: matmul, elementwise, activation,
            reduction, norm, layout, index, random, loss, update or leaf.
        inputs: Value ids, by input port.
        control_inputs: Node ids that had to run before, without a value passing.
        outputs: Value ids, by output port.
        attrs: JSON-like arguments of the op (axis, keepdims, scalar operands).
        scope: Path of name scopes, ``"encoder/layer_0"``; ``""`` at the top. Nodes of the phases
            ``backward`` and ``optimizer`` stand under a scope of that name:
            ``"backward/encoder/layer_0"``.
        phase: What part of training it belongs to.
        device: ``"cpu"`` unless an adapter says otherwise.
        source: The user's line that made it, if known.
        origin: Node ids of the traced graph that it stands for; empty in a traced graph.
        forward: For a backward node, the id of the forward node that it differentiates.
        graph: For a node that runs as part of a compiled graph: the id of that captured graph, in
            whose traced graph ``origin`` counts. Else 0.
    """

    id: int
    name: str
    op: str
    family: str
    inputs: tuple[int, ...] = ()
    control_inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    attrs: dict[str, Any] = {}
    scope: str = ""
    phase: Phase = "forward"
    device: str = "cpu"
    source: SourceLocation | None = None
    origin: tuple[int, ...] = ()
    forward: int | None = None
    graph: int = 0


class Graph(msgspec.Struct, frozen=True):
    """Nodes in topological order, with the values that flow between them.

    Attributes:
        id: Unique in the run.
        kind: How it came about.
        inputs: Value ids without producer that are fed on each call.
        outputs: Value ids that are returned.
        nodes: In topological order.
        values: Every value, in order of id.
        constants: Value ids whose content is part of the graph.
    """

    id: int
    kind: GraphKind
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    nodes: tuple[Node, ...] = ()
    values: tuple[Value, ...] = ()
    constants: tuple[int, ...] = ()
