"""The central types: nodes, values and graphs.

Invariant: everything here is frozen. A changed graph is a new graph; ids are never reused in a run.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import msgspec

from nodescope.console_output import shape_words
from nodescope.errors import GraphError

Phase = Literal["forward", "backward", "optimizer", "recompute", "other"]
PHASES: tuple[Phase, ...] = get_args(Phase)
GraphKind = Literal["eager", "static", "compiled", "backward-joined", "tasks"]
Role = Literal["op", "parameter", "buffer", "input", "constant", "task", "send", "receive"]
LEAF_ROLES: Final = frozenset({"parameter", "buffer", "input", "constant"})
# nodescope's own leaves. `read` runs, and returns a variable's current content; the others are
# given their values.
LEAVES: Final[dict[str, Role]] = {
    "parameter": "parameter", "tensor": "input", "placeholder": "input", "constant": "constant",
    "read": "buffer",
}  # fmt: skip
GIVEN: Final = frozenset(LEAVES) - {"read"}
_TRANSFERS: Final[dict[str, Role]] = {"send": "send", "receive": "receive"}

if TYPE_CHECKING:
    # Ops and the compiler compute with sizes: in their graphs, all are known. Readers of recordings
    # also meet None.
    Size = Any
else:
    Size = int | None


class TensorSpec(msgspec.Struct, frozen=True, tag_field="kind", tag="tensor", gc=False):
    """Shape and NumPy dtype name of a tensor, such as ``((32, 10), "float32")``.

    Attributes:
        shape: A size per axis; None where the framework does not know it.
        dtype: NumPy's name, or the framework's own where NumPy has none.
        device: Where the elements are; ``""`` stands for where the node ran.
    """

    shape: tuple[Size, ...]
    dtype: str
    device: str = ""

    def __str__(self) -> str:
        return f"{self.dtype} {shape_words(self.shape)}"


class OpaqueSpec(msgspec.Struct, frozen=True, tag_field="kind", tag="opaque", gc=False):
    """A value that is not an array, such as a list, a dataset or an object in Ray's store.

    Attributes:
        type: Its class, as ``module.Name``.
        nbytes: Its size in bytes; None if unknown.
    """

    type: str
    nbytes: int | None = None

    @property
    def shape(self) -> tuple[Size, ...]:
        """Empty: it has no axes."""
        return ()

    @property
    def dtype(self) -> str:
        """Its class, in place of a dtype."""
        return self.type

    def __str__(self) -> str:
        return self.type if self.nbytes is None else f"{self.type}, {self.nbytes:,} bytes"


Spec = TensorSpec | OpaqueSpec


def usual_role(op: str, family: str) -> Role:
    """The role of a nodescope op."""
    if family == "leaf":
        return LEAVES.get(op, "input")
    return _TRANSFERS.get(op, "op") if family == "control" else "op"


def usual_writes(family: str) -> tuple[tuple[int, int], ...]:
    """The writes of a nodescope op, except for kernels that contain an update."""
    return ((0, 0),) if family == "update" else ()


class SourceLocation(msgspec.Struct, frozen=True, gc=False):
    """A line of the user's program."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Value(msgspec.Struct, frozen=True, gc=False):
    """The tensor of an edge: the value at one output port of a node.

    Attributes:
        id: Unique in the run.
        spec: Shape and dtype as first seen; a later execution may carry another shape.
        name: ``<node name>`` for the first output, ``<node name>:<port>`` for the others.
        storage: A number for its memory: values with the same one are views of each other. 0 if
            unknown.
    """

    id: int
    spec: Spec
    name: str
    storage: int = 0

    @property
    def tensor(self) -> TensorSpec:
        """The spec of a value that must be a tensor.

        Raises:
            GraphError: The value is not a tensor.
        """
        if isinstance(self.spec, TensorSpec):
            return self.spec
        raise GraphError(f"value {self.name} is not a tensor but {self.spec}")


class Node(msgspec.Struct, frozen=True, gc=False):
    """One operation of the graph. Its executions are identified by ``seq``.

    Attributes:
        id: Unique in the run, from 1 up, in order of first execution.
        name: Unique and readable: ``<scope>/<op>``, then ``<scope>/<op>_1`` and so on.
        op: The op's name, such as ``matmul``: nodescope's own if it has such an op.
        family: The op's family, which determines its colour: matmul, elementwise, activation,
            reduction, norm, layout, index, random, loss, update, control, kernel, communication,
            task, actor, other or leaf. Unknown families are shown as ``other``.
        inputs: Value ids, by input port.
        control_inputs: Ids of nodes that must run before, without passing a value.
        outputs: Value ids, by output port.
        attrs: Arguments of the op (axis, keepdims, scalar operands), see `nodescope.ir.attrs`.
        scope: Path of name scopes, ``"encoder/layer_0"``; ``""`` at the top. Nodes of the phases
            ``backward`` and ``optimizer`` are placed under a scope of that name:
            ``"backward/encoder/layer_0"``.
        phase: The part of training that it belongs to.
        device: ``"cpu"`` unless an adapter says otherwise.
        source: The user's line that made it, if known.
        origin: Ids of the traced graph's nodes that it replaces; empty in a traced graph.
        forward: For a backward node, the id of the forward node that it differentiates.
        graph: For a node that runs as part of a compiled graph: the id of that captured graph, to
            whose traced graph ``origin`` refers. Else 0.
        role: Its purpose. An ``op`` computes. A ``parameter`` is trained, a ``buffer`` is other
            state that outlives a call, an ``input`` is data from the program, a ``constant`` is
            part of the graph: these four hold data and compute nothing (`is_leaf`). A ``task`` runs
            elsewhere; ``send`` and ``receive`` carry values there and back.
        dialect: The owner of its op, which can run it again: ``nodescope``, or an adapter's name.
        native: The framework's own name for the op, ``aten::addmm.default``; ``""`` if it is
            ``op``.
        writes: Pairs of output port and input port: after it, the source of the input holds the
            output. This covers `assign`, in-place ops and writes through views.
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
        """Whether it only holds data: stepping skips it."""
        return self.role in LEAF_ROLES

    @property
    def is_weight(self) -> bool:
        """Whether it is trained; the state of optimizers is not."""
        return self.role == "parameter" and self.phase != "optimizer"


@lru_cache(maxsize=4096)
def _short(native: str) -> tuple[str, str]:
    """Names of a native op without namespace and overload: ``aten::add_.Tensor`` is ``add_``, and
    ``add``.
    """
    name = native.rpartition("::")[2].partition(".")[0]
    return name, name.strip("_")


def is_op(node: Node, op: str) -> bool:
    """Whether a node is of an op, by its name or the library's own.

    The library's name may be short: ``add`` and ``add_`` stand for ``aten::add_.Tensor``.
    """
    if node.op == op:
        return True
    native = node.native
    return native != "" and (native == op or op in _short(native))


class Graph(msgspec.Struct, frozen=True, tag_field="attr", tag="graph"):
    """Nodes in topological order, with the values that flow between them.

    Attributes:
        id: Unique in the run.
        kind: How it was made.
        inputs: Ids of values without a producer, which are fed on each call.
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


class ScopeDescribed(msgspec.Struct, frozen=True, tag=True):
    """A scope is a module of the program, or an optimizer. Emitted once for each.

    Attributes:
        scope: Its path, without the numbers of further calls.
        kind: Its class.
        attrs: Its settings as text, such as ``kernel_size``: ``(3, 3)``.
    """

    scope: str
    kind: str
    attrs: dict[str, str] = {}
