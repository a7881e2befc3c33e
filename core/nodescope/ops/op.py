"""Op: the frozen description of one operation.

Invariant: an Op knows only arrays and specs. Tensors, tapes and events belong to the engine.
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
"""An input in the form seen by `infer`: a spec, or a Python scalar, which promotes weakly."""

Infer = Callable[[tuple[Operand, ...], dict[str, Any]], TensorSpec | tuple[TensorSpec, ...]]
Rule = Callable[..., Any]
"""``rule(F, ct, out, *inputs, **attrs)`` returns the cotangent of one input.

``F`` has every op as a function. It is either raw (arrays in, arrays out) or traced (tensors, so
that the rule's own ops are nodes and can be differentiated again); both do the same arithmetic. The
result may still have the shape and dtype of the output: the tape sums and converts it. For an op of
several outputs ``ct`` and ``out`` are tuples. Complex cotangents are unconjugated on the tape, as
in JAX, so that the rule of a holomorphic op is its real formula; the tape conjugates at the leaves.
"""


class Sample(NamedTuple):
    """A call made by the conformance suite."""

    inputs: tuple[Any, ...]
    attrs: dict[str, Any] = {}  # noqa: RUF012 (a NamedTuple default, never written to)


def no_flops(inputs: tuple[Operand, ...], out: TensorSpec, attrs: dict[str, Any]) -> int:
    """The estimate for ops that only move data."""
    return 0


def one_per_output(inputs: tuple[Operand, ...], out: TensorSpec, attrs: dict[str, Any]) -> int:
    """The estimate for ops with about one operation per element of their output."""
    return int(np.prod(out.shape))


def one_per_input(inputs: tuple[Operand, ...], out: TensorSpec, attrs: dict[str, Any]) -> int:
    """The estimate for ops with about one operation per element of their first input."""
    first = inputs[0]
    return int(np.prod(first.shape)) if isinstance(first, TensorSpec) else 1


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One operation.

    Attributes:
        name: Registered name, such as ``matmul``.
        family: Its family, which determines its colour in the graph.
        infer: Specs and attributes to the spec of the output; raises `ShapeError` or `DtypeError`
            for exactly the calls that ``impl`` refuses because of shapes or dtypes.
        impl: Arrays (and Python scalars) to an array; never writes to its inputs.
        vjp: A rule per input, None where no cotangent flows. Ops with any number of inputs have one
            rule and set ``variadic``; the rule gets the input's position as keyword ``port``.
            Without rules the op's output has no gradient (comparisons, argmax).
        numpy: The NumPy functions and ufuncs that call it.
        bind: Takes NumPy's arguments, returns ``(inputs, attrs)``. None for ufuncs.
        ports: Names of the inputs; a Python scalar operand has this name in `Node.attrs`.
        samples: Calls for the conformance suite.
        elementwise: Whether output element i depends only on the (broadcast) input elements i.
        variadic: Whether it takes any number of inputs.
        outputs: Number of outputs; 0 if ``infer`` determines it. Unless it is 1, ``infer`` returns
            a tuple of specs and ``impl`` a tuple of arrays.
        joint: Whether ``vjp`` has one rule that returns the cotangents of all inputs at once (None
            where none flows). Requires ``variadic``.
        partial: Whether the rule accepts None for the cotangent of an output without one; otherwise
            it gets zeros.
        inline: For ops that contain graphs: runs those node by node on tensors, in place of
            ``impl``, to show the inside.
        domain: Range of inputs for which the op is smooth, for generated tests.
        smooth: Whether second derivatives exist on the domain and are tested.
        flops: Estimated floating-point operations of one call, by its operands, its first output
            and its attributes.
        c: One element of the output as a C expression, or ``""``. ``{0}``, ``{1}`` … are the
            operands, converted to the dtype of NumPy's loop; ``{T}`` is that dtype in C (``f32``,
            ``i64``, ``b8`` …), and ``{name}`` or ``{name|default}`` an attribute. Functions
            ``ns_…`` belong to the C back end's prelude; for dtypes that these functions lack, the
            op has no C implementation.
        reads: Which elements of the inputs an element of an output depends on: a kind of
            `nodescope.ops.reading`. ``""`` stands for the kind that `nodescope.ops.dependence`
            knows for the op, or else for its family.
        role, writes: Role and writes of its nodes.
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
    flops: Callable[[tuple[Operand, ...], TensorSpec, dict[str, Any]], int] = no_flops
    c: str = ""
    reads: str = ""

    special: bool = field(init=False, default=False)
    """Whether the tape has to do more than call a rule per input."""

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
    """The name of an input, which is also the key of a Python scalar operand in `Node.attrs`."""
    return op.ports[port] if port < len(op.ports) else f"x{port}"
