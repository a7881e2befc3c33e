"""The C text at the start of generated files: types, and the functions that `Op.c` calls.

Invariant: every function gives NumPy's bits, in any position of a loop and for any input, except
those in `ULPS`, which stay that close to the true value.
"""

from __future__ import annotations

import re
from functools import cache

from nodescope.engine.codegen.c_backend import transcendental

HEAD = """\
#include <stdint.h>
#include <stddef.h>
#include <string.h>
#include <math.h>
#include <time.h>
typedef float f32;
typedef double f64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef _Bool b8;
#define NS_EXPORT __attribute__((visibility("default")))
#define NS_INLINE static inline __attribute__((always_inline, unused))
#define NS_RESTRICT __restrict__
"""

_NOW = """
NS_INLINE i64 ns_now(void) {  /* nanoseconds, of the clock of time.perf_counter_ns on Linux */
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (i64)t.tv_sec * 1000000000 + t.tv_nsec;
}
"""

_STAMPS = """\
/* ns_stamp() costs a third of ns_now(); ns_settle makes nanoseconds of n stamps, after the run. */
#ifdef NS_TSC
#define ns_stamp() ((i64)__builtin_ia32_rdtsc())
static __thread struct { i64 ns, ticks; double rate; } ns_base;
static void ns_both(i64 *ns, i64 *ticks) {  /* both clocks at one moment */
  i64 least = INT64_MAX;
  for (int i = 0; i < 3; i++) {
    i64 a = ns_stamp(), now = ns_now(), b = ns_stamp();
    if (b - a < least) least = b - a, *ns = now, *ticks = a + (b - a) / 2;
  }
}
static __attribute__((unused)) void ns_settle(i64 *stamps, i64 n) {
  i64 ns, ticks;
  ns_both(&ns, &ticks);
  double rate = (double)(ns - ns_base.ns) / (double)(ticks - ns_base.ticks);
  double turn = rate / ns_base.rate - 1;
  int known = ns_base.rate > 0, far = ns - ns_base.ns > 200000;
  if (known && far && turn < 1e-3 && turn > -1e-3) {
    ns_base.rate = rate;
  } else if (!known || far) {  /* the first time, or the machine has slept */
    i64 start_ns = ns, start = ticks;
    while (ns - start_ns < 200000) ns_both(&ns, &ticks);
    ns_base.rate = (double)(ns - start_ns) / (double)(ticks - start);
    ns_base.ns = start_ns, ns_base.ticks = start;
  }
  for (i64 i = 0; i < n; i++)
    stamps[i] = ns - (i64)((double)(ticks - stamps[i]) * ns_base.rate + 0.5);
  if (ns - ns_base.ns > 10000000000) ns_base.ns = ns, ns_base.ticks = ticks;
}
#else
#define ns_stamp() ns_now()
static __attribute__((unused)) void ns_settle(i64 *stamps, i64 n) { (void)stamps, (void)n; }
#endif
"""

_ANY = """
NS_INLINE @T ns_where_@T(b8 c, @T a, @T b) { return c ? a : b; }
"""

# As in NumPy's loops: NaN in either operand wins, and of two zeros the second.
_FLOAT = """
NS_INLINE u@B ns_bits_@T(@T x) { u@B b; memcpy(&b, &x, sizeof b); return b; }
NS_INLINE @T ns_float_@T(u@B b) { @T x; memcpy(&x, &b, sizeof x); return x; }
#ifdef __FMA__
NS_INLINE @T ns_fma_@T(@T a, @T b, @T c) { return __builtin_fma@F(a, b, c); }
#else
NS_INLINE @T ns_fma_@T(@T a, @T b, @T c) { return a * b + c; }
#endif
NS_INLINE @T ns_keep_@T(@T x, b8 c) { return ns_float_@T(ns_bits_@T(x) & -(u@B)c); }
NS_INLINE @T ns_abs_@T(@T x) { return __builtin_fabs@F(x); }
NS_INLINE @T ns_fabs_@T(@T x) { return __builtin_fabs@F(x); }
NS_INLINE @T ns_sqrt_@T(@T x) { return __builtin_sqrt@F(x); }
NS_INLINE @T ns_reciprocal_@T(@T x) { return 1 / x; }
NS_INLINE @T ns_floor_@T(@T x) { return __builtin_floor@F(x); }
NS_INLINE @T ns_ceil_@T(@T x) { return __builtin_ceil@F(x); }
NS_INLINE @T ns_trunc_@T(@T x) { return __builtin_trunc@F(x); }
NS_INLINE @T ns_rint_@T(@T x) { return __builtin_rint@F(x); }
NS_INLINE @T ns_copysign_@T(@T x, @T s) { return __builtin_copysign@F(x, s); }
NS_INLINE b8 ns_isnan_@T(@T x) { return x != x; }
NS_INLINE b8 ns_isinf_@T(@T x) { return __builtin_fabs@F(x) == (@T)INFINITY; }
NS_INLINE b8 ns_isfinite_@T(@T x) { return __builtin_fabs@F(x) < (@T)INFINITY; }
NS_INLINE b8 ns_signbit_@T(@T x) { return (i@B)ns_bits_@T(x) < 0; }
NS_INLINE @T ns_sign_@T(@T x) { @T y = (@T)((x > 0) - (x < 0)); return x != x ? x : y; }
NS_INLINE @T ns_maximum_@T(@T a, @T b) { return (a > b) | (a != a) ? a : b; }
NS_INLINE @T ns_minimum_@T(@T a, @T b) { return (a < b) | (a != a) ? a : b; }
NS_INLINE @T ns_fmax_@T(@T a, @T b) { return (a > b) | (b != b) ? a : b; }
NS_INLINE @T ns_fmin_@T(@T a, @T b) { return (a < b) | (b != b) ? a : b; }
NS_INLINE @T ns_clip_@T(@T x, @T low, @T high) {
  x = x < low ? low : x;  /* where they are equal x stays, with its sign */
  return x > high ? high : x;
}
NS_INLINE @T ns_heaviside_@T(@T x, @T zero) {
  @T y = x < 0 ? 0 : 1;
  y = x == 0 ? zero : y;
  return x != x ? x : y;
}
NS_INLINE @T ns_fmod_@T(@T a, @T b) { return fmod@F(a, b); }
NS_INLINE @T ns_remainder_@T(@T a, @T b) {
  @T m = fmod@F(a, b);
  if (b == 0) return m;
  if (m != 0) return (b < 0) != (m < 0) ? m + b : m;
  return __builtin_copysign@F(0, b);
}
NS_INLINE @T ns_floor_divide_@T(@T a, @T b) {
  if (b == 0) return a / b;
  @T m = fmod@F(a, b), d = (a - m) / b;
  if (m != 0 && (b < 0) != (m < 0)) d -= 1;
  if (d == 0) return __builtin_copysign@F(0, a / b);
  @T f = __builtin_floor@F(d);
  return d - f > (@T)0.5 ? f + 1 : f;
}
NS_INLINE @T ns_root_@T(@T x) { return x == -(@T)INFINITY ? -x : __builtin_sqrt@F(x) + 0; }
NS_INLINE @T ns_power_@T(@T x, @T y) { return pow@F(x, y); }
"""

_INTEGER = """
NS_INLINE @T ns_keep_@T(@T x, b8 c) { return c ? x : 0; }
NS_INLINE b8 ns_isnan_@T(@T x) { return 0; }
NS_INLINE b8 ns_isinf_@T(@T x) { return 0; }
NS_INLINE b8 ns_isfinite_@T(@T x) { return 1; }
NS_INLINE @T ns_floor_@T(@T x) { return x; }
NS_INLINE @T ns_ceil_@T(@T x) { return x; }
NS_INLINE @T ns_trunc_@T(@T x) { return x; }
"""

_NUMBER = """
NS_INLINE @T ns_fmin_@T(@T a, @T b) { return a < b ? a : b; }
NS_INLINE @T ns_fmax_@T(@T a, @T b) { return a > b ? a : b; }
NS_INLINE @T ns_minimum_@T(@T a, @T b) { return a < b ? a : b; }
NS_INLINE @T ns_maximum_@T(@T a, @T b) { return a > b ? a : b; }
NS_INLINE @T ns_invert_@T(@T x) { return (@T)~x; }
NS_INLINE @T ns_clip_@T(@T x, @T low, @T high) {
  x = x > low ? x : low;
  return x < high ? x : high;
}
NS_INLINE @T ns_left_shift_@T(@T a, @T b) {
  return (u64)b < @B ? (@T)(a << (b & (@B - 1))) : (@T)0;
}
NS_INLINE @T ns_right_shift_@T(@T a, @T b) {
  return (u64)b < @B ? (@T)(a >> (b & (@B - 1))) : (@T)(a < 0 ? -1 : 0);
}
NS_INLINE @T ns_gcd_@T(@T a, @T b) {
  u@B x = (u@B)(a < 0 ? -a : a), y = (u@B)(b < 0 ? -b : b);
  while (y) { u@B z = x % y; x = y; y = z; }
  return (@T)x;
}
NS_INLINE @T ns_lcm_@T(@T a, @T b) {
  u@B x = (u@B)(a < 0 ? -a : a), y = (u@B)(b < 0 ? -b : b), g = (u@B)ns_gcd_@T(a, b);
  return (@T)(g ? (u@B)(x / g * y) : 0);
}
"""

_SIGNED = """
NS_INLINE @T ns_abs_@T(@T x) { return (@T)(x < 0 ? -x : x); }
NS_INLINE @T ns_sign_@T(@T x) { return (@T)((x > 0) - (x < 0)); }
NS_INLINE u8 ns_bitwise_count_@T(@T x) {
  return (u8)__builtin_popcountll((u@B)(x < 0 ? -x : x));
}
NS_INLINE @T ns_fmod_@T(@T a, @T b) {  /* the least number by -1 does not fit: a trap */
  return (b == 0) | (b == -1) ? (@T)0 : (@T)(a % b);
}
NS_INLINE @T ns_remainder_@T(@T a, @T b) {
  if ((b == 0) | (b == -1)) return 0;
  @T m = (@T)(a % b);
  return (m != 0) & ((m < 0) != (b < 0)) ? (@T)(m + b) : m;
}
NS_INLINE @T ns_floor_divide_@T(@T a, @T b) {
  if (b == 0) return 0;
  if (b == -1) return (@T)-a;
  @T q = (@T)(a / b);
  return ((a < 0) != (b < 0)) & (q * b != a) ? (@T)(q - 1) : q;
}
"""

_UNSIGNED = """
NS_INLINE @T ns_abs_@T(@T x) { return x; }
NS_INLINE @T ns_sign_@T(@T x) { return x > 0; }
NS_INLINE u8 ns_bitwise_count_@T(@T x) { return (u8)__builtin_popcountll(x); }
NS_INLINE @T ns_fmod_@T(@T a, @T b) { return b == 0 ? 0 : (@T)(a % b); }
NS_INLINE @T ns_remainder_@T(@T a, @T b) { return b == 0 ? 0 : (@T)(a % b); }
NS_INLINE @T ns_floor_divide_@T(@T a, @T b) { return b == 0 ? 0 : (@T)(a / b); }
"""

_BOOL = """
NS_INLINE b8 ns_fmin_b8(b8 a, b8 b) { return a & b; }
NS_INLINE b8 ns_fmax_b8(b8 a, b8 b) { return a | b; }
NS_INLINE b8 ns_minimum_b8(b8 a, b8 b) { return a & b; }
NS_INLINE b8 ns_maximum_b8(b8 a, b8 b) { return a | b; }
NS_INLINE b8 ns_abs_b8(b8 x) { return x; }
NS_INLINE b8 ns_invert_b8(b8 x) { return !x; }
"""

_CALLED: dict[str, tuple[str, int]] = {
    "sin": ("sin", 1), "cos": ("cos", 1), "tan": ("tan", 1), "arcsin": ("asin", 1),
    "arccos": ("acos", 1), "arctan": ("atan", 1), "sinh": ("sinh", 1), "cosh": ("cosh", 1),
    "arcsinh": ("asinh", 1), "arccosh": ("acosh", 1), "arctanh": ("atanh", 1),
    "cbrt": ("cbrt", 1), "log2": ("log2", 1), "log10": ("log10", 1), "arctan2": ("atan2", 2),
    "hypot": ("hypot", 2),
}  # fmt: skip
"""Functions of the C library: name in C and number of arguments. libmvec has all of them."""

_OLD = ("sin", "cos", "pow")  # in libmvec since its first version


def _vectors() -> str:
    """Declarations that let the compiler vectorize calls; glibc has them only with -ffast-math.

    They accept any arguments: out-of-range ones are passed to the scalar function.
    """
    lines = ['#define NS_VECTOR __attribute__((simd("notinbranch"), const))']
    for level, names in ((1, _OLD), (2, sorted({n for n, _ in _CALLED.values()} - {*_OLD}))):
        lines.append(f"#if defined(NS_LIBMVEC) && NS_LIBMVEC >= {level}")
        for name in names:
            count = 2 if name in ("pow", "atan2", "hypot") else 1
            for kind, suffix in (("float", "f"), ("double", "")):
                arguments = ", ".join([kind] * count)
                lines.append(f"NS_VECTOR {kind} {name}{suffix}({arguments});")
        lines.append("#endif")
    return "\n".join(lines) + "\n"


VECTORS = _vectors()


def _calls(kind: str, suffix: str) -> str:
    lines = []
    for name, (called, count) in _CALLED.items():
        names = "xy"[:count]
        parameters = ", ".join(f"{kind} {n}" for n in names)
        lines.append(
            f"NS_INLINE {kind} ns_{name}_{kind}({parameters}) "
            f"{{ return {called}{suffix}({', '.join(names)}); }}"
        )
    return "\n".join(lines) + "\n"


def _all() -> str:
    parts = [_NOW, _BOOL]
    for kind, bits, suffix in (("f32", "32", "f"), ("f64", "64", "")):
        text = _ANY + _FLOAT
        parts.append(text.replace("@T", kind).replace("@B", bits).replace("@F", suffix))
        parts.append(_calls(kind, suffix))
    for sign, special in (("i", _SIGNED), ("u", _UNSIGNED)):
        for bits in ("8", "16", "32", "64"):
            text = _ANY + _INTEGER + _NUMBER + special
            parts.append(text.replace("@T", sign + bits).replace("@B", bits))
    parts.append((_ANY + _INTEGER).replace("@T", "b8"))
    return "".join(parts) + transcendental.TEXT


_START = re.compile(
    r"^(?:#ifdef[^\n]*\n)?NS_INLINE \w+ (ns_\w+)\(.*?(?:\}\n(?=NS_INLINE|#ifdef|\n|\Z)|#endif\n)",
    re.M | re.S,
)
_DEFINED = {match[1]: match[0] for match in _START.finditer(_all() + "\n")}
FUNCTIONS = frozenset(_DEFINED)
"""Names of all functions."""

_CALL = re.compile(r"ns_\w+(?=\()")  # a literal prefix is found fast

_STAMPED = re.compile(r"\bns_(stamp|settle)\(")


@cache
def needs(name: str) -> tuple[str, ...]:
    """A function of the prelude and everything that it calls, callees first."""
    names: dict[str, None] = {}
    for called in _CALL.findall(_DEFINED[name]):
        if called != name and called in _DEFINED:
            names.update(dict.fromkeys(needs(called)))
    return (*names, name)


def complete(text: str) -> str:
    """C text preceded by everything that it calls, and no more: every line costs compile time."""
    needed: dict[str, None] = {}
    for name in dict.fromkeys(_CALL.findall(text)):
        if name in _DEFINED:
            needed.update(dict.fromkeys(needs(name)))
    stamped = _STAMPED.search(text) is not None
    if stamped:
        needed["ns_now"] = None
    definitions = "".join(_DEFINED[name] for name in needed) + (_STAMPS if stamped else "")
    limits = _LIMITS if "NS_LEAST" in text or "NS_MOST" in text else ""
    calls = any(f"ns_{name}_" in definitions for name in (*_CALLED, "power"))
    return f"{HEAD}{VECTORS if calls else ''}{limits}{definitions}{text}"


_LIMITS = "".join(
    f"#define NS_LEAST_{kind} {least}\n#define NS_MOST_{kind} {most}\n"
    for kind, least, most in (
        ("f32", "-INFINITY", "INFINITY"), ("f64", "-INFINITY", "INFINITY"),
        *((f"i{bits}", f"INT{bits}_MIN", f"INT{bits}_MAX") for bits in (8, 16, 32, 64)),
        *((f"u{bits}", "0", f"UINT{bits}_MAX") for bits in (8, 16, 32, 64)),
    )
)  # fmt: skip


ULPS: dict[str, tuple[float, float]] = {
    "exp": (1.2, 1.2), "exp2": (1.2, 1.2), "expm1": (1.7, 2.0), "log": (1.0, 1.0),
    "log1p": (1.6, 1.6), "tanh": (2.5, 2.5), "erf": (2.1, 2.1), "sin": (4.0, 4.0),
    "cos": (4.0, 4.0), "tan": (4.0, 4.0), "arcsin": (4.0, 4.0), "arccos": (4.0, 4.0),
    "arctan": (4.0, 4.0), "sinh": (4.0, 4.0), "cosh": (4.0, 4.0), "arcsinh": (4.0, 4.0),
    "arccosh": (4.0, 4.0), "arctanh": (4.0, 4.0), "cbrt": (4.0, 4.0), "log2": (4.0, 4.0),
    "log10": (4.0, 4.0), "arctan2": (4.0, 4.0), "hypot": (4.0, 4.0), "power": (1.0, 1.0),
}  # fmt: skip
"""Greatest error of functions: units in the last place, for float32 and float64.

The first seven are nodescope's and the same everywhere in a loop; the rest are the C library's, for
whose vector functions glibc states 4.
"""
