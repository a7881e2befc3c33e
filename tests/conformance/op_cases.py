"""Inputs for ops: random shapes, layouts, dtypes and values for elementwise ops, else samples.

Invariant: every registered op gets cases from this module; an op without cases fails its test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from nodescope.errors import DtypeError
from nodescope.ir.graph import TensorSpec
from nodescope.ops.op import Op, Sample

LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "contiguous": lambda a: a,
    "transposed": lambda a: np.array(a.T, order="C").T,
    "reversed": lambda a: np.asarray(np.flip(np.flip(a).copy())),
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2] if a.ndim else a,
}
DTYPES = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
    "float32", "float64", "complex64", "complex128",
)  # fmt: skip
INTEGER_PORTS = {("ldexp", 1)}


def infers(op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """The inferred specs as a tuple; None if the op refuses these dtypes."""
    try:
        result = op.infer(specs(inputs), attrs)
    except DtypeError:
        return None
    return result if isinstance(result, tuple) else (result,)


def takes(op: Op, dtype: str) -> bool:
    """Whether an elementwise op is defined for this dtype."""
    inputs = tuple(
        np.zeros(1, "int64" if (op.name, port) in INTEGER_PORTS else dtype)
        for port in range(len(op.ports))
    )
    return infers(op, inputs, {}) is not None


@st.composite
def shapes(draw: Any, count: int) -> list[tuple[int, ...]]:
    """Shapes that broadcast, including sizes 0 and 1 and missing dimensions."""
    full = draw(st.lists(st.integers(0, 3), max_size=3))
    results = []
    for _ in range(count):
        keep = draw(st.integers(0, len(full)))
        shape = tuple(full[len(full) - keep :])
        results.append(tuple(1 if draw(st.booleans()) else n for n in shape))
    return results


def values(op: Op, port: int, shape: tuple[int, ...], rng: np.random.Generator, kind: str) -> Any:
    """Numbers for which the op is smooth."""
    if op.ports[port] == "condition":
        return rng.random(shape) > 0.5
    if kind == "i" or (op.name, port) in INTEGER_PORTS:
        return rng.integers(0, 8, shape)
    real = np.asarray(rng.uniform(*op.domain, shape))
    # Away from the real axis, where most functions have their branch cuts.
    return real + 1j * rng.uniform(0.1, 0.7, shape) if kind == "c" else real


@st.composite
def elementwise(draw: Any, op: Op, kind: str) -> Sample:
    """A call of an elementwise op with integers, floats or complex numbers (``kind`` i, f, c)."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    inputs: list[Any] = []
    for port, shape in enumerate(draw(shapes(len(op.ports)))):
        # Complex and real operands mix.
        this = "f" if kind == "c" and len(op.ports) > 1 and draw(st.integers(0, 3)) == 0 else kind
        array = np.asarray(values(op, port, shape, rng, this))
        inputs.append(LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))](array))
    if len(op.ports) == 2 and draw(st.integers(0, 3)) == 0:
        port = draw(st.integers(0, 1))
        inputs[port] = values(op, port, (), rng, kind).item()
    return Sample(tuple(inputs), {})


@st.composite
def mixed_dtypes(draw: Any, op: Op) -> Sample:
    """A call of an elementwise op with any dtypes and weak scalars, which the op may refuse."""
    inputs: list[Any] = []
    for shape in draw(shapes(len(op.ports))):
        dtype = draw(st.sampled_from(DTYPES))
        inputs.append(np.ones(shape, dtype))
    if len(op.ports) > 1 and draw(st.booleans()):
        inputs[draw(st.integers(0, len(op.ports) - 1))] = draw(st.sampled_from([True, 1, 1.0, 1j]))
    return Sample(tuple(inputs), {})


def samples(op: Op) -> list[Sample]:
    """The op's own samples, in every layout."""
    rng = np.random.default_rng(5)
    results = []
    for sample in op.samples(rng):
        for layout in LAYOUTS.values():
            inputs = tuple(layout(x) if isinstance(x, np.ndarray) else x for x in sample.inputs)
            results.append(Sample(inputs, sample.attrs))
    return results


def converted(sample: Sample, dtype: Any) -> Sample:
    """The sample with its floating arrays in another dtype; complex ones get imaginary parts."""
    rng = np.random.default_rng(7)

    def convert(x: Any) -> Any:
        if not isinstance(x, np.ndarray) or x.dtype.kind not in "fc":
            return x
        if np.dtype(dtype).kind == "c":
            return np.asarray(x + 1j * rng.uniform(0.1, 0.7, x.shape), dtype)
        with np.errstate(all="ignore"):
            return np.asarray(np.abs(x)).astype(dtype)

    return Sample(tuple(convert(x) for x in sample.inputs), sample.attrs)


def specs(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs as `infer` receives them."""
    return tuple(
        TensorSpec(x.shape, x.dtype.name) if isinstance(x, np.ndarray) else x for x in inputs
    )
