"""Access to Python from C: arrays by their fields, products by NumPy's BLAS."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import numpy as np
import pytest

from nodescope.engine.codegen.c_backend import arrays, blas, toolchain
from nodescope.engine.codegen.c_backend.prelude import FUNCTIONS, complete, needs

FIELDS = (
    arrays.SNIPPET
    + """
NS_EXPORT void fields(void *tuple, void *list, i64 *out) {
  i64 n = ns_items(tuple), *o = out;
  *o++ = n == ns_items(list);
  for (i64 i = 0; i < n; i++) {
    void *array = ns_item(tuple, i);
    *o++ = array == ns_list_item(list, i);
    *o++ = (i64)ns_array_data(array);
    *o++ = ns_array_contiguous(array);
    *o++ = ns_array_rank(array);
    for (int d = 0; d < ns_array_rank(array); d++) {
      *o++ = ns_array_shape(array)[d];
      *o++ = ns_array_strides(array)[d];
    }
  }
}
NS_EXPORT f64 number(void *tuple) { return ns_python_float(ns_item(tuple, 1)); }
"""
)


def library(text: str) -> toolchain.Library:
    # The snippet needs the definitions of the C prelude.
    return toolchain.build(complete(text))


def test_c_reads_the_fields_of_arrays() -> None:
    assert arrays.missing() == ""
    base = np.arange(60.0).reshape(3, 4, 5)
    inputs = (base, base[::2, :, ::-1], base.T, np.ones(3, np.float32), np.array(1.5),
             np.empty((0, 2), np.int8), np.frombuffer(b"\0" * 17, np.int32, 4, 1))  # fmt: skip
    out = np.zeros(100, np.int64)
    wanted = [1]
    for array in inputs:
        flags = array.flags
        wanted += [1, array.ctypes.data, int(flags.c_contiguous and flags.aligned), array.ndim]
        for size, stride in zip(array.shape, array.strides, strict=True):
            wanted += [size, stride]
    run = library(FIELDS).function(
        "fields", ctypes.py_object, ctypes.py_object, ctypes.c_void_p, locked=True
    )
    run(inputs, list(inputs), out.ctypes.data)
    assert out[: len(wanted)].tolist() == wanted


def test_c_reads_python_numbers() -> None:
    number = library(FIELDS).function(
        "number", ctypes.py_object, result=ctypes.c_double, locked=True
    )
    for value in (0.1, -0.0, float("inf"), 1e-310):
        assert np.float64(number((None, value))).tobytes() == np.float64(value).tobytes()


def test_an_unknown_layout_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "_TUPLE", arrays._TUPLE - 8)
    arrays.missing.cache_clear()
    try:
        assert "an unknown layout" in arrays.missing()
    finally:
        monkeypatch.undo()
        arrays.missing.cache_clear()
    assert arrays.missing() == ""


GEMM = """
typedef NS_INTEGER whole;
typedef void (*sgemm)(int, int, int, whole, whole, whole, NS_FLOAT, const void *, whole,
                      const void *, whole, NS_FLOAT, void *, whole);
NS_EXPORT void product(void *gemm, const void *a, const void *b, void *y, i64 m, i64 n, i64 k) {
  ((sgemm)gemm)(101, 111, 111, m, n, k, 1, a, k, b, n, 0, y, n);
}
"""


@pytest.mark.parametrize(("dtype", "kind"), [("float32", "f32"), ("float64", "f64")])
def test_c_multiplies_by_the_blas_of_numpy(dtype: str, kind: str) -> None:
    result = blas.gemm(dtype)
    assert result is not None, blas.missing(dtype)
    rng = np.random.default_rng(0)
    a = rng.standard_normal((37, 129)).astype(dtype)
    b = rng.standard_normal((129, 70)).astype(dtype)
    y = np.empty((37, 70), dtype)
    text = GEMM.replace("NS_INTEGER", f"i{result.bits}").replace("NS_FLOAT", kind)
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    run = library(text).function("product", *[pointer] * 4, *[integer] * 3)
    run(result.address, a.ctypes.data, b.ctypes.data, y.ctypes.data, 37, 70, 129)
    assert np.array_equal(y, a @ b)  # Both call the same function.


def test_a_blas_that_multiplies_otherwise_is_refused() -> None:
    wrong = toolchain.build(complete("NS_EXPORT void nothing(void) {}\n")).handle.nothing
    assert not blas._test_gemm(wrong, ctypes.c_int64, "float32")
    assert not blas._test_gemv(wrong, ctypes.c_int64, "float64")
    assert blas.gemm("int32") is None
    assert "int32" in blas.missing("int32")
    assert blas._symbol("gemv", "float64")[0] is not None


def test_a_build_without_a_blas_says_so() -> None:
    code = (
        "from nodescope.engine.codegen.c_backend import blas\n"
        "import math\n"
        "blas._extension = lambda: __import__('_ctypes').__file__\n"
        "print(blas.gemm('float32'), blas.missing())"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100,
        env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert result.stdout.strip() == "None the BLAS of NumPy exports no sgemm"


def test_a_text_gets_what_it_calls_and_no_more() -> None:
    text = complete("f32 f(f32 x) { return ns_tanh_f32(x); }")
    assert text.index("ns_expm1_near_f32(") < text.index("ns_tanh_f32(")
    assert "ns_log_f32" not in text
    assert "simd" not in text
    assert "simd" in complete("f32 f(f32 x) { return ns_sin_f32(x); }")
    assert needs("ns_tanh_f32")[-1] == "ns_tanh_f32"
    assert {"ns_maximum_i8", "ns_where_b8", "ns_gcd_u64", "ns_now"} <= FUNCTIONS
