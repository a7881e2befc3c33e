"""An assumption of the back end numpy: a ufunc gives each element the same bits in all these cases.

It runs over all elements or tile by tile, into other memory or over an operand, with a Python
number or the same number as a scalar of the dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nodescope import ops
from nodescope.engine.codegen.numpy_backend.steps import ProgramArray, boxed
from tests.parts import in_parts

UFUNCS = {
    op.name: op.impl for op in ops.all_ops()
    if isinstance(op.impl, np.ufunc) and op.impl.signature is None and op.impl.nout == 1
} | {"tanh": np.tanh}  # fmt: skip
DTYPES = [
    "float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool", "complex64",
    "complex128",
]  # fmt: skip
PAIRS = [(name, dtype) for name in sorted(UFUNCS) for dtype in DTYPES]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 1.0, -1.0, 0.5, 89.0, 710.0, 1e6, 1e15]


def defined(name: str, dtype: str) -> bool:
    """Whether a ufunc has a loop for operands of a dtype."""
    ufunc = UFUNCS[name]
    try:
        with np.errstate(all="ignore"):
            ufunc(*[np.ones(1, dtype)] * ufunc.nin)
    except TypeError:
        return False
    return True


def drawn(dtype: str, size: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.random(size) > 0.5
    if kind in "iu":
        return rng.integers(0, 100, size).astype(dtype)
    if kind == "c":
        return (drawn("float64", size, seed) + 1j * drawn("float64", size, seed + 9)).astype(dtype)
    result = rng.standard_normal(size) * 10.0 ** rng.integers(-6, 7, size)
    at = rng.random(size) < 0.02
    result[at] = rng.choice(SPECIAL, at.sum())
    return result.astype(dtype)


def equal(first: Any, other: Any) -> bool:
    """Whether bits are equal, but for what is inside of a NaN."""
    if first.dtype != other.dtype or first.shape != other.shape:
        return False
    if first.dtype.kind == "c":
        return equal(first.real, other.real) and equal(first.imag, other.imag)
    if first.dtype.kind != "f":
        return bool(np.array_equal(first, other))
    both = np.isnan(first) & np.isnan(other)
    return bool(np.all(both | ((first == other) & (np.signbit(first) == np.signbit(other)))))


@in_parts(8)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "dtype"), [p for p in PAIRS if defined(*p)])
def test_pieces_and_places_change_no_bit(name: str, dtype: str) -> None:
    ufunc, size = UFUNCS[name], 20_013
    operands = [drawn(dtype, size, seed) for seed in range(ufunc.nin)]
    with np.errstate(all="ignore"):
        whole = ufunc(*operands)
        for tile in (4096, 64 * 7):
            parts, scratch = np.empty_like(whole), np.empty(tile, whole.dtype)
            for i in range(0, size, tile):
                cut = [value[i : i + tile] for value in operands]
                ufunc(*cut, out=scratch[: len(cut[0])])
                parts[i : i + tile] = scratch[: len(cut[0])]
            assert equal(parts, whole)
        for port, value in enumerate(operands):
            if value.dtype == whole.dtype:
                given = list(operands)
                given[port] = over = value.copy()
                ufunc(*given, out=over)
                assert equal(over, whole)


@in_parts(4)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(n for n, u in UFUNCS.items() if u.nin == 2))
def test_a_boxed_number_promotes_as_the_number(name: str, dtype: str) -> None:
    ufunc, x = UFUNCS[name], drawn(dtype, 257, 0)
    for number in (2, 0, -3, 0.5, -0.0, 1e6, 1e300, float("inf"), float("nan"), True, 1 << 40):
        for args in ((x, number), (number, x)):
            values = tuple(ProgramArray(1, e, None, None) if e is x else e for e in args)
            inputs = [x if e.__class__ is ProgramArray else e for e in boxed(ufunc, values)]
            with np.errstate(all="ignore"):
                outcomes = []
                for item in (args, inputs):
                    try:
                        outcomes.append(ufunc(*item))
                    except (TypeError, ValueError, OverflowError) as refused:
                        outcomes.append(type(refused))
            if isinstance(outcomes[0], type):
                assert outcomes[0] is outcomes[1]
            else:
                assert equal(*outcomes), (args[1], inputs)
