"""Windows over images: convolution by columns and products, pooling by direct loops.

All sizes are constants in the text, so that the compiler copies and compares whole rows.

Invariant: pooling gives NumPy's bits; convolution differs from them only by the order of its sums,
by at most ``k`` eps of the sum of absolute products for sums of ``k``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nodescope.engine.codegen.c_backend.expressions import CTYPES
from nodescope.engine.codegen.c_backend.unit import FunctionCall, NoKernel, Sizes, Unit, Val
from nodescope.ir.graph import TensorSpec
from nodescope.ops.windows import pair, pair_padding

Lower = Callable[[Unit, tuple[Any, ...], dict[str, Any], tuple[TensorSpec, ...]], Sequence[Val]]

_COLUMNS = """
NS_INLINE void ns_columns_@T(const @T *x, @T *c, i64 channels, i64 H, i64 W, i64 kh, i64 kw,
    i64 sh, i64 sw, i64 dh, i64 dw, i64 top, i64 left, i64 oh, i64 ow, i64 step) {
  for (i64 a = 0; a < channels; a++) for (i64 i = 0; i < kh; i++) for (i64 j = 0; j < kw; j++) {
    @T *o = c + ((a * kh + i) * kw + j) * step;
    const i64 off = j * dw - left;
    const i64 lo = off < 0 ? (-off + sw - 1) / sw : 0;
    i64 hi = W - off <= 0 ? 0 : (W - off + sw - 1) / sw; hi = hi < ow ? hi : ow;
    for (i64 y = 0; y < oh; y++, o += ow) {
      const i64 r = y * sh + i * dh - top;
      if (r < 0 || r >= H || hi <= lo) { memset(o, 0, ow * sizeof(@T)); continue; }
      const @T *q = x + (a * H + r) * W + off;
      for (i64 k = 0; k < lo; k++) o[k] = 0;
      if (sw == 1) { _Pragma("omp simd") for (i64 k = lo; k < hi; k++) o[k] = q[k]; }
      else for (i64 k = lo; k < hi; k++) o[k] = q[k * sw];
      for (i64 k = hi; k < ow; k++) o[k] = 0;
    }
  }
}
NS_INLINE void ns_uncolumns_@T(@T *x, const @T *c, i64 channels, i64 H, i64 W, i64 kh, i64 kw,
    i64 sh, i64 sw, i64 dh, i64 dw, i64 top, i64 left, i64 oh, i64 ow, i64 step) {
  memset(x, 0, channels * H * W * sizeof(@T));
  for (i64 a = 0; a < channels; a++) for (i64 i = 0; i < kh; i++) for (i64 j = 0; j < kw; j++) {
    const @T *o = c + ((a * kh + i) * kw + j) * step;
    const i64 off = j * dw - left;
    const i64 lo = off < 0 ? (-off + sw - 1) / sw : 0;
    i64 hi = W - off <= 0 ? 0 : (W - off + sw - 1) / sw; hi = hi < ow ? hi : ow;
    for (i64 y = 0; y < oh; y++, o += ow) {
      const i64 r = y * sh + i * dh - top;
      if (r < 0 || r >= H) continue;
      @T *q = x + (a * H + r) * W + off;
      if (sw == 1) { _Pragma("omp simd") for (i64 k = lo; k < hi; k++) q[k] += o[k]; }
      else for (i64 k = lo; k < hi; k++) q[k * sw] += o[k];
    }
  }
}
"""
_CONV = """
NS_INLINE void ns_conv_@T(@T *y, const @T *x, const @T *w, const @T *bias, @T *c, @T *z, i64 N,
    i64 part, i64 C, i64 H, i64 W, i64 O, i64 kh, i64 kw, i64 sh, i64 sw, i64 dh, i64 dw, i64 top,
    i64 left, i64 G, i64 oh, i64 ow) {
  const i64 cg = C / G, og = O / G, taps = cg * kh * kw, P = oh * ow;
  for (i64 n0 = 0; n0 < N; n0 += part) for (i64 g = 0; g < G; g++) {
    const i64 m = N - n0 < part ? N - n0 : part;
    for (i64 n = 0; n < m; n++)
      ns_columns_@T(x + ((n0 + n) * C + g * cg) * H * W, c + n * P, cg, H, W, kh, kw, sh, sw, dh,
                    dw, top, left, oh, ow, m * P);
    @T *to = m == 1 ? y + (n0 * O + g * og) * P : z;
    ns_@Sgemm(101, 111, 111, og, m * P, taps, 1, w + g * og * taps, taps, c, m * P, 0, to, m * P);
    for (i64 n = 0; n < m; n++) for (i64 o = 0; o < og; o++) {
      const @T b = bias ? bias[g * og + o] : 0;
      @T *d = y + ((n0 + n) * O + g * og + o) * P; const @T *s = to + (o * m + n) * P;
      if (bias) { _Pragma("omp simd") for (i64 k = 0; k < P; k++) d[k] = s[k] + b; }
      else if (m > 1) memcpy(d, s, P * sizeof(@T));
    }
  }
}
"""
_WEIGHT = """
NS_INLINE void ns_conv_weight_@T(@T *w, const @T *x, const @T *y, @T *c, @T *z, i64 N, i64 part,
    i64 C, i64 H, i64 W, i64 O, i64 kh, i64 kw, i64 sh, i64 sw, i64 dh, i64 dw, i64 top, i64 left,
    i64 G, i64 oh, i64 ow) {
  const i64 cg = C / G, og = O / G, taps = cg * kh * kw, P = oh * ow;
  memset(w, 0, O * taps * sizeof(@T));
  for (i64 n0 = 0; n0 < N; n0 += part) for (i64 g = 0; g < G; g++) {
    const i64 m = N - n0 < part ? N - n0 : part;
    for (i64 n = 0; n < m; n++) {
      ns_columns_@T(x + ((n0 + n) * C + g * cg) * H * W, c + n * P, cg, H, W, kh, kw, sh, sw, dh,
                    dw, top, left, oh, ow, m * P);
      for (i64 o = 0; m > 1 && o < og; o++)
        memcpy(z + (o * m + n) * P, y + ((n0 + n) * O + g * og + o) * P, P * sizeof(@T));
    }
    const @T *from = m == 1 ? y + (n0 * O + g * og) * P : z;
    ns_@Sgemm(101, 111, 112, og, taps, m * P, 1, from, m * P, c, m * P, 1, w + g * og * taps, taps);
  }
}
"""
_INPUT = """
NS_INLINE void ns_conv_input_@T(@T *x, const @T *y, const @T *w, const @T *bias, @T *c, @T *z,
    i64 N, i64 part, i64 C, i64 H, i64 W, i64 O, i64 kh, i64 kw, i64 sh, i64 sw, i64 dh, i64 dw,
    i64 top, i64 left, i64 G, i64 oh, i64 ow) {
  const i64 cg = C / G, og = O / G, taps = cg * kh * kw, P = oh * ow;
  for (i64 n0 = 0; n0 < N; n0 += part) for (i64 g = 0; g < G; g++) {
    const i64 m = N - n0 < part ? N - n0 : part;
    for (i64 n = 0; m > 1 && n < m; n++) for (i64 o = 0; o < og; o++)
      memcpy(z + (o * m + n) * P, y + ((n0 + n) * O + g * og + o) * P, P * sizeof(@T));
    const @T *from = m == 1 ? y + (n0 * O + g * og) * P : z;
    ns_@Sgemm(101, 112, 111, taps, m * P, og, 1, w + g * og * taps, taps, from, m * P, 0, c, m * P);
    for (i64 n = 0; n < m; n++) {
      @T *q = x + ((n0 + n) * C + g * cg) * H * W;
      ns_uncolumns_@T(q, c + n * P, cg, H, W, kh, kw, sh, sw, dh, dw, top, left, oh, ow, m * P);
      if (bias) for (i64 a = 0; a < cg; a++) for (i64 k = 0; k < H * W; k++)
        q[a * H * W + k] += bias[g * cg + a];
    }
  }
}
"""
_POOL = """
NS_INLINE void ns_max_pool_@T(@T *y, const @T *x, i64 N, i64 H, i64 W, i64 kh, i64 kw, i64 sh,
    i64 sw, i64 dh, i64 dw, i64 top, i64 left, i64 inside, i64 oh, i64 ow) {
  for (i64 n = 0; n < N; n++) for (i64 r = 0; r < oh; r++) {
    @T *o = y + (n * oh + r) * ow;
    const @T *q = x + n * H * W;
    if (inside) {
      for (i64 k = 0; k < ow; k++) o[k] = q[r * sh * W + k * sw];
      for (i64 i = 0; i < kh; i++) for (i64 j = 0; j < kw; j++) {
        const @T *v = q + (r * sh + i * dh) * W + j * dw;
        _Pragma("omp simd") for (i64 k = 0; k < ow; k++) o[k] = ns_maximum_@T(o[k], v[k * sw]);
      }
    } else for (i64 k = 0; k < ow; k++) {
      @T m = NS_LEAST_@T;
      for (i64 i = 0; i < kh; i++) for (i64 j = 0; j < kw; j++) {
        const i64 a = r * sh + i * dh - top, b = k * sw + j * dw - left;
        if (a >= 0 && a < H && b >= 0 && b < W) m = ns_maximum_@T(m, q[a * W + b]);
      }
      o[k] = m;
    }
  }
}
"""
_POOL_GRAD = """
NS_INLINE void ns_max_pool_grad_@T(@T *d, const @T *ct, const @T *x, const @T *y, u8 *taken, i64 N,
    i64 H, i64 W, i64 kh, i64 kw, i64 sh, i64 sw, i64 dh, i64 dw, i64 top, i64 left, i64 inside,
    i64 oh, i64 ow) {
  if (!inside || kh * dh != sh || kw * dw != sw || oh * sh != H || ow * sw != W)
    memset(d, 0, N * H * W * sizeof(@T));
  for (i64 n = 0; n < N; n++) {
    const @T *q = x + n * H * W; @T *to = d + n * H * W;
    if (inside && dh == 1 && dw == 1 && sh >= kh && sw >= kw) {
      for (i64 r = 0; r < oh; r++) {
        const @T *c = ct + (n * oh + r) * ow, *m = y + (n * oh + r) * ow;
        _Pragma("omp simd") for (i64 k = 0; k < ow; k++) {
          i32 had = 0; const @T g = c[k], best = m[k];
          for (i64 i = 0; i < kh; i++) for (i64 j = 0; j < kw; j++) {
            const i64 at = (r * sh + i) * W + k * sw + j;
            const i32 last = i == kh - 1 && j == kw - 1, hit = !had & (last | (q[at] == best));
            to[at] = ns_keep_@T(g, hit); had |= hit;
          }
        }
      }
      continue;
    }
    memset(taken, 0, oh * ow);
    for (i64 i = 0; i < kh; i++) for (i64 j = 0; j < kw; j++) for (i64 r = 0; r < oh; r++)
      for (i64 k = 0; k < ow; k++) {
        const i64 a = r * sh + i * dh - top, b = k * sw + j * dw - left, w = r * ow + k;
        const int in = a >= 0 && a < H && b >= 0 && b < W, last = i == kh - 1 && j == kw - 1;
        const @T v = in ? q[a * W + b] : (@T)-INFINITY;
        if (taken[w] || !(last || v == y[n * oh * ow + w])) continue;
        taken[w] = 1;
        if (in) to[a * W + b] += ct[n * oh * ow + w];
      }
  }
}
"""
_FORMS = {
    "columns": _COLUMNS, "conv": _CONV, "conv_weight": _WEIGHT, "conv_input": _INPUT,
    "max_pool": _POOL, "max_pool_grad": _POOL_GRAD,
}  # fmt: skip
TEXTS = {
    f"0{name}_{kind}" if name == "columns" else f"{name}_{kind}":
        form.replace("@T", kind).replace("@S", sign)
    for kind, sign in (("f32", "s"), ("f64", "d")) for name, form in _FORMS.items()
}  # fmt: skip
_PART_BYTES = 1 << 20  # bytes of columns at a time: they stay in the second-level cache


def _floats(name: str, dtype: str, args: Sequence[Val]) -> str:
    if dtype not in ("float32", "float64") or any(argument.dtype != dtype for argument in args):
        raise NoKernel(f"{name} of {', '.join(argument.dtype for argument in args)}")
    return CTYPES[dtype]


def _conv(way: str) -> Lower:
    name = {"forward": "conv", "weight": "conv_weight"}.get(way, "conv_input")

    def lower(unit: Unit, args: Any, attrs: Any, outs: Any) -> Sequence[Val]:
        kind = _floats(name, outs[0].dtype, args)
        dense = [unit.dense(argument) for argument in args]
        out: Sizes = tuple(outs[0].shape)
        if 0 in out or any(0 in value.shape for value in dense):
            raise NoKernel("images of no elements")
        first, second = dense[0].shape, dense[1].shape
        image, weight, result = {
            "forward": (first, second, out), "weight": (first, out, second),
            "input": (out, second, first), "transpose": (out, second, first),
        }[way]  # fmt: skip
        (height, width), (kh, kw) = pair(image[2:]), pair(weight[2:])
        (oh, ow) = pair(result[2:])
        stride, dilation = pair(attrs["stride"]), pair(attrs["dilation"])
        (top, _), (left, _) = pair_padding(attrs["padding"])
        groups = attrs["groups"]
        taps = weight[1] * kh * kw
        bytes_per_image = taps * oh * ow * (4 if kind == "f32" else 8)
        part = max(1, min(image[0], _PART_BYTES // bytes_per_image))
        image_out = unit.fresh(out, outs[0].dtype)
        columns = unit.fresh((taps * oh * ow * part,), outs[0].dtype)
        rows = unit.fresh((weight[0] // groups * oh * ow * part,), outs[0].dtype)
        bias = "" if way == "weight" else ", {i2}" if len(dense) > 2 else ", 0"
        numbers = (image[0], part, image[1], height, width, weight[0], kh, kw, *stride, *dilation,
                   top, left, groups, oh, ow)  # fmt: skip
        text = (
            f"ns_{name}_{kind}({{o0}}, {{i0}}, {{i1}}{bias}, {{o1}}, {{o2}}, {_listed(numbers)});"
        )
        needs = (f"0columns_{kind}", f"{name}_{kind}")
        unit.prims.append(FunctionCall((image_out, columns, rows), tuple(dense), text, needs))
        return (image_out,)

    return lower


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _pool(way: str) -> Lower:
    name = f"max_pool{'_grad' if way else ''}"

    def lower(unit: Unit, args: Any, attrs: Any, outs: Any) -> Sequence[Val]:
        kind = _floats(name, outs[0].dtype, args)
        dense = [unit.dense(argument) for argument in args]
        image = dense[1 if way else 0].shape
        result: Sizes = dense[2].shape if way else tuple(outs[0].shape)
        if 0 in image or 0 in result:
            raise NoKernel("images of no elements")
        (height, width), (oh, ow) = pair(image[2:]), pair(result[2:])
        (kh, kw), (sh, sw) = pair(attrs["kernel"]), pair(attrs["stride"])
        dh, dw = pair(attrs["dilation"])
        (top, _), (left, _) = pair_padding(attrs["padding"])
        # With ceil_mode, the last windows may reach beyond the padding.
        inside = int(
            top == left == 0
            and (oh - 1) * sh + (kh - 1) * dh < height
            and (ow - 1) * sw + (kw - 1) * dw < width
        )
        count = image[0] * image[1]
        numbers = (count, height, width, kh, kw, sh, sw, dh, dw, top, left, inside, oh, ow)
        image_out = unit.fresh(outs[0].shape, outs[0].dtype)
        operands = ", ".join(f"{{i{i}}}" for i in range(len(dense)))
        results: tuple[Val, ...] = (image_out,)
        if way:
            results = (image_out, unit.fresh((oh * ow,), "uint8"))
            operands += ", {o1}"
        text = f"ns_{name}_{kind}({{o0}}, {operands}, {_listed(numbers)});"
        unit.prims.append(FunctionCall(results, tuple(dense), text, (f"{name}_{kind}",)))
        return (image_out,)

    return lower


TABLE: dict[str, Lower] = {
    **{f"conv{n}d": _conv("forward") for n in (1, 2)},
    **{f"conv{n}d_weight_grad": _conv("weight") for n in (1, 2)},
    **{f"conv{n}d_input_grad": _conv("input") for n in (1, 2)},
    **{f"conv_transpose{n}d": _conv("transpose") for n in (1, 2)},
    **{f"max_pool{n}d": _pool("") for n in (1, 2)},
    **{f"max_pool{n}d_grad": _pool("grad") for n in (1, 2)},
}
