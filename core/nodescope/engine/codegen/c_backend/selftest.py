"""Self-test: what a compiler must get right before its output is used.

Invariant: `SOURCE` contains everything that aggressive optimisation gets wrong: NaN, signed zeros,
denormals, wrapping integers, and sums in the order in which they are written.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope.engine.codegen.c_backend.prelude import complete
from nodescope.errors import CompilerError

SOURCE = complete("""
NS_EXPORT void ns_test(const f32 *NS_RESTRICT x, f32 *NS_RESTRICT y, i64 n) {
  for (i64 i = 0; i < n; i++) {
    f32 a = x[i], b = ns_maximum_f32(a, 0), c = ns_tanh_f32(a), d = a + 1e8f;
    y[5 * i] = b, y[5 * i + 1] = c, y[5 * i + 2] = d - 1e8f, y[5 * i + 3] = a * 0.5f;
    y[5 * i + 4] = ns_sin_f32(a);
  }
}
NS_EXPORT i64 ns_test_integers(i32 a, i64 b) { return (i32)(a + 1) < a ? b * 3 : b; }
NS_EXPORT i64 ns_test_clock(void) { return ns_now(); }
NS_EXPORT void ns_test_restore(void) {
#ifdef __SSE__
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() & ~0x8040u);
#endif
}
""")

_GIVEN = (0.0, -0.0, 1.0, -2.5, math.nan, math.inf, -math.inf, 1e-40, 3.0) * 5


def flushes() -> bool:
    """Whether this thread flushes denormals to 0."""
    return bool(np.multiply(np.float32(1e-40), np.float32(1.0)) == 0)


def check(function: Callable[..., Any], flushed: bool) -> None:
    """Run the test of a library.

    Args:
        function: Its `Library.function`.
        flushed: The result of `flushes` before the library was loaded.

    Raises:
        CompilerError: The library computes wrong results.
    """
    if flushes() and not flushed:
        function("ns_test_restore")()
        raise CompilerError("loading code from the C compiler turns off denormals")
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    run = function("ns_test", pointer, pointer, integer)
    samples = np.array(_GIVEN, np.float32)
    results = np.zeros((len(samples), 5), np.float32)
    run(samples.ctypes.data, results.ctypes.data, len(samples))
    with np.errstate(all="ignore"):
        half, big = np.float32(0.5), np.float32(1e8)
        exact = np.stack([np.maximum(samples, 0), (samples + big) - big, samples * half], axis=1)
        close = np.stack([np.tanh(samples), np.sin(samples)], axis=1)
    outputs, bits = results[:, [0, 2, 3]], np.uint32
    same = (outputs.view(bits) == exact.view(bits)) | (np.isnan(outputs) & np.isnan(exact))
    if not same.all():
        raise CompilerError("code from the C compiler computes wrong results")
    if not np.allclose(results[:, [1, 4]], close, rtol=1e-5, atol=0, equal_nan=True):
        raise CompilerError("math functions in code from the C compiler are wrong")
    integers = function("ns_test_integers", ctypes.c_int32, integer, result=integer)
    if integers(2**31 - 1, 5) != 15 or integers(0, 5) != 5:
        raise CompilerError("integers do not wrap in code from the C compiler")
    clock = function("ns_test_clock", result=integer)
    if not 0 < clock() <= clock():
        raise CompilerError("the C library has no clock")
