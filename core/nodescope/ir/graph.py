"""The central types: what a node, a value and a graph are.

Invariant: everything here is frozen. A changed graph is a new graph; ids are never reused in a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import msgspec

from nodescope.errors import GraphError
from nodescope.telling import shape_words

Phase = Literal["forward", "backward", "optimizer", "recompute", "other"]
PHASES: tuple[Phase, ...] = get_args(Phase)
GraphKind = Literal["eager", "static", "compiled", "backward-joined", "tasks"]
Role = Literal["op", "parameter", "buffer", "input", "constant", "task", "send", "receive"]
LEAF_ROLES: Final = frozenset({"parameter", "buffer", "input", "constant"})
# nodescope's own leaves. `read` runs, and gives what a variable holds at that time; the others are
# given their values.
LEAVES: Final[dict[str, Role]] = {
    "parameter": "parameter", "tensor": "input", "placeholder": "input", "constant": "constant",
    "read": "buffer",
}  # fmt: skip
GIVEN: Final = frozenset(LEAVES) - {"read"}
_TRANSFERS: Final[dict[str, Role]] = {"send": "send", "receive": "receive"}

if TYPE_CHECKING:
    # Ops and the compiler compute with sizes: in the graphs that they see, all are known. Whoever
    # reads recordings meets None as well.
    Size = Any
else:
    Size = int | None


class TensorSpec(msgspec.Struct, frozen=True, tag_field="kind", tag="tensor"):
    """Shape and NumPy dtype name of a tensor, such as ``((32, 10), "float32")``.

    Attributes:
        shape: A size per axis; None where the framework does not know it.
        dtype: NumPy's name, or the framework's own where NumPy has none.
        device: Where the elements are; ``""`` is where the node ran.
    """

    shape: tuple[Size, ...]
    dtype: str
    device: str = ""

    def __str__(self) -> str:
        return f"{self.dtype} {shape_words(self.shape)}"


class OpaqueSpec(msgspec.Struct, frozen=True, tag_field="kind", tag="opaque"):
    """A value that is no array, such as a list, a dataset or an object in Ray's store.

    Attributes:
        type: Its class, as ``module.Name``.
        nbytes: How large it is; None if that is unknown.
    """

    type: str
    nbytes: int | None = None

    @property
    def shape(self) -> tuple[Size, ...]:
        """It has no axes."""
        return ()

    @property
    def dtype(self) -> str:
        """Its class, where a dtype would stand."""
        return self.type

    def __str__(self) -> str:
        return self.type if self.nbytes is None else f"{self.type}, {self.nbytes:,} bytes"


Spec = TensorSpec | OpaqueSpec


def usual_role(op: str, family: str) -> Role:
    """The role of nodescope's own ops."""
    if family == "leaf":
        return LEAVES.get(op, "input")
    return _TRANSFERS.get(op, "op") if family == "control" else "op"


def usual_writes(family: str) -> tuple[tuple[int, int], ...]:
    """What nodescope's own ops write, but for kernels that hold an update."""
    return ((0, 0),) if family == "update" else ()


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
        storage: The memory that it lies in, by a number: values with the same one are views of each
            other. 0 if that is unknown.
    """

    id: int
    spec: Spec
    name: str
    storage: int = 0

    @property
    def tensor(self) -> TensorSpec:
        """Its spec, of a value that has to be a tensor.

        Raises:
            GraphError: It is something else.
        """
        if isinstance(self.spec, TensorSpec):
            return self.spec
        raise GraphError(f"value {self.name} is no tensor, but {self.spec}")


class Node(msgspec.Struct, frozen=True):
    """One operation of the graph. Its executions are named by ``seq``.

    Attributes:
        id: Unique in the run, from 1 up, in order of first execution.
        name: Unique and readable: ``<scope>/<op>``, then ``<scope>/<op>_1`` and so on.
        op: The op's name, such as ``matmul``: nodescope's own where it has such an op.
        family: The op's family, which gives its colour: matmul, elementwise, activation,
            reduction, norm, layout, index, random, loss, update, control, kernel, communication,
            other or leaf. Families that are not known are shown as ``other``.
        inputs: Value ids, by input port.
        control_inputs: Node ids that had to run before, without a value passing.
        outputs: Value ids, by output port.
        attrs: Arguments of the op (axis, keepdims, scalar operands), as `nodescope.ir.attrs` says.
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
        role: What it is for. An ``op`` computes. A ``parameter`` is trained, a ``buffer`` is other
            state that outlives a call, an ``input`` is data from the program, a ``constant`` is
            part of the graph: these four hold data and compute nothing (`is_leaf`). A ``task`` runs
            elsewhere; ``send`` and ``receive`` carry values there and back.
        dialect: Whose op it is, and so who can run it again: ``nodescope``, or an adapter's name.
        native: The framework's own name of the op, ``aten::addmm.default``; ``""`` if it is ``op``.
        writes: Pairs of output port and input port: from then on, what the input was read from
            holds the output. So do `assign`, an op in place and a write through a view.
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
    role: Role = "op"
    dialect: str = "nodescope"
    native: str = ""
    writes: tuple[tuple[int, int], ...] = ()

    @property
    def is_leaf(self) -> bool:
        """Whether it only holds data: stepping passes over it."""
        return self.role in LEAF_ROLES

    @property
    def is_weight(self) -> bool:
        """Whether it is trained; what optimizers keep for themselves is not."""
        return self.role == "parameter" and self.phase != "optimizer"


class Graph(msgspec.Struct, frozen=True, tag_field="attr", tag="graph"):
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
