"""What a compiler must get right before anything that it makes is used.

Invariant: `SOURCE` has in it whatever a compiler that is told to hurry gets wrong: NaN, signed
zeros, denormals, wrapping integers, and sums in the order in which they are written.
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
""")

_GIVEN = (0.0, -0.0, 1.0, -2.5, math.nan, math.inf, -math.inf, 1e-40, 3.0) * 5


def check(function: Callable[..., Any]) -> None:
    """Run the test of a library.

    Args:
        function: Its `Library.function`.

    Raises:
        CompilerError: What it computes is wrong.
    """
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    run = function("ns_test", pointer, pointer, integer)
    given = np.array(_GIVEN, np.float32)
    found = np.zeros((len(given), 5), np.float32)
    run(given.ctypes.data, found.ctypes.data, len(given))
    with np.errstate(all="ignore"):
        one, big = np.float32(0.5), np.float32(1e8)
        exact = np.stack([np.maximum(given, 0), (given + big) - big, given * one], axis=1)
        close = np.stack([np.tanh(given), np.sin(given)], axis=1)
    if not np.array_equal(found[:, [0, 2, 3]].view(np.uint32) & 0x7FFFFFFF != 0,
                          exact.view(np.uint32) & 0x7FFFFFFF != 0):  # fmt: skip
        raise CompilerError("the C compiler makes code that loses denormals or zeros")
    if not np.array_equal(found[:, [0, 2, 3]], exact, equal_nan=True) or not np.allclose(
        found[:, [1, 4]], close, rtol=1e-5, atol=0, equal_nan=True
    ):
        raise CompilerError("the C compiler makes code that computes wrongly")
    integers = function("ns_test_integers", ctypes.c_int32, integer, result=integer)
    if integers(2**31 - 1, 5) != 15 or integers(0, 5) != 5:
        raise CompilerError("the C compiler makes code in which integers do not wrap")
    clock = function("ns_test_clock", result=integer)
    if not 0 < clock() <= clock():
        raise CompilerError("the C library has no clock")
    if np.float32(1e-40) * np.float32(1.0) == 0:
        raise CompilerError("loading what the C compiler makes turns off denormals")
