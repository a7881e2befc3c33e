"""Inputs for ops: drawn shapes, layouts and values for elementwise ops, samples for the others.

Invariant: every registered op gets cases from here; an op that gets none fails its test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from nodescope.ir.graph import TensorSpec
from nodescope.ops.op import Op, Sample

LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "contiguous": lambda a: a,
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "reversed": lambda a: np.asarray(np.flip(np.flip(a).copy())),
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2] if a.ndim else a,
}
INTEGER_ONLY = {"bitwise_and", "bitwise_or", "bitwise_xor", "invert"}


@st.composite
def shapes(draw: Any, count: int) -> list[tuple[int, ...]]:
    """Shapes that broadcast: sizes 0 and 1 and missing dimensions included."""
    full = draw(st.lists(st.integers(0, 3), max_size=3))
    found = []
    for _ in range(count):
        keep = draw(st.integers(0, len(full)))
        shape = tuple(full[len(full) - keep :])
        found.append(tuple(1 if draw(st.booleans()) else n for n in shape))
    return found


@st.composite
def elementwise(draw: Any, op: Op) -> Sample:
    """A call of an elementwise op."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    low, high = op.domain
    inputs: list[Any] = []
    for port, shape in zip(op.ports, draw(shapes(len(op.ports))), strict=True):
        if port == "condition":
            array = rng.random(shape) > 0.5
        elif op.name in INTEGER_ONLY:
            array = rng.integers(0, 8, shape)
        else:
            array = rng.uniform(low, high, shape)
        inputs.append(LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))](np.asarray(array)))
    if len(op.ports) == 2 and draw(st.integers(0, 3)) == 0:
        scalar = rng.uniform(low, high)
        inputs[draw(st.integers(0, 1))] = 3 if op.name in INTEGER_ONLY else float(scalar)
    return Sample(tuple(inputs), {})


def samples(op: Op) -> list[Sample]:
    """The op's own samples, in every layout."""
    rng = np.random.default_rng(5)
    found = []
    for sample in op.samples(rng):
        for layout in LAYOUTS.values():
            inputs = tuple(layout(x) if isinstance(x, np.ndarray) else x for x in sample.inputs)
            found.append(Sample(inputs, sample.attrs))
    return found


def specs(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """What `infer` sees of inputs."""
    return tuple(
        TensorSpec(x.shape, x.dtype.name) if isinstance(x, np.ndarray) else x for x in inputs
    )
