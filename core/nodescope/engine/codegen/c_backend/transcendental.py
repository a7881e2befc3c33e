"""Exponentials, logarithms, tanh and erf in plain C, which every compiler can vectorize.

A call of libmvec needs a loop without branches, and gives different bits in the last elements of a
loop; these functions give the same bits in every position. Each reduces its argument exactly, as
Cephes (Moshier) and fdlibm (Sun) do, whose polynomials they use.

Invariant: denormals, infinities, NaN and signed zeros give NumPy's results, in every position.
"""

from __future__ import annotations

from nodescope.ops import erf as _erf

# ``@T`` is the type, ``@F`` the suffix of its constants. Adding 0x1.8p52 or 0x1.8p23 rounds to
# integers: the integer is then in the lowest bits.

_EXP_32 = """
NS_INLINE f32 ns_expm1_near_f32(f32 r) {  /* |r| <= ln 2 / 2 */
  f32 p = 1.9875691500e-4f;
  p = ns_fma_f32(p, r, 1.3981999507e-3f);
  p = ns_fma_f32(p, r, 8.3334519073e-3f);
  p = ns_fma_f32(p, r, 4.1665795894e-2f);
  p = ns_fma_f32(p, r, 1.6666665459e-1f);
  p = ns_fma_f32(p, r, 5.0000001201e-1f);
  return ns_fma_f32(p, r * r, r);
}
NS_INLINE f32 ns_reduced_f32(f32 x, f32 n) {  /* x - n ln 2 */
  return ns_fma_f32(n, 2.12194440e-4f, ns_fma_f32(n, -0.693359375f, x));
}
NS_INLINE f32 ns_scaled_f32(f32 y, i32 n) {  /* y 2^n in two steps, so that denormals round once */
  i32 half = (i32)((u32)(n + 512) >> 1) - 256;
  return y * ns_float_f32((u32)(half + 127) << 23) * ns_float_f32((u32)(n - half + 127) << 23);
}
NS_INLINE f32 ns_exp_f32(f32 x) {
  x = x > 89.f ? 89.f : x;
  x = x < -104.f ? -104.f : x;
  f32 shifted = ns_fma_f32(x, 1.44269504088896341f, 0x1.8p23f), n = shifted - 0x1.8p23f;
  i32 k = (i32)(ns_bits_f32(shifted) - 0x4b400000u);
  return ns_scaled_f32(1.f + ns_expm1_near_f32(ns_reduced_f32(x, n)), k);
}
NS_INLINE f32 ns_exp2_f32(f32 x) {
  x = x > 129.f ? 129.f : x;
  x = x < -151.f ? -151.f : x;
  f32 shifted = x + 0x1.8p23f, n = shifted - 0x1.8p23f;
  i32 k = (i32)(ns_bits_f32(shifted) - 0x4b400000u);
  return ns_scaled_f32(1.f + ns_expm1_near_f32((x - n) * 0.693147180559945309f), k);
}
NS_INLINE f32 ns_expm1_f32(f32 given) {
  f32 x = given > 89.f ? 89.f : given;
  x = x < -20.f ? -20.f : x;
  f32 shifted = ns_fma_f32(x, 1.44269504088896341f, 0x1.8p23f), n = shifted - 0x1.8p23f;
  i32 k = (i32)(ns_bits_f32(shifted) - 0x4b400000u);
  f32 e = ns_expm1_near_f32(ns_reduced_f32(x, n));
  /* 2^128 is no float: half of everything, twice, beyond. */
  f32 s = ns_float_f32((u32)((k > 127 ? 127 : k) + 127) << 23);
  f32 y = ns_fma_f32(e, s, s - 1.f);
  y = k > 127 ? (e + 1.f) * s * 2.f : y;
  return given == 0.f ? given : y;
}
"""

_EXP_64 = """
NS_INLINE f64 ns_expm1_near_f64(f64 r) {  /* |r| <= ln 2 / 2: the series, to r^13 */
  f64 p = 1. / 6227020800;
  p = ns_fma_f64(p, r, 1. / 479001600);
  p = ns_fma_f64(p, r, 1. / 39916800);
  p = ns_fma_f64(p, r, 1. / 3628800);
  p = ns_fma_f64(p, r, 1. / 362880);
  p = ns_fma_f64(p, r, 1. / 40320);
  p = ns_fma_f64(p, r, 1. / 5040);
  p = ns_fma_f64(p, r, 1. / 720);
  p = ns_fma_f64(p, r, 1. / 120);
  p = ns_fma_f64(p, r, 1. / 24);
  p = ns_fma_f64(p, r, 1. / 6);
  p = ns_fma_f64(p, r, 1. / 2);
  return ns_fma_f64(p, r * r, r);
}
NS_INLINE f64 ns_reduced_f64(f64 x, f64 n) {  /* x - n ln 2 */
  return ns_fma_f64(n, -1.42860682030941723212e-6, ns_fma_f64(n, -6.93145751953125e-1, x));
}
NS_INLINE f64 ns_scaled_f64(f64 y, i64 n) {  /* y 2^n in two steps, so that denormals round once */
  i64 half = (i64)((u64)(n + 4096) >> 1) - 2048;
  return y * ns_float_f64((u64)(half + 1023) << 52) * ns_float_f64((u64)(n - half + 1023) << 52);
}
NS_INLINE f64 ns_exp_f64(f64 x) {
  x = x > 710. ? 710. : x;
  x = x < -746. ? -746. : x;
  f64 shifted = ns_fma_f64(x, 1.44269504088896341, 0x1.8p52), n = shifted - 0x1.8p52;
  i64 k = (i64)(ns_bits_f64(shifted) - 0x4338000000000000u);
  return ns_scaled_f64(1. + ns_expm1_near_f64(ns_reduced_f64(x, n)), k);
}
NS_INLINE f64 ns_exp2_f64(f64 x) {
  x = x > 1025. ? 1025. : x;
  x = x < -1076. ? -1076. : x;
  f64 shifted = x + 0x1.8p52, n = shifted - 0x1.8p52;
  i64 k = (i64)(ns_bits_f64(shifted) - 0x4338000000000000u);
  return ns_scaled_f64(1. + ns_expm1_near_f64((x - n) * 0.693147180559945309), k);
}
NS_INLINE f64 ns_expm1_f64(f64 given) {
  f64 x = given > 710. ? 710. : given;
  x = x < -40. ? -40. : x;
  f64 shifted = ns_fma_f64(x, 1.44269504088896341, 0x1.8p52), n = shifted - 0x1.8p52;
  i64 k = (i64)(ns_bits_f64(shifted) - 0x4338000000000000u);
  f64 e = ns_expm1_near_f64(ns_reduced_f64(x, n));
  /* 2^1024 is no float: half of everything, twice, beyond. */
  f64 s = ns_float_f64((u64)((k > 1023 ? 1023 : k) + 1023) << 52);
  f64 y = ns_fma_f64(e, s, s - 1.);
  y = k > 1023 ? (e + 1.) * s * 2. : y;
  return given == 0. ? given : y;
}
"""

_LOG_32 = """
NS_INLINE f32 ns_log_f32(f32 given) {
  f32 x = given < 0x1p-126f ? given * 0x1p23f : given;
  f32 shift = given < 0x1p-126f ? -23.f : 0.f;
  u32 bits = ns_bits_f32(x) - 0x3f3504f3u;  /* as if from sqrt(1/2) on */
  f32 k = (f32)((i32)bits >> 23);
  f32 f = ns_float_f32((bits & 0x007fffffu) + 0x3f3504f3u) - 1.f, z = f * f;
  k += shift;
  f32 p = 7.0376836292e-2f;
  p = ns_fma_f32(p, f, -1.1514610310e-1f);
  p = ns_fma_f32(p, f, 1.1676998740e-1f);
  p = ns_fma_f32(p, f, -1.2420140846e-1f);
  p = ns_fma_f32(p, f, 1.4249322787e-1f);
  p = ns_fma_f32(p, f, -1.6668057665e-1f);
  p = ns_fma_f32(p, f, 2.0000714765e-1f);
  p = ns_fma_f32(p, f, -2.4999993993e-1f);
  p = ns_fma_f32(p, f, 3.3333331174e-1f);
  f32 y = ns_fma_f32(k, -2.12194440e-4f, p * f * z);
  y = f + ns_fma_f32(-0.5f, z, y);
  y = ns_fma_f32(k, 0.693359375f, y);
  y = given < (f32)INFINITY ? y : given;
  y = given == 0.f ? -(f32)INFINITY : y;
  return given < 0.f ? (f32)NAN : y;
}
"""

_LOG_64 = """
NS_INLINE f64 ns_log_f64(f64 given) {
  f64 x = given < 0x1p-1022 ? given * 0x1p54 : given;
  f64 shift = given < 0x1p-1022 ? -54. : 0.;
  u64 bits = ns_bits_f64(x) - 0x3fe6a09e667f3bcdu;  /* as if from sqrt(1/2) on */
  /* The exponent as a float, by way of the bits: AVX2 does not convert 64-bit integers. */
  f64 k = ns_float_f64(((bits + (1023ull << 52)) >> 52) | 0x4330000000000000u) - (0x1p52 + 1023.);
  f64 f = ns_float_f64((bits & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.;
  k += shift;
  f64 s = f / (2. + f), z = s * s, w = z * z, h = 0.5 * f * f;
  f64 a = ns_fma_f64(w, 1.531383769920937332e-01, 2.222219843214978396e-01);
  a = w * ns_fma_f64(w, a, 3.999999999940941908e-01);
  f64 b = ns_fma_f64(w, 1.479819860511658591e-01, 1.818357216161805012e-01);
  b = ns_fma_f64(w, b, 2.857142874366239149e-01);
  b = z * ns_fma_f64(w, b, 6.666666666666735130e-01);
  f64 y = s * (h + (a + b)) + k * 1.90821492927058770002e-10;
  y = k * 6.93147180369123816490e-01 - ((h - y) - f);
  y = given < (f64)INFINITY ? y : given;
  y = given == 0. ? -(f64)INFINITY : y;
  return given < 0. ? (f64)NAN : y;
}
"""

_BOTH = """
NS_INLINE @T ns_log1p_@T(@T x) {
  @T u = 1 + x;
  /* What was lost in 1 + x, to first order. */
  @T y = ns_log_@T(u) + (x - (u - 1)) / u;
  y = x < (@T)INFINITY ? y : x;
  y = x == -1 ? -(@T)INFINITY : y;
  return u == 1 ? x : y;
}
NS_INLINE @T ns_tanh_@T(@T x) {  /* e / (e + 2), e = expm1(2 |x|) where that is no special case */
  @T size = ns_abs_@T(x);
  size = size > @END ? @END : size;
  size = size + size;
  @T shifted = ns_fma_@T(size, (@T)1.44269504088896341, @HIGH), n = shifted - @HIGH;
  @T e = ns_expm1_near_@T(ns_reduced_@T(size, n));
  @T s = ns_float_@T((ns_bits_@T(shifted) << @MANTISSA) + ns_bits_@T(1));  /* 2^n */
  e = ns_fma_@T(e, s, s - 1);
  return ns_copysign_@T(e / (e + 2), x);
}
NS_INLINE @T ns_sigmoid_@T(@T x) { return ns_tanh_@T(x * (@T)0.5) * (@T)0.5 + (@T)0.5; }
NS_INLINE @T ns_logaddexp_@T(@T a, @T b) {
  @T y = ns_maximum_@T(a, b) + ns_log1p_@T(ns_exp_@T(-ns_abs_@T(a - b)));
  return a == b ? a + (@T)0.693147180559945309 : y;
}
NS_INLINE @T ns_logaddexp2_@T(@T a, @T b) {
  @T more = ns_log1p_@T(ns_exp2_@T(-ns_abs_@T(a - b))) * (@T)1.44269504088896341;
  return a == b ? a + 1 : ns_maximum_@T(a, b) + more;
}
NS_INLINE @T ns_elu_@T(@T x, @T alpha, @T inner) {
  @T below = ns_expm1_@T(ns_minimum_@T(x, 0) * inner) * alpha;
  return ns_where_@T(x > 0, x, below);
}
NS_INLINE @T ns_gelu_none_@T(@T x) {
  return x * (@T)0.5 * (ns_erf_@T(x * (@T)@ROOT) + 1);
}
NS_INLINE @T ns_gelu_inner_@T(@T x) {
  return (x * x * (@T)@CUBIC + (@T)@GELU) * x;
}
NS_INLINE @T ns_gelu_tanh_@T(@T x) {
  return (ns_tanh_@T(ns_gelu_inner_@T(x)) + 1) * x * (@T)0.5;
}
NS_INLINE @T ns_gelu_grad_none_@T(@T ct, @T x) {
  @T share = (ns_erf_@T(x * (@T)@ROOT) + 1) * (@T)0.5;
  return ct * (share + ns_exp_@T(x * x * (@T)-0.5) * (@T)@DENSITY * x);
}
NS_INLINE @T ns_gelu_grad_tanh_@T(@T ct, @T x) {
  @T t = ns_tanh_@T(ns_gelu_inner_@T(x));
  @T square = (x * x * (@T)(1.5 * @CUBIC) + (@T)(0.5 * @GELU)) * x;
  return ((1 - t * t) * square + (t * (@T)0.5 + (@T)0.5)) * ct;
}
"""


def _polynomial(name: str, kind: str, coefficients: tuple[float, ...]) -> str:
    suffix = "f" if kind == "f32" else ""
    lines = [f"NS_INLINE {kind} ns_erf_{name}_{kind}({kind} u) {{"]
    lines.append(f"  {kind} p = u * {coefficients[-1]!r}{suffix};")
    lines += [f"  p = (p + {coefficient!r}{suffix}) * u;" for coefficient in coefficients[-2:0:-1]]
    lines.append(f"  return p + {coefficients[0]!r}{suffix};\n}}")
    return "\n".join(lines)


_ERF = """
NS_INLINE @T ns_erf_@T(@T x) {  /* as nodescope.ops.erf, step by step */
  @T size = ns_abs_@T(x), inner = ns_minimum_@T(size, 1);
  @T near = ns_erf_near_@T(inner * inner * 2 - 1) * x;
  size = ns_clip_@T(size, 1, @EDGE);
  @T u = (size - 3) / (size + 3) * (@T)@WIDE - (@T)@LOW;
  @T tail = 1 - ns_erf_far_@T(u) * ns_exp_@T(-(size * size));
  return ns_where_@T(ns_abs_@T(x) > 1, ns_copysign_@T(tail, x), near);
}
"""


def _of(kind: str) -> str:
    mantissa = 23 if kind == "f32" else 52
    end, edge = (10.0, 4.0) if kind == "f32" else (22.0, 6.0)
    lowest, highest = -0.5, (edge - 3) / (edge + 3)
    near, far = (_erf._NEAR_32, _erf._FAR_32) if kind == "f32" else (_erf._NEAR_64, _erf._FAR_64)
    text = _BOTH + _polynomial("near", kind, near) + "\n" + _polynomial("far", kind, far) + _ERF
    for name, value in {
        "@END": end, "@HIGH": 1.5 * 2.0**mantissa, "@EDGE": edge, "@WIDE": 2 / (highest - lowest),
        "@LOW": (highest + lowest) / (highest - lowest), "@ROOT": 0.5**0.5,
        "@CUBIC": _GELU * 0.044715, "@GELU": _GELU, "@DENSITY": 0.5 * _GELU,
    }.items():  # fmt: skip
        text = text.replace(name, f"({value!r})")
    return text.replace("@T", kind).replace("@MANTISSA", str(mantissa))


_GELU = (2 / 3.141592653589793) ** 0.5
TEXT = _EXP_32 + _EXP_64 + _LOG_32 + _LOG_64 + _of("f32") + _of("f64")
"""Definitions for both types; `prelude` picks those that are called."""
