"""The BLAS that NumPy itself is linked with, as addresses for C.

Its functions are found by name among the dependencies of NumPy's own extension module, so that
every kind of build is covered and the library is never loaded twice.

Invariant: an address is returned only after its function has multiplied correctly, as `np.matmul`
does.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

_LETTERS = {"float32": "s", "float64": "d"}
_ROWS, _PLAIN, _TURNED = 101, 111, 112  # of CBLAS: row-major, not transposed, transposed


class Function(NamedTuple):
    """A CBLAS function.

    Attributes:
        address: Its address.
        bits: 32 or 64: the size of its integers (dimensions, strides; enumerations are C's int).
    """

    address: int
    bits: int


def gemm(dtype: str) -> Function | None:
    """``cblas_sgemm`` or ``cblas_dgemm``; None if there is none: `missing` says why."""
    return _symbol("gemm", dtype)[0]


def missing(dtype: str = "float32") -> str:
    """Why products cannot be computed from C, or ``""``."""
    return _symbol("gemm", dtype)[1] or _symbol("gemv", dtype)[1]


@cache
def _symbol(name: str, dtype: str) -> tuple[Function | None, str]:
    letter = _LETTERS.get(dtype)
    if letter is None:
        return None, f"no BLAS for {dtype}"
    wrong = ""
    for symbol, bits in _named(f"{letter}{name}"):
        kind = ctypes.c_int64 if bits == 64 else ctypes.c_int32
        test = _test_gemm if name == "gemm" else _test_gemv
        if test(symbol, kind, dtype):
            address = ctypes.cast(symbol, ctypes.c_void_p).value
            assert address is not None
            return Function(address, bits), ""
        wrong = f"the BLAS of NumPy has a {letter}{name} that multiplies differently"
    return None, wrong or f"the BLAS of NumPy exports no {letter}{name}"


def _named(name: str) -> Iterator[tuple[Any, int]]:
    """Candidate functions by name, with the size of their integers."""
    try:
        library = ctypes.CDLL(_extension())
    except OSError:
        return
    for pattern, bits in (
        ("scipy_cblas_{}64_", 64), ("cblas_{}64_", 64), ("cblas_{}_64", 64),
        ("cblas_{}$NEWLAPACK$ILP64", 64), ("scipy_cblas_{}", 32), ("cblas_{}", _plain_bits()),
    ):  # fmt: skip
        symbol = getattr(library, pattern.format(name), None)
        if symbol is not None:
            yield symbol, bits


def _extension() -> str:
    return str(importlib.import_module("numpy._core._multiarray_umath").__file__)


def _plain_bits() -> int:
    """The size of integers for names that do not tell it: 64 bits if NumPy's configuration says
    so.
    """
    try:
        build_config = str(np.show_config(mode="dicts"))
    except (TypeError, ValueError):
        return 32
    return 64 if "ilp64" in build_config.lower() or "USE64BITINT" in build_config else 32


def _test_gemm(function: Any, integer: Any, dtype: str) -> bool:
    """Whether a function multiplies parts of matrices, in either order, and adds to existing
    contents.
    """
    number = ctypes.c_float if dtype == "float32" else ctypes.c_double
    pointer, enum = ctypes.c_void_p, ctypes.c_int
    call = ctypes.CFUNCTYPE(
        None, enum, enum, enum, integer, integer, integer, number, pointer, integer, pointer,
        integer, number, pointer, integer,
    )(ctypes.cast(function, pointer).value or 0)  # fmt: skip
    m, n, k = 3, 5, 4
    left = np.arange(m * 7, dtype=dtype).reshape(m, 7)
    right = (np.arange(k * 9, dtype=dtype) % 11).reshape(k, 9)
    for first, second in itertools.product((False, True), repeat=2):
        a = np.ascontiguousarray(left.T) if first else left
        b = np.ascontiguousarray(right.T) if second else right
        out = np.ones((m, 8), dtype)
        call(
            _ROWS, _TURNED if first else _PLAIN, _TURNED if second else _PLAIN, m, n, k, 2.0,
            a.ctypes.data, a.shape[1], b.ctypes.data, b.shape[1], 0.5, out.ctypes.data, 8,
        )  # fmt: skip
        expected = np.ones((m, 8), dtype)
        expected[:, :n] = 2.0 * np.matmul(left[:, :k], right[:, :n]) + 0.5
        if not np.array_equal(out, expected):
            return False
    return True


def _test_gemv(function: Any, integer: Any, dtype: str) -> bool:
    number = ctypes.c_float if dtype == "float32" else ctypes.c_double
    pointer, enum = ctypes.c_void_p, ctypes.c_int
    call = ctypes.CFUNCTYPE(
        None, enum, enum, integer, integer, number, pointer, integer, pointer, integer, number,
        pointer, integer,
    )(ctypes.cast(function, pointer).value or 0)  # fmt: skip
    matrix = np.arange(12, dtype=dtype).reshape(3, 4)
    for turned in (False, True):
        a = matrix.T if turned else matrix
        x, y = np.arange(a.shape[1], dtype=dtype), np.ones(a.shape[0], dtype)
        call(
            _ROWS, _TURNED if turned else _PLAIN, 3, 4, 2.0, matrix.ctypes.data, 4,
            x.ctypes.data, 1, 0.5, y.ctypes.data, 1,
        )  # fmt: skip
        if not np.array_equal(y, 2.0 * np.matmul(a, x) + 0.5):
            return False
    return True
