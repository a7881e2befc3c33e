"""Op: the frozen description of one operation.

Invariant: an Op knows arrays and specs only. Tensors, tapes and events are the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from nodescope.ir.graph import LEAF_ROLES, Role, TensorSpec, usual_role, usual_writes

Family = Literal[
    "matmul", "elementwise", "activation", "reduction", "norm", "layout", "index", "random",
    "loss", "update", "leaf", "control", "kernel",
]  # fmt: skip

Array = np.ndarray[Any, Any]
Scalar = bool | int | float | complex
Operand = TensorSpec | Scalar
"""What `infer` sees of an input: a spec, or a Python scalar, which promotes weakly."""

Infer = Callable[[tuple[Operand, ...], dict[str, Any]], TensorSpec | tuple[TensorSpec, ...]]
Rule = Callable[..., Any]
"""``rule(F, ct, out, *inputs, **attrs)`` gives the cotangent of one input.

``F`` holds every op as a function. It is either raw (arrays in, arrays out) or traced (tensors, so
that the rule's own ops are nodes and can be differentiated again); both do the same arithmetic. The
result may still have the shape and dtype of the output: the tape sums and converts it. For an op of
several outputs ``ct`` and ``out`` are tuples. Complex cotangents are not conjugated on their way,
as in JAX, so that the rule of a holomorphic op is its real formula; the tape conjugates at the
leaves.
"""


class Sample(NamedTuple):
    """One call that the conformance suite makes."""

    inputs: tuple[Any, ...]
    attrs: dict[str, Any] = {}  # noqa: RUF012 (a NamedTuple default, never written to)


def no_flops(inputs: tuple[Operand, ...], out: TensorSpec) -> int:
    """Ops that only move data."""
    return 0


def one_per_output(inputs: tuple[Operand, ...], out: TensorSpec) -> int:
    """Ops that do about one operation per element of their output."""
    return int(np.prod(out.shape))


def one_per_input(inputs: tuple[Operand, ...], out: TensorSpec) -> int:
    """Ops that do about one operation per element of their first input."""
    first = inputs[0]
    return int(np.prod(first.shape)) if isinstance(first, TensorSpec) else 1


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One operation.

    Attributes:
        name: Registered name, such as ``matmul``.
        family: Which gives it its colour in the graph.
        infer: Specs and attributes to the spec of the output; raises `ShapeError` or `DtypeError`
            for exactly the calls that ``impl`` refuses because of shapes or dtypes.
        impl: Arrays (and Python scalars) to an array; never writes to its inputs.
        vjp: A rule per input, None where no cotangent flows. Ops with any number of inputs give one
            rule and set ``variadic``; it gets the input's position as keyword ``port``. Without
            rules the op's output has no gradient (comparisons, argmax).
        numpy: The NumPy functions and ufuncs through which it is reached.
        bind: Takes NumPy's arguments, returns ``(inputs, attrs)``. None for ufuncs.
        ports: Names of the inputs; a Python scalar operand stands under it in `Node.attrs`.
        samples: Calls for the conformance suite.
        elementwise: Output element i depends on the (broadcast) input elements i only.
        variadic: Takes any number of inputs.
        outputs: How many; 0 for as many as ``infer`` says. Unless it is 1, ``infer`` gives a tuple
            of specs and ``impl`` a tuple of arrays.
        joint: ``vjp`` holds one rule, which gives the cotangents of all inputs at once (None where
            none flows). Goes with ``variadic``.
        partial: The rule takes None for the cotangent of an output that none came from; else it
            gets zeros.
        inline: For ops that hold graphs: runs those node by node on tensors, in place of ``impl``,
            for who wants to see inside.
        domain: Range of inputs for which the op is smooth, for generated tests.
        smooth: Second derivatives exist on the domain and are tested.
        flops: Estimated floating-point operations of one call.
        c: One element of the output as a C expression, or ``""``. ``{0}``, ``{1}`` … are the
            operands, converted to the dtype of NumPy's loop; ``{T}`` is that dtype in C (``f32``,
            ``i64``, ``b8`` …), and ``{name}`` or ``{name|default}`` an attribute. Functions
            ``ns_…`` are those of the C back end's prelude; a dtype that they lack has no C.
        reads: Which elements of the inputs an element of an output is made from: a kind of
            `nodescope.ops.reading`. ``""`` is what `nodescope.ops.dependence` knows of the op, or
            else of its family.
        role, writes: Of its nodes.
    """

    name: str
    family: Family
    infer: Infer
    impl: Callable[..., Any]
    vjp: tuple[Rule | None, ...] | None = None
    numpy: tuple[Callable[..., Any], ...] = ()
    bind: Callable[..., tuple[tuple[Any, ...], dict[str, Any]]] | None = None
    ports: tuple[str, ...] = ("x",)
    samples: Callable[[np.random.Generator], Iterable[Sample]] = field(default=lambda rng: ())
    elementwise: bool = False
    variadic: bool = False
    outputs: int = 1
    joint: bool = False
    partial: bool = False
    inline: Callable[[tuple[Any, ...], dict[str, Any]], Any] | None = None
    domain: tuple[float, float] = (-2.0, 2.0)
    smooth: bool = True
    flops: Callable[[tuple[Operand, ...], TensorSpec], int] = no_flops
    c: str = ""
    reads: str = ""

    special: bool = field(init=False, default=False)
    """Whether the tape has more to do than to call a rule per input."""

    role: Role = field(init=False, default="op")
    writes: tuple[tuple[int, int], ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "role", usual_role(self.name, self.family))
        object.__setattr__(self, "writes", usual_writes(self.family))
        object.__setattr__(self, "special", self.variadic or self.joint or self.outputs != 1)

    @property
    def is_leaf(self) -> bool:
        """Whether its nodes only hold data."""
        return self.role in LEAF_ROLES

    def rule(self, port: int) -> Rule | None:
        """The rule of one input."""
        if self.vjp is None:
            return None
        return self.vjp[0] if self.variadic else self.vjp[port]

    def __repr__(self) -> str:
        return f"Op({self.name})"


def port_name(op: Op, port: int) -> str:
    """The name of an input, under which a Python scalar operand stands in `Node.attrs`."""
    return op.ports[port] if port < len(op.ports) else f"x{port}"
