"""Calls of NumPy's functions: required arguments, and values for the optional ones.

Invariant: data only; arrays under `T` are tensors when nodescope runs the call.
"""

from __future__ import annotations

import io
import os
from typing import Any, NamedTuple

import numpy as np


class T(NamedTuple):
    """An array that is a tensor in our run."""

    array: Any


class Out(NamedTuple):
    """``out=``: zeros of the result's shape and dtype."""


class Like(NamedTuple):
    """``mean=`` of a variance: the mean with ``keepdims``."""


A = np.array([[2.5, -1.25, 0.5, 3.0], [-4.0, 1.75, -0.75, 2.0], [1.5, 4.25, -2.5, -3.5]])
B = np.array([[1.0, 0.5, -2.0, 1.5], [2.25, -0.5, 3.0, -1.0], [0.25, 1.25, -1.75, 2.75]])
V, W = np.array([3.5, -1.25, 0.5, 2.0, -4.0]), np.array([0.5, 1.5, -1.0])
SQUARE = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, -0.5], [0.5, -0.5, 5.0]])
SLANTED = np.array([[4.0, 1.0, 0.5], [-1.0, 3.0, -0.5], [2.5, 1.5, 5.0]])
HOLES = np.where(A == -4.0, np.nan, A)
CUBE = np.arange(24.0).reshape(2, 3, 4) / 7 - 1
N = np.array([3, 1, 2, 1, 3, 0])
UP = np.array([-2.0, 0.5, 1.5, 3.0])
MASK = A > 0
ROWS = np.array([True, False, True])
ORDER = np.array([[2, 0, 1, 3], [0, 1, 2, 3], [3, 2, 1, 0]])
FOUR_AXES = (np.arange(16.0).reshape(4, 4) / 9 + 2 * np.eye(4)).reshape(2, 2, 2, 2)
BITS = np.array([3, 5, 200], np.uint8)

PAIR = ([T(A), T(B)],)

FIRST: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(["append", "array_equal", "array_equiv", "allclose", "isclose"], (T(A), T(B))),
    **dict.fromkeys(["concatenate", "concat", "stack", "vstack", "hstack", "dstack",
                     "column_stack", "row_stack"], PAIR),
    **dict.fromkeys(["partition", "argpartition"], (T(A), 1)),
    **dict.fromkeys(["array_split", "hsplit"], (T(A), 2)), "split": (T(SQUARE), 3),
    "unique": (T(N),),
    **dict.fromkeys(["convolve", "correlate"], (T(V), T(W))),
    **dict.fromkeys(["cumulative_sum", "cumulative_prod", "trim_zeros", "ediff1d", "polyder",
                     "polyint", "roots", "poly"], (T(V),)),
    **dict.fromkeys(["nanmax", "nanmin", "nansum", "nanprod", "nanmean", "nanstd", "nanvar",
                     "nanmedian", "nanargmax", "nanargmin", "nancumsum", "nancumprod",
                     "nan_to_num"], (T(HOLES),)),
    **dict.fromkeys(["quantile", "nanquantile"], (T(A), 0.3)),
    **dict.fromkeys(["percentile", "nanpercentile"], (T(A), [30, 70])),
    **dict.fromkeys(["intersect1d", "setdiff1d", "setxor1d", "union1d", "isin"],
                    (T(A), T(B))),
    **dict.fromkeys(["polyadd", "polysub", "polymul", "polydiv"], (T(V), T(W))),
    **dict.fromkeys(["may_share_memory", "shares_memory", "inner", "vdot"], (T(A), T(B))),
    **dict.fromkeys(["real", "imag", "real_if_close", "angle"], (T(A * (1 + 0.5j)),)),
    "astype": (T(A), "float32"), "average": (T(A),), "bincount": (T(N),),
    "apply_along_axis": (np.sum, 0, T(A)), "apply_over_axes": (np.sum, T(A), [0]),
    "block": ([[T(A)], [T(B)]],), "broadcast_arrays": (T(A), T(A[0])),
    "broadcast_to": (T(A), (2, 3, 4)), "choose": (T(N[:4] % 2), [T(A[0]), T(A[1])]),
    "clip": (T(A), -1.0, 1.0), "compress": (ROWS, T(A)), "copyto": (T(A), T(B)),
    "corrcoef": (T(A),), "cov": (T(A),), "cross": (T(A[:, :3]), T(B[:, :3])),
    "delete": (T(A), 1), "diag": (T(A),), "diff": (T(A),), "digitize": (T(A), UP),
    "diag_indices_from": (T(SQUARE),), "diagflat": (T(V),),
    "dot": (T(A), T(B.T)), "dsplit": (T(CUBE), 2), "vsplit": (T(A), 3),
    "einsum": ("ij,kj->ik", T(A), T(B)), "einsum_path": ("ij,kj->ik", T(A), T(B)),
    "expand_dims": (T(A), 0), "extract": (MASK, T(A)), "fill_diagonal": (T(A), 7.0),
    "full_like": (T(A), 3.0), "from_dlpack": (T(A),), "gradient": (T(A),),
    "histogram": (T(A),), "histogram2d": (T(V), T(V)), "histogramdd": (T(A),),
    "insert": (T(A), 1, 9.0), "interp": (T(V), UP, T(A[0])), "ix_": (T(N[:2]), T(N[2:4])),
    "kron": (T(A), T(W)), "lexsort": (T(A),), "matrix_transpose": (T(A),),
    "meshgrid": (T(V), T(W)), "min_scalar_type": (T(A),), "moveaxis": (T(CUBE), 0, 2),
    "outer": (T(V), T(W)), "packbits": (T(BITS),), "unpackbits": (T(BITS),),
    "pad": (T(A), 1), "piecewise": (T(A), [MASK, ~MASK], [1.0, np.negative]),
    "place": (T(A), MASK, [7.0, 8.0]), "put": (T(A), [1, 2], [7.0, 8.0]),
    "put_along_axis": (T(A), ORDER[:, :1], 7.0, 1), "putmask": (T(A), MASK, 7.0),
    "polyfit": (T(V), T(V), 1), "polyval": (T(W), T(V)),
    "ravel_multi_index": ((T(N % 3), T(N % 2)), (3, 4)), "unravel_index": (T(N), (3, 4)),
    "repeat": (T(A), 2), "reshape": (T(A), (2, 6)), "resize": (T(A), (5, 3)),
    "result_type": (T(A), np.float32), "can_cast": (T(A), np.float32), "common_type": (T(A),),
    "roll": (T(A), 1), "rollaxis": (T(CUBE), 2), "searchsorted": (T(UP), T(A)),
    "select": ([MASK, ~MASK], [T(A), T(B)]), "take": (T(A), [0, 2]),
    "take_along_axis": (T(A), ORDER), "swapaxes": (T(A), 0, 1),
    "tensordot": (T(SQUARE), T(SLANTED)), "tile": (T(A), 2), "where": (MASK, T(A), T(B)),
    "tril_indices_from": (T(SQUARE),), "triu_indices_from": (T(SQUARE),),
    "vander": (T(V),), "squeeze": (T(A[:, :1]),), "trace": (T(A),), "unstack": (T(A),),
    "nditer": (T(A),), "nested_iters": (T(A), [[0], [1]]), "save": (os.devnull, T(A)),
    "savetxt": (os.devnull, T(A)), "savez": (io.BytesIO(), T(A)),
    "savez_compressed": (io.BytesIO(), T(A)), "fromiter": (T(V), float),
    "format_float_positional": (T(V[0]),), "format_float_scientific": (T(V[0]),),
    "full": (2, T(V[0])), "linspace": (0, T(V[0]), 3), "geomspace": (1, T(V[0]), 3),
    "logspace": (0, T(V[0]), 3), "array2string": (T(A),), "array_repr": (T(A),),
    "sort_complex": (T(V),), "unwrap": (T(V * 3),), "trapezoid": (T(A),),
    "linalg.cholesky": (T(SQUARE),), "linalg.cross": (T(A[:, :3]), T(B[:, :3])),
    **dict.fromkeys(["linalg.det", "linalg.inv", "linalg.slogdet", "linalg.eig",
                     "linalg.eigvals", "linalg.cond"], (T(SLANTED),)),
    **dict.fromkeys(["linalg.eigh", "linalg.eigvalsh"], (T(SQUARE),)),
    "linalg.matrix_rank": (T(SQUARE),), "linalg.pinv": (T(SQUARE),), "linalg.svd": (T(SQUARE),),
    "linalg.lstsq": (T(A.T), T(B.T)), "linalg.matmul": (T(A), T(B.T)),
    "linalg.matrix_power": (T(SQUARE), 3), "linalg.multi_dot": ([T(A), T(B.T), T(A)],),
    "linalg.outer": (T(V), T(W)), "linalg.solve": (T(SQUARE), T(A)),
    "linalg.tensordot": (T(SQUARE), T(SLANTED)), "linalg.tensorinv": (T(FOUR_AXES),),
    "linalg.tensorsolve": (T(FOUR_AXES), T(A[:2, :2])), "linalg.vecdot": (T(A), T(B)),
    **dict.fromkeys(["fft.fft2", "fft.ifft2", "fft.rfft2", "fft.irfft2", "fft.fftn", "fft.ifftn",
                     "fft.rfftn", "fft.irfftn"], (T(A),)),
    # Methods
    ".astype": ("float32",), ".choose": ([T(A[0]), T(A[1])],), ".clip": (-1.0, 1.0),
    ".compress": (ROWS,), ".dot": (T(B.T),), ".fill": (7.0,), ".partition": (1,),
    ".argpartition": (1,), ".put": ([1, 2], [7.0, 8.0]), ".repeat": (2,), ".reshape": (2, 6),
    ".resize": (12,), ".searchsorted": (T(A),), ".swapaxes": (0, 1), ".take": ([0, 2],),
    ".to_device": ("cpu",), ".tofile": (os.devnull,), ".dump": (os.devnull,),
    ".getfield": ("float64",), ".setfield": (7.0, "float64"), ".itemset": (0, 1.0),
}  # fmt: skip
"""The required arguments, of functions by name (with the module), of methods after a dot."""

OF_METHODS: dict[str, Any] = {
    "choose": N[:4] % 2, "searchsorted": UP, "squeeze": A[:, :1], "item": np.array([2.5]),
    "conj": A * (1 + 0.5j), "conjugate": A * (1 + 0.5j),
}  # fmt: skip
"""The objects of methods, if not `A`."""

VALUES: dict[str, list[Any]] = {
    "axis": [0, -1, (0, 1), None], "dtype": ["float32", "float64", "complex128", "int64"],
    "out": [Out()], "keepdims": [True, False], "initial": [2.0, 0.5], "where": [MASK, A[0] > 0],
    "order": ["C", "F", "A", "K"], "casting": ["same_kind", "unsafe", "safe"],
    "ddof": [1, 0.5], "correction": [1], "mean": [Like()], "decimals": [1, -1],
    "kind": ["stable", "quicksort", "heapsort"], "stable": [True, False],
    "side": ["left", "right"], "sorter": [np.array([0, 1, 2, 3])], "returned": [True],
    "optimize": [True, False, "greedy", "optimal"], "subok": [True, False],
    "shape": [(2, 2), 5], "device": ["cpu"], "copy": [True, False], "offset": [1, -1],
    "axis1": [1], "axis2": [0], "axisa": [0, -1], "axisb": [0, -1], "axisc": [0, -1],
    "axes": [(0, 1), (1, 0)], "a_min": [-1.0, T(B), None], "a_max": [1.0, T(B), None],
    "min": [-1.0, T(B), None], "max": [1.0, T(B), None], "k": [1, -1], "n": [2, 5],
    "prepend": [0.0, T(A[:, :1])], "append": [0.0, T(A[:, :1])], "deg": [True],
    "rtol": [0.1], "atol": [0.1], "equal_nan": [True], "weights": [T(np.abs(A)), np.abs(B)],
    "minlength": [6], "right": [True, 5.0], "left": [-5.0], "period": [2.0], "decreasing": [True],
    "mode": ["wrap", "clip", "raise"], "rowvar": [False], "bias": [True],
    "fweights": [np.array([1, 2, 1, 3])], "aweights": [np.array([1.0, 2.0, 1.0, 0.5])],
    "y": [T(B)], "to_end": [T(W), 1.0], "to_begin": [T(W), 1.0], "density": [True],
    "bins": [4, UP, "auto"], "range": [(-3.0, 3.0)], "assume_unique": [True],
    "invert": [True], "return_indices": [True], "return_index": [True], "return_inverse": [True],
    "return_counts": [True], "sorted": [True, False], "sparse": [True], "indexing": ["ij", "xy"],
    "norm": ["ortho", "forward", "backward"], "s": [(2, 3), (4, 4)], "UPLO": ["L", "U"],
    "full_matrices": [False], "compute_uv": [False, True], "hermitian": [True, False],
    "ord": [None, 1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc", 3, 0],
    "p": [None, 1, -1, 2, -2, np.inf, "fro"], "rcond": [None, 0.2], "tol": [0.2],
    "upper": [True], "ind": [2], "method": ["linear", "lower", "higher", "midpoint", "nearest",
                                            "hazen", "weibull", "median_unbiased"],
    "overwrite_input": [True], "nan": [1.0], "posinf": [2.0], "neginf": [-2.0],
    "include_initial": [True], "edge_order": [2], "dx": [0.5], "x": [np.arange(4.0) ** 2],
    "discont": [4.0], "trim": ["f", "b"], "N": [2, 7], "increasing": [True], "wrap": [True],
    "default": [5.0, T(B)], "start": [1], "refcheck": [False], "returns": [],
    "precision": [3], "max_line_width": [40], "suppress_small": [True], "separator": [";"],
    "max_work": [10], "inplace": [False], "bitorder": ["little"], "count": [3], "tolerance": [1],
    "order_": [], "num": [4], "endpoint": [False], "retstep": [True], "base": [2.0],
    "stream": [None], "prefix": ["x"], "threshold": [2], "edgeitems": [1], "sign": ["+"],
    "floatmode": ["fixed"], "suffix": ["x"], "legacy": ["1.25"], "formatter": [{}],
    "m": [2], "full": [True], "w": [np.ones(5)], "cov": [True], "allow_pickle": [False],
}  # fmt: skip
"""Values of optional arguments by name; calls that NumPy refuses are not tried on tensors."""

SPECIAL: dict[str, list[Any]] = {
    "sort.order": [None], "argsort.order": [None], "partition.order": [None],
    "argpartition.order": [None], ".sort.order": [None], ".argsort.order": [None],
    ".partition.order": [None], ".argpartition.order": [None],
    "partition.kind": ["introselect"], "argpartition.kind": ["introselect"],
    ".partition.kind": ["introselect"], ".argpartition.kind": ["introselect"],
    "isin.kind": [None, "sort", "table"], "convolve.mode": ["full", "same", "valid"],
    "correlate.mode": ["full", "same", "valid"], "can_cast.casting": ["safe", "unsafe"],
    "pad.mode": ["constant", "edge", "reflect", "symmetric", "wrap", "linear_ramp", "maximum",
                 "mean", "median", "minimum", "empty"],
    "linalg.qr.mode": ["reduced", "complete", "r", "raw"],
    "bincount.weights": [T(np.arange(6.0)), np.arange(6.0)],
    "median.weights": [], "rot90.k": [0, 1, 2, -1], "rot90.axes": [(1, 0)],
    "transpose.axes": [(1, 0), None], "permute_dims.axes": [(1, 0), None],
    "trapezoid.x": [np.arange(4.0) ** 2, T(np.arange(4.0) ** 2)],
    "tensordot.axes": [1, ([1], [0]), (1, 0)], "linalg.tensordot.axes": [1, ([1], [0])],
    "linalg.tensorsolve.axes": [None, (0,)], "linalg.tensorinv.ind": [2],
    "clip.min": [], "clip.max": [], ".clip.min": [], ".clip.max": [], "clip.a_min": [],
    "clip.a_max": [], "histogram.weights": [np.abs(B), T(np.abs(A))],
    "quantile.weights": [np.abs(B)], "percentile.weights": [np.abs(B)],
    "nanquantile.weights": [np.abs(B)], "nanpercentile.weights": [np.abs(B)],
    "array_equal.equal_nan": [True], "unwrap.period": [5.0], "interp.right": [5.0],
    "interp.left": [-5.0], "interp.period": [2.0], "diag.k": [1, -1],
    "linalg.lstsq.rcond": [None, 0.1], "delete.axis": [0, 1, None], "lexsort.axis": [0, -1],
    "roll.axis": [0, 1, None, (0,)], "cov.y": [T(B)], "searchsorted.sorter": [np.arange(4)],
    ".searchsorted.sorter": [np.arange(4)], "take.mode": ["raise", "wrap", "clip"],
    "vander.N": [2, 7], "tri.k": [1], "polyfit.rcond": [0.1], "resize.refcheck": [],
    "fft.fft2.axes": [(0, 1), (1, 0), (-1, 0)], "fft.ifft2.axes": [(0, 1), (1, 0)],
    "full_like.shape": [(2, 2), 5], "size.axis": [0, 1, None], "nan_to_num.copy": [True, False],
    "average.weights": [T(np.abs(A)), np.abs(B)], "linspace.num": [],
    "gradient.axis": [0, 1, (0, 1), None], ".reshape.copy": [True],
    **{f"format_float_{how}.{key}": [value] for how in ("positional", "scientific")
       for key, value in (("trim", "-"), ("sign", True), ("unique", True), ("pad_left", 6),
                          ("pad_right", 6), ("min_digits", 2), ("exp_digits", 3),
                          ("fractional", True))},
}  # fmt: skip
"""Values of an argument of one function, in place of those of `VALUES`."""

ALONE: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "clip(min=, max=)": ((T(A),), {"min": -1.0, "max": T(B)}),
    "clip(min=)": ((T(A),), {"min": -1.0}),
    "clip(max=)": ((T(A),), {"max": 1.0}),
    ".clip(min=)": ((), {"min": -1.0}),
    ".clip(max=)": ((), {"max": 1.0}),
    ".clip(out=)": ((-1.0, 1.0), {"out": Out()}),
    ".reshape(shape)": (((4, 3),), {}),
    ".reshape(order=)": (((4, 3),), {"order": "F"}),
    ".transpose(axes)": (((1, 0),), {}),
    ".transpose(*axes)": ((1, 0), {}),
    ".sum(0, None, None)": ((0, None, None), {}),
    "sum(x, 0, None, None, True)": ((T(A), 0, None, None, True), {}),
    ".mean(0, None)": ((0, None), {}),
    ".max(1, None)": ((1, None), {}),
    ".std(0, None, None, 1)": ((0, None, None, 1), {}),
    ".cumsum(0, float)": ((0, "float64"), {}),
    ".trace(1, 0, 1)": ((1, 0, 1), {}),
    ".take(i, 1, None, wrap)": (([1, 9], 1, None, "wrap"), {}),
    ".argsort(0)": ((0,), {}),
    ".sort(0)": ((0,), {}),
    ".round(1)": ((1,), {}),
    ".astype(float32, F)": (("float32", "F"), {}),
    ".max(initial=, where=)": ((), {"initial": 0.0, "where": MASK}),
    "max(initial=, where=)": ((T(A),), {"initial": 0.0, "where": MASK}),
    "min(initial=, where=, axis=)": ((T(A),), {"initial": 9.0, "where": MASK, "axis": 0}),
    "sum(initial=, where=, axis=, dtype=)": (
        (T(A),), {"initial": 9.0, "where": MASK, "axis": 0, "dtype": "float32"},
    ),
    "var(where=, ddof=)": ((T(A),), {"where": MASK, "ddof": 1}),
    ".var(where=, ddof=, keepdims=)": ((), {"where": MASK, "ddof": 1, "keepdims": True}),
    "linalg.norm(ord=, axis=)": ((T(A),), {"ord": 3, "axis": 0}),
    "linalg.norm(ord=, axis=, keepdims=)": ((T(A),), {"ord": 1, "axis": (0, 1), "keepdims": True}),
    "pad(mode=edge)": ((T(A), ((1, 2), (0, 1))), {"mode": "edge"}),
    "pad(constant_values=)": ((T(A), 1), {"constant_values": (2.0, 3.0)}),
    "pad(end_values=)": ((T(A), 2), {"mode": "linear_ramp", "end_values": 3.0}),
    "pad(stat_length=)": ((T(A), 2), {"mode": "maximum", "stat_length": 2}),
    "pad(reflect_type=)": ((T(A), 2), {"mode": "reflect", "reflect_type": "odd"}),
    "einsum(sublists)": ((T(A), [0, 1], T(B), [2, 1], [0, 2]), {}),
    "einsum(dtype=)": (("ij,kj->ik", T(A), T(B)), {"dtype": "complex128"}),
    "einsum(order=)": (("ij,kj->ik", T(A), T(B)), {"order": "F"}),
    "einsum(casting=)": (("ij,kj->ik", T(A), T(B)), {"casting": "unsafe"}),
    "gradient(spacing)": ((T(A), 0.5, np.array([0.0, 1.0, 3.0, 4.0])), {}),
    "insert(list)": ((T(A), [1, 2], T(B[:, :2]), 1), {}),
    "where(condition)": ((T(MASK),), {}),
    **{f"{name}(initial=, where=)": ((T(HOLES if "nan" in name else A),),
                                     {"initial": 1.0, "where": MASK})
       for name in ("amax", "amin", "nanmax", "nanmin")},
    ".min(initial=, where=)": ((), {"initial": 1.0, "where": MASK}),
    **{f"{name}(weights=, method=)": ((T(A), share),
                                      {"weights": np.abs(B), "method": "inverted_cdf"})
       for name, share in (("quantile", 0.3), ("nanquantile", 0.3), ("percentile", [30, 70]),
                           ("nanpercentile", [30, 70]))},
    **{f"{name}(axis1=, axis2=)": (() if name[0] == "." else (T(CUBE),), {"axis1": 1, "axis2": 0})
       for name in ("trace", "diagonal", ".trace", ".diagonal")},
    "clip(a_min=, a_max=)": ((T(A),), {"a_min": -1.0, "a_max": 1.0}),
    "linspace(num=)": ((0, T(V[0])), {"num": 4}),
    "logspace(num=)": ((0, T(V[0])), {"num": 4}),
    "matmul(axes=)": ((T(SQUARE), T(CUBE)), {"axes": [(1, 0), (1, 2), (2, 0)]}),
    "matvec(axes=)": ((T(CUBE), T(A)), {"axes": [(0, 1), 0, -1]}),
    "vecmat(axes=)": ((T(A), T(CUBE)), {"axes": [1, (2, 0), 0]}),
    "vecdot(axes=)": ((T(SQUARE), T(SLANTED)), {"axes": [0, 1]}),
    "vecdot(axes=, out)": ((T(SQUARE), T(SLANTED)), {"axes": [0, 1, ()], "out": Out()}),
    "vecdot(axis=)": ((T(A), T(B)), {"axis": 0}),
    "vecdot(axis=, keepdims=)": ((T(A), T(B)), {"axis": 0, "keepdims": True}),
    "vecdot(keepdims=)": ((T(A), T(B)), {"keepdims": True}),
    "vecdot(axes=, keepdims=)": ((T(A), T(B)), {"axes": [0, 0, 0], "keepdims": True}),
    "average(weights=, axis=, returned=)": (
        (T(A),), {"weights": W, "axis": 0, "returned": True},
    ),
}  # fmt: skip
"""Calls with several arguments, or with arguments by position."""

WITHOUT_ARRAYS = frozenset([
    "arange", "asmatrix", "bartlett", "base_repr", "binary_repr", "blackman", "bmat",
    "broadcast_shapes", "busday_count", "busday_offset", "datetime_as_string", "datetime_data",
    "diag_indices", "empty", "empty_like", "eye", "fft.fftfreq", "fft.rfftfreq", "frombuffer",
    "fromfile", "fromfunction", "frompyfunc", "fromregex", "fromstring", "genfromtxt",
    "get_include", "get_printoptions", "getbufsize", "geterr", "geterrcall", "hamming",
    "hanning", "identity", "indices", "info", "is_busday", "isdtype", "isnat", "issubdtype",
    "kaiser", "load", "loadtxt", "mask_indices", "mintypecode", "ones", "printoptions",
    "promote_types", "set_printoptions", "setbufsize", "seterr", "seterrcall", "show_config",
    "show_runtime", "tri", "tril_indices", "triu_indices", "typename", "zeros",
])  # fmt: skip
"""Functions of sizes, names, files and dates, and those that make NumPy's legacy
classes or arrays of any values."""

UNTRIED = frozenset(
    # Internal to NumPy; aliases of min and max; not arguments of the methods.
    ["einsum_path einsum_call", ".clip a_min", ".clip a_max", ".std correction", ".var correction"]
)
"""Arguments that are not tested."""

ATTRIBUTES = (
    "T base ctypes device dtype flags flat imag itemsize mT nbytes ndim real shape size strides"
)
"""Attributes of arrays; ``data`` is NumPy's buffer there and the array here."""

_COUNTS = np.arange(1, 7).reshape(2, 3)
UFUNC_OPERANDS: list[tuple[Any, ...]] = [
    (A, B), (np.abs(A) / 5, np.abs(B)), (_COUNTS, np.arange(6).reshape(2, 3) % 3),
    (MASK, ~MASK), (SQUARE, SLANTED),
]  # fmt: skip
"""What ufuncs are tried with; the first that NumPy takes without NaN."""

UFUNC_CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("", "", {}), ("", "out", {"out": Out()}), ("", "out, where", {"out": Out(), "where": True}),
    ("", "dtype", {"dtype": "float32"}), ("", "dtype", {"dtype": "complex128"}),
    ("", "casting", {"casting": "unsafe"}), ("", "casting", {"casting": "no"}),
    ("", "order", {"order": "F"}), ("", "subok", {"subok": False}),
    (".reduce", "", {}), (".reduce", "axis", {"axis": 1}), (".reduce", "axis", {"axis": None}),
    (".reduce", "keepdims", {"keepdims": True}), (".reduce", "out", {"out": Out()}),
    (".reduce", "dtype", {"dtype": "float64"}), (".reduce", "initial", {"initial": 1}),
    (".reduce", "where", {"where": "mask", "initial": 1}),
    (".accumulate", "", {}), (".accumulate", "axis", {"axis": 1}),
    (".accumulate", "dtype", {"dtype": "float64"}), (".accumulate", "out", {"out": Out()}),
    (".outer", "", {}), (".outer", "dtype", {"dtype": "float64"}),
    (".reduceat", "", {}), (".reduceat", "axis", {"axis": 1}), (".at", "", {}),
]  # fmt: skip
"""How ufuncs are called: method, what to call the argument, arguments."""

_KEPT = "the input stays as it is"
_REAL = "is real, as a variance or deviation is"
_WRITTEN = "`out` is written to; NumPy does not"
DIFFERENT: dict[str, str] = {
    "array_repr": "says `tensor(...)`, and the dtype",
    "array_str": "says `tensor(...)`, and the dtype",
    "empty_like": "zeros, so that runs repeat",
    "unique sorted": "sorted all the same",
    "pad mode": "fills with zeros, so that runs repeat",
    "fromiter": "gives an array: Python's `float()` of each element leaves the graph",
    **dict.fromkeys(
        ["nditer", "nested_iters"],
        "NumPy's own `TypeError`: it does not ask the tensor. Iterate over `x.ravel()`",
    ),
    **{f"{nan}{name} overwrite_input": _KEPT
       for nan in ("", "nan") for name in ("median", "quantile", "percentile")},
    **{f"{name} dtype": _REAL for name in ("var", "std", "nanvar", "nanstd", ".var", ".std")},
    **{f"fft.{name} out": _WRITTEN for name in ("hfft", "ifft2", "irfft2")},
}  # fmt: skip
"""Intended differences, by function and argument."""

NO_GRADIENT: dict[str, str] = {
    "full_like": "a constant", "ones_like": "a constant", "zeros_like": "a constant",
    "floor_divide": "steps", "floor_divide.outer": "steps", "spacing": "steps",
    "linalg.vector_norm ord": "a count",
    "empty_like": "a constant", "histogram": "counts and edges", "histogram_bin_edges": "edges",
}  # fmt: skip
"""Functions whose results are floating point and have no gradient, and what they are."""
