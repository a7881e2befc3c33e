"""Traits: numerical properties of ops by canonical name, for every library.

Nodes of other libraries have the traits of the op with their canonical name; unknown names have no
traits.

Invariant: data only; nothing here executes ops.
"""

from __future__ import annotations

import math
from typing import Final, Literal, NamedTuple

Ranking = Literal["size", "exp", "factor", "picks", "first", ""]
Zeros = Literal["any", "all", "first", ""]
State = Literal["reads", "replaces", "changes", ""]
Effect = Literal[
    "adds", "clips", "rounds", "selects", "prefers", "tests", "repairs", "oscillates", "begins",
]  # fmt: skip


class Domain(NamedTuple):
    """The numbers for which an op is defined; for others, the result is NaN.

    Attributes:
        low, high: The bounds, which are included.
        text: Its description in messages.
    """

    low: float
    high: float
    text: str


class Traits(NamedTuple):
    """Numerical properties of an op.

    Attributes:
        reads: Which elements of its inputs an element depends on: a kind of
            `nodescope.ops.reading`; ``""`` if its family determines the kind.
        ranking: How operands are ranked by importance: by ``size``, by ``exp``, as a ``factor`` by
            the distance from one; the one that the op ``picks``; or the ``first``, which the others
            only modify. ``""`` ranks by the share in a sum, else by size.
        zeros: Whether the result is zero where ``any`` operand, ``all`` of them or the ``first``
            is.
        domain: The domain outside of which the result is NaN.
        pole: The point where the result is infinite, and below which it is NaN.
        effects: ``adds`` its operands up; ``clips`` or ``rounds`` them, which may make them zero;
            ``selects`` elements by position, or ``prefers`` an operand by its size; ``tests`` them,
            and so never returns NaN or Inf; ``repairs`` NaN; ``oscillates``, and so has no limit;
            ``begins`` a backward pass: it returns ones, whatever its operand.
        state: Whether it ``reads`` a variable when it runs, ``replaces`` its value by the last
            operand, or ``changes`` it by that.
    """

    reads: str = ""
    ranking: Ranking = ""
    zeros: Zeros = ""
    domain: Domain | None = None
    pole: float | None = None
    effects: frozenset[Effect] = frozenset()
    state: State = ""

    @property
    def updates(self) -> bool:
        """Whether it writes to a variable."""
        return self.state in ("replaces", "changes")


_READS: Final[dict[str, str]] = {
    "nothing": "zeros_like ones_like",
    "chosen": "where choose dropout",
    "replaced": "assign",
    "elementwise": "astype gelu_grad real imag conjugate",
    "local": "prelu",
    "linear": "index_add add_along_axis embedding_grad",
    "along": "any all argmax argmin nanargmax nanargmin argsort argpartition",
    "extreme": "max min",
    "ordered": "sort",
    "winner": "cummax cummin max_pool1d max_pool2d adaptive_max_pool1d adaptive_max_pool2d",
    "given": "max_pool1d_grad max_pool2d_grad max_pool1d_pick max_pool2d_pick"
    " adaptive_max_pool1d_grad adaptive_max_pool2d_grad adaptive_max_pool1d_pick"
    " adaptive_max_pool2d_pick",
    "product": "prod",
    "smooth": "var std logsumexp vector_norm cumprod fft ifft rfft irfft",
    "solved": "solve solve_triangular",
    "matrices": "inv det slogdet cholesky qr svd svdvals eigh eigvalsh eig eigvals pinv",
    "everything": "nonzero argwhere unique unique_all searchsorted lexsort bincount histogram"
    " histogram_bin_edges lstsq receive send no_op",
    "branch": "cond",
}
_RANKING: Final[dict[Ranking, str]] = {
    "size": "add subtract",
    "exp": "softmax log_softmax logsumexp logaddexp logaddexp2",
    "factor": "multiply divide power float_power",
    "picks": "maximum minimum fmax fmin",
    "first": "remainder fmod copysign heaviside ldexp nextafter left_shift right_shift",
}
_ZEROS: Final[dict[Zeros, str]] = {
    "any": "multiply sqrt square abs fabs negative positive sin tan tanh relu where astype copy"
    " assign expm1 log1p arcsin arctan keep dropout clip maximum minimum cbrt leaky_relu gelu silu"
    " erf logical_and bitwise_and all cumprod lcm",
    "all": "logical_or bitwise_or logical_xor bitwise_xor any hypot vector_norm",
    "first": "divide power float_power floor_divide remainder fmod",
}
_EFFECTS: Final[dict[Effect, str]] = {
    "adds": "sum mean matmul add subtract einsum cumsum vecdot matvec",
    "clips": "relu relu6 hardtanh hardsigmoid hardswish clip maximum minimum",
    "rounds": "floor ceil rint trunc round floor_divide remainder fmod sign heaviside",
    "selects": "where choose dropout getitem take_along_axis embedding",
    "prefers": "maximum minimum fmax fmin clip",
    "tests": "isnan isinf isfinite greater less equal greater_equal less_equal not_equal sign"
    " argmax argmin",
    "repairs": "nan_to_num",
    "oscillates": "sin cos tan",
    "begins": "ones_like",
}
_STATE: Final[dict[State, str]] = {
    "reads": "read",
    "replaces": "assign",
    "changes": "assign_add assign_sub",
}
_UNIT: Final = Domain(-1.0, 1.0, "[-1, 1]")
_DOMAINS: Final[dict[str, Domain]] = {
    "arcsin": _UNIT, "arccos": _UNIT, "arctanh": _UNIT,
    "arccosh": Domain(1.0, math.inf, "[1, inf]"),
}  # fmt: skip
_POLES: Final[dict[str, float]] = {"log": 0.0, "log2": 0.0, "log10": 0.0, "log1p": -1.0}
_UNKNOWN: Final = Traits()


def _table() -> dict[str, Traits]:
    reads = {name: kind for kind, names in _READS.items() for name in names.split()}
    ranking = {name: kind for kind, names in _RANKING.items() for name in names.split()}
    zeros = {name: kind for kind, names in _ZEROS.items() for name in names.split()}
    state = {name: kind for kind, names in _STATE.items() for name in names.split()}
    effects: dict[str, frozenset[Effect]] = {}
    for effect, names in _EFFECTS.items():
        for name in names.split():
            effects[name] = effects.get(name, frozenset()) | {effect}
    return {
        name: Traits(
            reads.get(name, ""), ranking.get(name, ""), zeros.get(name, ""), _DOMAINS.get(name),
            _POLES.get(name), effects.get(name, frozenset()), state.get(name, ""),
        )
        for name in (*reads, *ranking, *zeros, *effects, *_DOMAINS, *_POLES, *state)
    }  # fmt: skip


_TRAITS: Final = _table()


def traits_of(op: str) -> Traits:
    """The traits of an op; default ones if the name is unknown."""
    return _TRAITS.get(op, _UNKNOWN)


def with_state(*kinds: State) -> tuple[str, ...]:
    """The names of ops that use variables in one of these ways."""
    return tuple(name for name, traits in _TRAITS.items() if traits.state in kinds)


def names() -> frozenset[str]:
    """All names with known traits."""
    return frozenset(_TRAITS)
