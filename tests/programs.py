"""Random programs as data: drawn once, run with any library, differentiated by all inputs.

A program is a list of steps. Each step names an operation, its operands (earlier values) and its
attributes; a table per library implements the operations.

Invariant: programs are smooth at their inputs, and their values are small: every value has a bound,
and operations are kept away from their poles and kinks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import nodescope as ns

Shape = tuple[int, ...]
Table = dict[str, Callable[..., Any]]

SIZES = (1, 2, 3)
LARGE = 30.0


@dataclass(frozen=True)
class Step:
    """One operation.

    Attributes:
        op: Its name in the tables.
        args: The numbers of its operands; inputs come first, then each step's result.
        attrs: Its attributes.
    """

    op: str
    args: tuple[int, ...]
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """Inputs and steps; the loss is a weighted sum of all results that no step uses."""

    seed: int
    inputs: tuple[Shape, ...]
    steps: tuple[Step, ...]

    def arrays(self) -> list[np.ndarray[Any, Any]]:
        """The inputs: float64, within (-1, 1)."""
        rng = np.random.default_rng(self.seed)
        return [rng.uniform(-1.0, 1.0, shape) for shape in self.inputs]

    def loss(self, table: Table, inputs: list[Any]) -> Any:
        """Run it with a library.

        Args:
            table: How the library does each operation.
            inputs: `arrays` as the library's own arrays.
        """
        values = list(inputs)
        for step in self.steps:
            values.append(table[step.op](*(values[arg] for arg in step.args), **step.attrs))
        used = {arg for step in self.steps for arg in step.args}
        rng = np.random.default_rng(self.seed + 1)
        total: Any = 0.0
        for number, value in enumerate(values):
            if number not in used:
                weights = table["constant"](rng.uniform(0.5, 1.5, tuple(value.shape)))
                total = table["sum"](value * weights, axis=None, keepdims=False) + total
        return total


def noise(seed: int, shape: Shape) -> np.ndarray[Any, Any]:
    """Distinct constants that separate equal values, at which a maximum would have a kink."""
    return np.random.default_rng(seed).uniform(-1.0, 1.0, shape)


class _Drawing:
    """A program that is being drawn."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.shapes: list[Shape] = []
        self.bounds: list[float] = []
        self.steps: list[Step] = []

    def pick(self, *, ndim: int = 0) -> int:
        """A value with at least that many dimensions, mostly a recent one."""
        able = [i for i, shape in enumerate(self.shapes) if len(shape) >= ndim]
        if not able:
            return self.reshaped(ndim)
        return able[-1] if self.draw(st.booleans()) else self.draw(st.sampled_from(able))

    def reshaped(self, ndim: int) -> int:
        value = len(self.shapes) - 1
        size = int(np.prod(self.shapes[value]))
        return self.add("reshape", (value,), (size, *(1,) * (ndim - 1)), self.bounds[value])

    def add(self, op: str, args: tuple[int, ...], shape: Shape, bound: float, **attrs: Any) -> int:
        if op in ("reshape", "broadcast_to"):
            attrs["shape"] = shape
        self.steps.append(Step(op, args, attrs))
        self.shapes.append(shape)
        self.bounds.append(bound)
        if bound > LARGE:
            return self.add("tanh", (len(self.shapes) - 1,), shape, 1.0)
        return len(self.shapes) - 1

    def seed(self) -> int:
        return int(self.draw(st.integers(0, 2**20)))

    def axis(self, value: int) -> int:
        ndim = len(self.shapes[value])
        return int(self.draw(st.integers(-ndim, ndim - 1)))

    def fitting(self, value: int) -> int:
        """A value that broadcasts with another; a new one if there is none."""
        shape = self.shapes[value]
        able = [i for i, other in enumerate(self.shapes) if _broadcast(shape, other) is not None]
        return int(self.draw(st.sampled_from(able)))


def _broadcast(first: Shape, other: Shape) -> Shape | None:
    try:
        return np.broadcast_shapes(first, other)
    except ValueError:
        return None


UNARY: dict[str, Callable[[float], float]] = {
    "negative": lambda b: b, "sin": lambda b: 1.0, "cos": lambda b: 1.0, "tanh": lambda b: 1.0,
    "sigmoid": lambda b: 1.0, "square": lambda b: b * b, "softplus": lambda b: b + 1,
    "arctan": lambda b: 1.6, "silu": lambda b: b, "erf_like": lambda b: 1.0,
}  # fmt: skip
POSITIVE = {
    "sqrt": lambda b: b,
    "log": lambda b: b,
    "power": lambda b: b**1.5,
    "reciprocal": lambda b: 1.0,
}
KINKED = {"relu": lambda b: b, "abs": lambda b: b, "clip": lambda b: 1.0}
BINARY: dict[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b, "subtract": lambda a, b: a + b, "multiply": lambda a, b: a * b,
}  # fmt: skip


def _unary(d: _Drawing) -> None:
    x, op = d.pick(), d.draw(st.sampled_from(sorted(UNARY)))
    d.add(op, (x,), d.shapes[x], UNARY[op](d.bounds[x]))


def _exp(d: _Drawing) -> None:
    x = d.pick()
    if d.bounds[x] > 3.0:
        x = d.add("tanh", (x,), d.shapes[x], 1.0)
    d.add("exp", (x,), d.shapes[x], float(np.exp(d.bounds[x])))


def _positive(d: _Drawing) -> None:
    x, op = d.pick(), d.draw(st.sampled_from(sorted(POSITIVE)))
    by = d.bounds[x] + 1.0
    d.add(op, (x,), d.shapes[x], POSITIVE[op](d.bounds[x] + by), by=by)


def _kinked(d: _Drawing) -> None:
    x, op = d.pick(), d.draw(st.sampled_from(sorted(KINKED)))
    apart = noise(d.seed(), d.shapes[x])
    d.add(op, (x,), d.shapes[x], KINKED[op](d.bounds[x] + 1.0), apart=apart)


def _binary(d: _Drawing) -> None:
    x = d.pick()
    y, op = d.fitting(x), d.draw(st.sampled_from(sorted(BINARY)))
    shape = np.broadcast_shapes(d.shapes[x], d.shapes[y])
    d.add(op, (x, y), shape, BINARY[op](d.bounds[x], d.bounds[y]))


def _divide(d: _Drawing) -> None:
    x = d.pick()
    y = d.fitting(x)
    shape = np.broadcast_shapes(d.shapes[x], d.shapes[y])
    d.add("divide", (x, y), shape, d.bounds[x], by=d.bounds[y] + 1.0)


def _choose(d: _Drawing) -> None:
    x = d.pick()
    y = d.fitting(x)
    shape = np.broadcast_shapes(d.shapes[x], d.shapes[y])
    bound = max(d.bounds[x], d.bounds[y]) + 1.0
    op = d.draw(st.sampled_from(["maximum", "minimum", "where"]))
    d.add(op, (x, y), shape, bound, apart=noise(d.seed(), shape))


def _matmul(d: _Drawing) -> None:
    x = d.pick(ndim=2)
    shape, inner = d.shapes[x], d.shapes[x][-1]
    able = [
        i for i, other in enumerate(d.shapes)
        if len(other) >= 2 and other[-2] == inner and _broadcast(shape[:-2], other[:-2]) is not None
    ]  # fmt: skip
    if able:
        y = d.draw(st.sampled_from(able))
    else:
        axes = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
        turned = tuple(shape[i] for i in axes)
        y = d.add("transpose", (x,), turned, d.bounds[x], axes=axes)
    other = d.shapes[y]
    batch = np.broadcast_shapes(shape[:-2], other[:-2])
    bound = inner * d.bounds[x] * d.bounds[y]
    d.add("matmul", (x, y), (*batch, shape[-2], other[-1]), bound)


def _reduce(d: _Drawing) -> None:
    x = d.pick()
    op = d.draw(st.sampled_from(["sum", "mean", "max", "min", "logsumexp", "var"]))
    shape, ndim = d.shapes[x], len(d.shapes[x])
    axis = None
    if ndim and d.draw(st.booleans()):
        axis = d.axis(x)
    keepdims = d.draw(st.booleans())
    reduced_axes = set(range(ndim)) if axis is None else {axis % ndim}
    kept = tuple(
        1 if i in reduced_axes else n
        for i, n in enumerate(shape)
        if keepdims or i not in reduced_axes
    )
    count = int(np.prod([shape[i] for i in reduced_axes]))
    bound = d.bounds[x] + 3.0
    attrs: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    if op in ("max", "min"):
        attrs["apart"] = noise(d.seed(), shape)
    bound = {"sum": count * d.bounds[x], "var": bound * bound}.get(op, bound)
    d.add(op, (x,), kept, bound, **attrs)


def _softmax(d: _Drawing) -> None:
    x = d.pick(ndim=1)
    op = d.draw(st.sampled_from(["softmax", "log_softmax", "cumsum"]))
    bound = {"softmax": 1.0, "cumsum": 3.0**3 * d.bounds[x]}.get(op, 2 * d.bounds[x] + 3.0)
    d.add(op, (x,), d.shapes[x], bound, axis=d.axis(x))


def _layout(d: _Drawing) -> None:
    x = d.pick(ndim=1)
    shape = d.shapes[x]
    op = d.draw(st.sampled_from(["reshape", "transpose", "flip", "broadcast_to", "expand", "flat"]))
    bound = d.bounds[x]
    if op == "reshape":
        size = int(np.prod(shape))
        first = d.draw(st.sampled_from([n for n in (1, 2, 3, size) if size % n == 0]))
        d.add(op, (x,), (first, size // first), bound)
    elif op == "transpose":
        axes = tuple(d.draw(st.permutations(range(len(shape)))))
        d.add(op, (x,), tuple(shape[i] for i in axes), bound, axes=axes)
    elif op == "flip":
        d.add(op, (x,), shape, bound, axis=d.axis(x) % len(shape))
    elif op == "expand":
        axis = d.draw(st.integers(0, len(shape)))
        d.add("reshape", (x,), (*shape[:axis], 1, *shape[axis:]), bound)
    elif op == "flat" or len(shape) > 2:
        d.add("reshape", (x,), (int(np.prod(shape)),), bound)
    else:
        d.add("broadcast_to", (x,), (2, *shape), bound)


def _index(d: _Drawing) -> None:
    x = d.pick(ndim=1)
    shape = d.shapes[x]
    op = d.draw(st.sampled_from(["slice", "row", "take", "along"]))
    axis = d.axis(x) % len(shape)
    n, bound = shape[axis], d.bounds[x]
    rest = (shape[:axis], shape[axis + 1 :])
    if op == "slice":
        start = d.draw(st.integers(0, n - 1))
        step = d.draw(st.integers(1, 2))
        size = len(range(start, n, step))
        d.add(op, (x,), (*rest[0], size, *rest[1]), bound, axis=axis, start=start, step=step)
    elif op == "row":
        d.add(op, (x,), (*rest[0], *rest[1]), bound, axis=axis, at=d.draw(st.integers(0, n - 1)))
    elif op == "take":  # Indices may repeat.
        at = d.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=4))
        d.add(op, (x,), (*rest[0], len(at), *rest[1]), bound, axis=axis, at=np.array(at))
    else:
        count = d.draw(st.integers(1, 3))
        at = np.random.default_rng(d.seed()).integers(0, n, (*rest[0], count, *rest[1]))
        d.add(op, (x,), at.shape, bound, axis=axis, at=at)


def _join(d: _Drawing) -> None:
    x = d.pick(ndim=1)
    same = [i for i, shape in enumerate(d.shapes) if shape == d.shapes[x]]
    parts = (x, *d.draw(st.lists(st.sampled_from(same), min_size=1, max_size=2)))
    axis, shape = d.axis(x) % len(d.shapes[x]), d.shapes[x]
    bound = max(d.bounds[i] for i in parts)
    if len(shape) < 3 and d.draw(st.booleans()):
        d.add("stack", parts, (*shape[:axis], len(parts), *shape[axis:]), bound, axis=axis)
    elif shape[axis] * len(parts) <= 9:
        joined = (*shape[:axis], shape[axis] * len(parts), *shape[axis + 1 :])
        d.add("concatenate", parts, joined, bound, axis=axis)
    else:
        d.add("tanh", (x,), shape, 1.0)


KINDS: list[Callable[[_Drawing], None]] = [
    _unary, _exp, _positive, _kinked, _binary, _binary, _divide, _choose, _matmul, _matmul,
    _reduce, _reduce, _softmax, _layout, _layout, _index, _join,
]  # fmt: skip


@st.composite
def programs(draw: Any) -> Program:
    """Programs of 5 to 30 operations on one to three inputs of up to three dimensions."""
    d = _Drawing(draw)
    inputs = draw(
        st.lists(st.lists(st.sampled_from(SIZES), max_size=3).map(tuple), min_size=1, max_size=3)
    )
    for shape in inputs:
        d.shapes.append(shape)
        d.bounds.append(1.0)
    length = draw(st.integers(5, 28))
    while len(d.steps) < length:
        draw(st.sampled_from(KINDS))(d)
    return Program(draw(st.integers(0, 2**20)), tuple(inputs), tuple(d.steps[:30]))


PARTS = range(10)
"""The parts of a comparison, each within the time limit of a test."""


def for_each_program(part: int, check: Callable[[Program], None]) -> None:
    """Call ``check`` with 50 programs, which differ by part and are always the same."""

    @seed(part)
    @settings(
        max_examples=50, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(programs())
    def checked(program: Program) -> None:
        check(program)

    checked()


# nodescope


def _along(axis: int, at: Any) -> tuple[Any, ...]:
    return (*(slice(None),) * axis, at)


OURS: Table = {
    "constant": lambda a: a,
    "negative": lambda x: -x, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "exp": np.exp,
    "sigmoid": ns.sigmoid, "square": np.square, "softplus": ns.softplus, "arctan": np.arctan,
    "silu": ns.silu, "erf_like": lambda x: np.tanh(x * (1.0 + 0.1 * x * x)),
    "sqrt": lambda x, by: np.sqrt(x + by), "log": lambda x, by: np.log(x + by),
    "power": lambda x, by: (x + by) ** 1.5, "reciprocal": lambda x, by: 1.0 / (x + by),
    "relu": lambda x, apart: ns.relu(x + apart), "abs": lambda x, apart: np.abs(x + apart),
    "clip": lambda x, apart: np.clip(x + apart, -1.0, 1.0),
    "add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "multiply": lambda x, y: x * y,
    "divide": lambda x, y, by: x / (y + by),
    "maximum": lambda x, y, apart: np.maximum(x + apart, y),
    "minimum": lambda x, y, apart: np.minimum(x + apart, y),
    "where": lambda x, y, apart: np.where(apart > 0, x + apart, y),
    "matmul": lambda x, y: x @ y,
    "sum": lambda x, **how: np.sum(x, **how), "mean": lambda x, **how: np.mean(x, **how),
    "var": lambda x, **how: np.var(x, **how),
    "max": lambda x, apart, **how: np.max(x + apart, **how),
    "min": lambda x, apart, **how: np.min(x + apart, **how),
    "logsumexp": lambda x, **how: ns.logsumexp(x, **how),
    "softmax": ns.softmax, "log_softmax": ns.log_softmax,
    "cumsum": lambda x, axis: np.cumsum(x, axis),
    "reshape": lambda x, shape: x.reshape(shape),
    "broadcast_to": lambda x, shape: np.broadcast_to(x, shape),
    "transpose": lambda x, axes: np.transpose(x, axes), "flip": lambda x, axis: np.flip(x, axis),
    "slice": lambda x, axis, start, step: x[_along(axis, slice(start, None, step))],
    "row": lambda x, axis, at: x[_along(axis, at)],
    "take": lambda x, axis, at: np.take(x, at, axis=axis),
    "along": lambda x, axis, at: np.take_along_axis(x, at, axis),
    "concatenate": lambda *x, axis: np.concatenate(x, axis),
    "stack": lambda *x, axis: np.stack(x, axis),
}  # fmt: skip


def our_gradients(program: Program) -> tuple[float, list[np.ndarray[Any, Any]]]:
    """Value and gradients, computed by nodescope's engine."""
    inputs = [ns.tensor(array, requires_grad=True) for array in program.arrays()]
    loss = program.loss(OURS, inputs)
    loss.backward()
    results = [np.zeros(x.shape) if x.grad is None else x.grad.numpy() for x in inputs]
    return loss.item(), results


def check_close(program: Program, value: float, gradients: list[np.ndarray[Any, Any]]) -> None:
    """Compare with another library's value and gradients, to 1e-9 of the largest gradient."""
    ours, result = our_gradients(program)
    np.testing.assert_allclose(ours, value, rtol=1e-9, atol=1e-12)
    scale = max(
        [float(np.abs(gradient).max()) for gradient in gradients if gradient.size], default=0.0
    )
    for first, other in zip(result, gradients, strict=True):
        assert first.shape == other.shape
        np.testing.assert_allclose(first, other, rtol=0.0, atol=1e-9 * scale + 1e-13)
