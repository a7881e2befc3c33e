"""TensorSummary: the recorded statistics of a tensor.

Invariant: nan_count, inf_count and zero_count are exact for every dtype and layout. min, max, mean,
std, norm and the histogram are over the finite elements. The array is only read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from nodescope import native
from nodescope.arrays import dtype_name
from nodescope.ir.graph import TensorSpec

BINS = 32
PREVIEW = 8

# Elements per block: what fits in the second-level cache as float64, including intermediates.
_BLOCK = 32_768
_ONE_THREAD = 8192
# Below this, squares of float64 lose digits to underflow, and the scaled path is taken.
TINY = 1e-280
# Squares and sums of numbers between 2**-300 and 2**300 are safe in float64.
_SAFE_EXPONENT = 300
# dtype.char: float32, float64, bool and the integers convert to float64 without surprises.
EXACT_IN_FLOAT64 = "fd?bhilqBHILQ"
# For these dtypes, a preview holds the elements themselves.
EXACT = frozenset(
    ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
     "float16", "float32", "float64")
)  # fmt: skip
_LARGEST = float(np.finfo(np.float64).max)


class TensorSummary(msgspec.Struct, frozen=True):
    """Statistics of a tensor at a moment.

    Attributes:
        spec: Shape and dtype of the tensor at that moment.
        nbytes: Size of its elements in bytes.
        min, max, mean, std, norm: Over finite elements, as float64; None without any. ``std`` is
            the population's (ddof 0), ``norm`` the Euclidean norm. For complex tensors these are of
            the magnitude; for bool tensors, of 0 and 1. An extreme of zero has no sign: which of
            0.0 and -0.0 is less depends on the order in which elements are compared.
        nan_count, inf_count, zero_count: Exact counts of elements.
        histogram: Counts of finite elements in equal bins from ``min`` to ``max``; empty if none.
        preview: The first elements in C order, at most 8, as float64 (or the magnitude).
        blob: Whether the full array is kept in the recording.
    """

    spec: TensorSpec
    nbytes: int
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    std: float | None = None
    norm: float | None = None
    nan_count: int = 0
    inf_count: int = 0
    zero_count: int = 0
    histogram: tuple[int, ...] = ()
    preview: tuple[float, ...] = ()
    blob: bool = False


def whole(summary: TensorSummary) -> np.ndarray[Any, Any] | None:
    """The array itself, if the preview shows all of its elements and float64 holds them exactly."""
    shape, dtype = summary.spec.shape, summary.spec.dtype
    if dtype not in EXACT or math.prod(shape) != len(summary.preview):
        return None
    array = np.array(summary.preview, np.float64)
    if dtype in ("int64", "uint64") and not (np.abs(array) < 2**53).all():
        return None
    return array.astype(dtype).reshape(shape)


def summarise(array: np.ndarray[Any, Any], *, bins: int = BINS) -> TensorSummary:
    """Statistics of an array of any numeric dtype, shape and layout.

    Moments are accumulated in float64 and scaled, so that they do not overflow. A complex element
    with a NaN part counts as NaN, otherwise one with an infinite part as infinite. Non-numeric
    dtypes (text, objects, dates) get a spec only.

    Args:
        array: The array, which is only read and never kept.
        bins: Bins of the histogram, at least 1. If all finite elements are equal, they are all in
            the first bin.
    """
    spec = TensorSpec(array.shape, dtype_name(array.dtype))
    statistics = native.statistics(array, bins)
    if statistics is not None:
        return TensorSummary(spec, array.nbytes, *statistics)
    size = array.size
    if size == 0 or not _numeric(array.dtype):
        return TensorSummary(spec, array.nbytes)
    with np.errstate(all="ignore"):
        if size <= _BLOCK and array.dtype.char in EXACT_IN_FLOAT64:
            small = _summarise_small(array, spec, bins)
            if small is not None:
                return small
        return _summarise_blocks(array, spec, bins)


def _numeric(dtype: np.dtype[Any]) -> bool:
    if dtype.kind in "biufc":
        return True
    # Types unknown to NumPy, such as ml_dtypes.bfloat16: void, scalar, without fields.
    return (
        dtype.kind == "V"
        and dtype.fields is None
        and dtype.subdtype is None
        and dtype.type is not np.void
    )


def _summarise_small(
    array: np.ndarray[Any, Any], spec: TensorSpec, bins: int
) -> TensorSummary | None:
    """The fast path, by plain reductions; None if an element is not finite or a sum would
    overflow.
    """
    flat = array.ravel().astype(np.float64, copy=False)
    squares = _squares(flat)
    # A finite sum of squares proves every element finite.
    if not squares < math.inf:
        return None
    size = flat.size
    low = float(np.minimum.reduce(flat)) + 0.0
    high = float(np.maximum.reduce(flat)) + 0.0
    if squares <= TINY and (low or high):
        return None
    mean = float(np.add.reduce(flat)) / size
    span = high - low
    if span == 0.0:
        std, histogram = 0.0, (size,) + (0,) * (bins - 1)
        mean = low
    elif span < TINY:
        return None
    else:
        centred = flat - mean
        std = math.sqrt(_squares(centred) / size)
        places = ((flat - low) * (bins / span)).astype(np.intp)
        # The maximum itself belongs to the last bin.
        counts = np.bincount(places, minlength=bins + 1).tolist()
        counts[bins - 1] += sum(counts[bins:])
        histogram = tuple(counts[:bins])
    return TensorSummary(
        spec,
        array.nbytes,
        low,
        high,
        mean,
        std,
        math.sqrt(squares),
        0,
        0,
        size - int(np.count_nonzero(array)),
        histogram,
        tuple(flat[:PREVIEW].tolist()),
    )


def _summarise_blocks(array: np.ndarray[Any, Any], spec: TensorSpec, bins: int) -> TensorSummary:
    """Any numeric array, block by block: extremes and moments first, then the histogram."""
    nan = inf = zero = 0
    moments = _Moments()
    for block in _blocks(array):
        finite, nans, infs = _finite(block)
        nan, inf = nan + nans, inf + infs
        # Comparing first is faster than counting nonzero numbers; the counts are equal.
        plain = block.dtype.char in EXACT_IN_FLOAT64
        zeros = np.count_nonzero(block == 0) if plain else block.size - np.count_nonzero(block)
        zero += int(zeros)
        moments.add(finite)
    preview = tuple(_finite(np.asarray(array.flat[:PREVIEW]), keep=True)[0].tolist())
    if not moments.count:
        return TensorSummary(
            spec,
            array.nbytes,
            nan_count=nan,
            inf_count=inf,
            zero_count=zero,
            preview=preview,
        )
    return TensorSummary(
        spec,
        array.nbytes,
        moments.low,
        moments.high,
        moments.mean,
        moments.std,
        moments.norm,
        nan,
        inf,
        zero,
        _histogram(array, moments, bins),
        preview,
    )


def _blocks(array: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """One-dimensional read-only blocks that together make up the array, in any order."""
    if array.flags.c_contiguous:
        flat = array.reshape(-1)
        for start in range(0, flat.size, _BLOCK):
            yield flat[start : start + _BLOCK]
        return
    blocks = np.nditer(
        array,
        flags=["external_loop", "buffered"],
        op_flags=["readonly"],
        order="K",
        buffersize=_BLOCK,
    )
    for block in blocks:
        yield np.asarray(block)


def _finite(
    block: np.ndarray[Any, Any], *, keep: bool = False
) -> tuple[np.ndarray[Any, np.dtype[np.float64]], int, int]:
    """The finite elements as float64 (magnitudes of complex ones), and the NaN and Inf counts.

    With ``keep``, non-finite elements stay among them.
    """
    kind = block.dtype.kind
    if kind in "biu":
        return block.astype(np.float64), 0, 0
    if block.dtype.char in "fd":
        values = block.astype(np.float64, copy=False)
        # A finite sum of squares proves every element finite.
        if _squares(values) < math.inf:
            return values, 0, 0
    if kind == "V":
        block = block.astype(np.float64)
    elif block.dtype.char == "F":
        block = block.astype(np.complex128)  # magnitudes of finite numbers may exceed float32
    nans = np.isnan(block)
    infs = np.isinf(block)
    values = np.abs(block) if kind == "c" else block
    values = values.astype(np.float64, copy=False)
    if kind == "c" or block.dtype.itemsize > 8:
        infs &= ~nans
        # Finite, but its float64 value or magnitude would overflow: replaced by the largest
        # float64.
        over = ~(nans | infs) & np.isinf(values)
        if over.any():
            values = np.where(over, np.copysign(_LARGEST, values), values)
        values = np.where(nans, np.nan, values)
    nan_count, inf_count = int(np.count_nonzero(nans)), int(np.count_nonzero(infs))
    if (nan_count or inf_count) and not keep:
        values = values[~(nans | infs)]
    return values, nan_count, inf_count


def _squares(values: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """The sum of the squares of a one-dimensional array."""
    # Above this size, BLAS would start threads and wait for them; the program needs these cores.
    if values.size <= _ONE_THREAD:
        return float(values.dot(values))
    return float(np.einsum("i,i->", values, values))


class _Moments:
    """Running extremes, mean and sums of squares, all divided by a common power of two.

    The divisor is 1 unless squares would overflow or vanish; then it is the largest magnitude so
    far.
    """

    def __init__(self) -> None:
        self.count = 0
        self.low = math.inf
        self.high = -math.inf
        self._exponent = -1100
        self._mean = 0.0
        self._centred = 0.0
        self._squares = 0.0

    def add(self, block: np.ndarray[Any, np.dtype[np.float64]]) -> None:
        """Accumulate finite elements."""
        size = block.size
        if not size:
            return
        low, high = float(block.min()) + 0.0, float(block.max()) + 0.0
        self.low, self.high = min(self.low, low), max(self.high, high)
        self._rescale(math.frexp(max(abs(low), abs(high)))[1])
        scaled = self.scaled(block)
        mean = float(np.add.reduce(scaled)) / size
        centred = scaled - mean
        # Chan's formula merges the moments of two parts without cancellation.
        total = self.count + size
        apart = mean - self._mean
        self._centred += _squares(centred) + apart * apart * (self.count * size / total)
        self._mean += apart * (size / total)
        self._squares += _squares(scaled)
        self.count = total

    def _rescale(self, exponent: int) -> None:
        if -_SAFE_EXPONENT < exponent < _SAFE_EXPONENT:
            exponent = 0
        if exponent <= self._exponent:
            return
        shift = self._exponent - exponent
        self._mean = math.ldexp(self._mean, shift)
        self._centred = math.ldexp(self._centred, 2 * shift)
        self._squares = math.ldexp(self._squares, 2 * shift)
        self._exponent = exponent

    def _unscale(self, value: float) -> float:
        try:
            return math.ldexp(value, self._exponent)
        except OverflowError:  # only a norm or a standard deviation can truly exceed every float64
            return math.inf

    @property
    def mean(self) -> float:
        # Rounding must not carry the mean outside the range of the elements.
        return min(max(self._unscale(self._mean), self.low), self.high)

    @property
    def std(self) -> float:
        if self.low == self.high:
            return 0.0
        return self._unscale(math.sqrt(self._centred / self.count))

    @property
    def norm(self) -> float:
        return self._unscale(math.sqrt(self._squares))

    def scaled(
        self, block: np.ndarray[Any, np.dtype[np.float64]]
    ) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Elements divided by the power of two."""
        # ldexp is exact for every exponent, but some twenty times slower than no division.
        return np.ldexp(block, -self._exponent) if self._exponent else block


def _histogram(array: np.ndarray[Any, Any], moments: _Moments, bins: int) -> tuple[int, ...]:
    low, high = moments.scaled(np.array([moments.low, moments.high])).tolist()
    if low == high:
        return (moments.count,) + (0,) * (bins - 1)
    counts = np.zeros(bins, dtype=np.int64)
    scale = bins / (high - low)
    for block in _blocks(array):
        distance = moments.scaled(_finite(block)[0]) - low
        distance *= scale
        places = distance.astype(np.intp)
        np.minimum(places, bins - 1, out=places)
        counts += np.bincount(places, minlength=bins)
    return tuple(counts.tolist())
