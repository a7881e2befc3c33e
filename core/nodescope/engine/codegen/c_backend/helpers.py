"""C functions that kernels call: gathers, scatters, positions of extremes.

Invariant: an index out of range makes a function return 1 before anything is read there.
"""

from __future__ import annotations

from collections.abc import Iterable

from nodescope.engine.codegen.c_backend import windows

BEST = """
#define NS_BEST(T, OP, out, x, before, n, behind) do { \\
  for (i64 a_ = 0; a_ < (before); a_++) for (i64 b_ = 0; b_ < (behind); b_++) { \\
    const T *q_ = (x) + a_ * (n) * (behind) + b_; T m_ = q_[0]; i64 k_ = 0; \\
    for (i64 i_ = 1; i_ < (n) && m_ == m_; i_++) { \\
      const T y_ = q_[i_ * (behind)]; if (y_ OP m_ || y_ != y_) { m_ = y_; k_ = i_; } } \\
    (out)[a_ * (behind) + b_] = k_; } } while (0)
"""
ROWS = """
#define NS_ROWS(T, out, x, at, count, n, width) ({ int bad_ = 0; \\
  for (i64 a_ = 0; a_ < (count); a_++) { i64 k_ = (at)[a_]; \\
    if (k_ < -(i64)(n) || k_ >= (n)) { bad_ = 1; break; } \\
    k_ += k_ < 0 ? (n) : 0; \\
    memcpy((out) + a_ * (width), (x) + k_ * (width), (width) * sizeof(T)); } bad_; })
"""
ROWS_ADD = """
#define NS_ROWS_ADD(T, out, x, at, count, n, width) ({ int bad_ = 0; \\
  memset(out, 0, (i64)(n) * (width) * sizeof(T)); \\
  for (i64 a_ = 0; a_ < (count); a_++) { i64 k_ = (at)[a_]; \\
    if (k_ < -(i64)(n) || k_ >= (n)) { bad_ = 1; break; } \\
    k_ += k_ < 0 ? (n) : 0; T *o_ = (out) + k_ * (width); const T *q_ = (x) + a_ * (width); \\
    _Pragma("omp simd") for (i64 i_ = 0; i_ < (width); i_++) o_[i_] += q_[i_]; } bad_; })
"""
ALONG = """
#define NS_ALONG(T, out, x, at, before, n, count, behind, least) ({ int bad_ = 0; \\
  for (i64 a_ = 0; a_ < (before); a_++) for (i64 c_ = 0; c_ < (count); c_++) \\
    for (i64 b_ = 0; b_ < (behind); b_++) { \\
      const i64 j_ = (a_ * (count) + c_) * (behind) + b_; i64 k_ = (at)[j_]; \\
      if (k_ < (least) || k_ >= (n)) { bad_ = 1; k_ = 0; } \\
      k_ += k_ < 0 ? (n) : 0; (out)[j_] = (x)[(a_ * (n) + k_) * (behind) + b_]; } bad_; })
"""
ALONG_ADD = """
#define NS_ALONG_ADD(T, out, x, at, before, n, count, behind) ({ int bad_ = 0; \\
  memset(out, 0, (i64)(before) * (n) * (behind) * sizeof(T)); \\
  for (i64 a_ = 0; a_ < (before); a_++) for (i64 c_ = 0; c_ < (count); c_++) \\
    for (i64 b_ = 0; b_ < (behind); b_++) { \\
      const i64 j_ = (a_ * (count) + c_) * (behind) + b_; i64 k_ = (at)[j_]; \\
      if (k_ < -(i64)(n) || k_ >= (n)) { bad_ = 1; continue; } \\
      k_ += k_ < 0 ? (n) : 0; (out)[(a_ * (n) + k_) * (behind) + b_] += (x)[j_]; } bad_; })
"""
TEXTS = {
    "best": BEST, "rows": ROWS, "rows_add": ROWS_ADD, "along": ALONG, "along_add": ALONG_ADD,
    **windows.TEXTS,
}  # fmt: skip


def text(needs: Iterable[str]) -> str:
    """The definitions of some helpers."""
    return "".join(TEXTS[name] for name in sorted(set(needs)))
