"""Weighing: which operands of an element matter most.

Invariant: bounded in what is weighed one by one; of more, what stands out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nodescope.debug.why.births import state_of, told
from nodescope.debug.why.points import Opened
from nodescope.events import Array
from nodescope.ops.dependence import Made
from nodescope.ops.reading import flat

MOST_CANDIDATES = 1024
"""Operands of one port that are weighed one by one; of more, those that stand out."""

_BY_SIZE = {"add", "subtract"}
_BY_EXP = {"softmax", "log_softmax", "logsumexp", "logaddexp", "logaddexp2"}
_BY_FACTOR = {"multiply", "divide", "power", "float_power"}
_PICKS = {"maximum", "minimum", "fmax", "fmin"}
# The others only say what becomes of the first operand.
_BY_FIRST = {"remainder", "fmod", "copysign", "heaviside", "ldexp", "nextafter", "left_shift",
             "right_shift"}  # fmt: skip
_ONE_ZERO = {"logical_and", "bitwise_and", "all", "cumprod", "lcm"}
_ALL_ZERO = {"logical_or", "bitwise_or", "logical_xor", "bitwise_xor", "any", "hypot",
             "vector_norm"}  # fmt: skip
_FIRST_ZERO = {"divide", "power", "float_power", "floor_divide", "remainder", "fmod"}
_KEEPS_ZERO = {
    "multiply", "sqrt", "square", "abs", "fabs", "negative", "positive", "sin", "tan",
    "tanh", "relu", "where", "astype", "copy", "assign", "expm1", "log1p", "arcsin", "arctan",
    "keep", "dropout", "clip", "maximum", "minimum", "cbrt", "leaky_relu", "gelu", "silu", "erf",
}  # fmt: skip


@dataclass
class Candidate:
    """An operand's element that may be followed; ``order`` is that of its term."""

    port: int
    position: int
    number: Any
    term: Any = None
    share: float | None = None
    order: int = 0


def candidates(opened: Opened, made: Made, op: str) -> tuple[int, list[Candidate]]:
    """How many elements of operands there are, and those to weigh, by port and order of terms."""
    found: list[Candidate] = []
    total = 0
    shares = _shares(made.terms) if made.how == "sum" else None
    for read in made.reads:
        if read.selects:
            continue
        total += read.at.size
        numbers = flat(opened.args[read.port], read.at)
        terms = made.terms if read.port in made.paired else None
        for i in _standing_out(numbers if terms is None else terms, op in _BY_EXP):
            term = None if terms is None else terms[i]
            share = None if terms is None or shares is None else float(shares[i])
            found.append(Candidate(read.port, int(read.at[i]), numbers[i], term, share, i))
    if op in _BY_SIZE and len(found) == 2:
        sizes = _shares(np.array([complex(each.number) for each in found]))
        for each, size in zip(found, sizes.tolist(), strict=True):
            each.share = size
    return total, found


def _standing_out(numbers: Array, by_value: bool) -> list[int]:
    """All, if there are not too many; else the first NaN, Inf and zeros, and the largest.

    The largest by magnitude, and ``by_value`` with their signs, too.
    """
    if numbers.size <= MOST_CANDIDATES:
        return list(range(numbers.size))
    most = MOST_CANDIDATES // 4
    with np.errstate(all="ignore"):
        sizes = np.abs(numbers.astype(np.complex128))
    chosen = [np.flatnonzero(sizes != sizes), np.flatnonzero(np.isinf(sizes))]
    chosen.append(np.flatnonzero(sizes == 0))
    if by_value:
        chosen.append(np.argsort(np.nan_to_num(-numbers.astype(np.float64)), kind="stable"))
    largest = np.argsort(np.nan_to_num(-sizes), kind="stable")
    return np.unique(np.concatenate([each[:most] for each in (*chosen, largest)])).tolist()  # type: ignore[no-any-return]


def count(opened: Opened, made: Made, state: str) -> int:
    """How many of the operands' elements are NaN, Inf or zero."""
    count = 0
    for read in made.reads:
        if not read.selects:
            with np.errstate(all="ignore"):
                sizes = np.abs(flat(opened.args[read.port], read.at).astype(np.complex128))
            tests = {"nan": sizes != sizes, "inf": np.isinf(sizes), "zero": sizes == 0}
            count += int(np.sum(tests[state]))
    return count


def told_first(
    op: str, candidates: list[Candidate], opened: Opened, made: Made, position: int
) -> list[Candidate]:
    """For `births.birth`: those of the terms first, or the own element of a softmax."""
    if made.terms is not None:
        return sorted(candidates, key=lambda each: each.port != made.paired[0])
    if op == "softmax":
        own = Candidate(0, position, element(opened.args[0], position))
        return [own, *(each for each in candidates if each.position != position)]
    return candidates


def blamed(candidates: list[Candidate], at: int, trait: str) -> list[Candidate]:
    """The candidate to blame; of a product in a sum, the factor that is to blame."""
    if not 0 <= at < len(candidates):
        return []
    first = candidates[at]
    if first.term is None:
        return [first]
    factors = [each for each in candidates if each.order == first.order and each.term is not None]
    if trait == "infinite":
        factors = [each for each in factors if state_of(each.number) == "inf"] or factors
    return [max(factors, key=lambda each: abs(complex(each.number)))]


def _shares(terms: Array | None) -> Array:
    if terms is None or not terms.size:
        return np.zeros(0)
    with np.errstate(all="ignore"):
        sizes = np.abs(terms.astype(np.complex128))
        largest = sizes.max()
        if math.isfinite(largest) and largest:
            sizes = sizes / largest  # their sum may be beyond the largest number
        total = float(sizes.sum())
        if not math.isfinite(total) or not total:
            return np.where(np.isfinite(sizes), 0.0, 1.0)
        return np.asarray(sizes / total)


def same(
    op: str, kind: str, state: str, candidates: list[Candidate], made: Made
) -> list[Candidate]:
    """Of NaN, Inf and zero: the operands that are such and pass it on."""
    if state == "finite":
        return []
    same = [each for each in candidates if state_of(each.number) == state]
    if state != "zero":
        return same
    if made.how == "sum" or op in _BY_SIZE:
        terms = made.terms if made.terms is not None else [each.number for each in candidates]
        return same if np.all(np.asarray(terms) == 0) else []
    if op in _ALL_ZERO:
        return same if len(same) == len(candidates) else []
    if op in _FIRST_ZERO:
        return [each for each in same if each.port == 0]
    keeps = op in _KEEPS_ZERO or op in _ONE_ZERO
    passes = keeps or kind in ("moved", "extreme", "ordered", "winner", "chosen", "product",
                               "replaced")  # fmt: skip
    return same if passes else []


def any_nan(opened: Opened, position: int) -> list[Candidate]:
    """A NaN among the operands that has no share by derivatives, as in a softmax of one element."""
    shape = opened.outs[opened.port].shape
    for port, each in enumerate(opened.args):
        array = np.asarray(each)
        if opened.points[port] is None or array.dtype.kind in "biu":
            continue
        with np.errstate(all="ignore"):
            places = np.flatnonzero(array != array)
        if places.size:
            here = array.shape == shape and position in places
            at = position if here else int(places[0])
            return [Candidate(port, at, element(array, at))]
    return []


def ranked(op: str, candidates: Sequence[Candidate], result: Any) -> list[Candidate]:
    """The operands by how much of the result is theirs."""

    def key(each: Candidate) -> tuple[float, float]:
        size = abs(complex(each.number)) if each.number is not None else 0.0
        size = size if math.isfinite(size) else math.inf
        if op in _PICKS:
            return float(each.number != result), -size
        if op in _BY_FIRST:
            return float(each.port), -size
        if each.share is not None:
            return -each.share, -size
        if op in _BY_EXP:
            return -float(each.number), -size
        if op in ("power", "float_power") and not size:
            return -math.inf, 0.0  # whatever it is of, it is 1
        if op in _BY_FACTOR and size:
            return -abs(math.log(size)) if math.isfinite(size) else -math.inf, -size
        return 0.0, -size

    return sorted(candidates, key=key)


def made_words(op: str, ranked: list[Candidate], opened: Opened, made: Made, total: int) -> str:
    """What a finite number was made of."""
    if not ranked:
        return f"{op} makes it of no operand"
    first = ranked[0]
    where = along(opened, made)
    if made.how == "sum" and made.terms is not None and made.terms.size > 1:
        share = f", the largest makes up {first.share:.0%}" if first.share is not None else ""
        return f"{op} of {made.terms.size:,} terms{where}{share}"
    numbers = {each.port: told(each.number) for each in reversed(ranked)}
    if total > max(len(numbers), 1):
        return f"{op} of {total:,} elements{where}"
    return f"{op} of {' and '.join(numbers[port] for port in sorted(numbers))}"


def along(opened: Opened, made: Made) -> str:
    """Which way the elements of the one operand lie: `` along axis 0 of (6, 4)``, or ``""``."""
    reads = [each for each in made.reads if not each.selects and each.at.size > 1]
    if len(reads) != 1:
        return ""
    shape = np.shape(opened.args[reads[0].port])
    places = np.unravel_index(reads[0].at, shape)
    axes = [str(axis) for axis, each in enumerate(places) if (each != each[0]).any()]
    if len(axes) == len(shape):
        return ""
    return f" along {'axis' if len(axes) == 1 else 'axes'} {' and '.join(axes)} of {shape}"


def range_of(array: Array) -> str:
    """What is in an array: its range, and how many elements are special."""
    if not array.size:
        return "is empty"
    with np.errstate(all="ignore"):
        finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array.reshape(-1)
    words = "has no finite elements"
    if finite.size:
        low, high = finite.min(), finite.max()
        words = f"ranges from {told(low)} to {told(high)}" if low != high else f"is {told(low)}"
    special = [
        ("negative", int(np.sum(array < 0))),
        ("zero", int(np.sum(array == 0))),
        ("nan", int(np.sum(array != array))),
        ("infinite", int(np.sum(np.isinf(array))) if array.dtype.kind == "f" else 0),
    ]
    told_counts = [f"{count:,} {what}" for what, count in special if count]
    more = f" ({', '.join(told_counts)} of {array.size:,})" if told_counts else ""
    return words + more


def index(array: Array, position: int) -> tuple[int, ...]:
    """The index of an element that is counted in C order."""
    return tuple(int(each) for each in np.unravel_index(position, array.shape))


def element(array: Any, position: int) -> Any:
    """The element at a position in C order."""
    return flat(array, np.array([position], np.int64))[0]
