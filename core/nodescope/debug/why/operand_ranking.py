"""Operand ranking: which operands of an element matter most.

Invariant: at most `MOST_CANDIDATES` elements of a port are ranked; of more, only the outliers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nodescope.console_output import shape_words
from nodescope.debug.why.nonfinite_origins import number_text, state_of
from nodescope.debug.why.value_tracing import Opened
from nodescope.events import Array
from nodescope.ops.reading import ElementDependence, flat
from nodescope.ops.traits import traits_of

MOST_CANDIDATES = 1024
"""The number of elements of one port up to which all are ranked; of more, only the outliers."""


@dataclass
class Candidate:
    """An operand's element that may be followed; ``order`` is the position of its term."""

    port: int
    position: int
    number: Any
    term: Any = None
    share: float | None = None
    order: int = 0


def candidates(
    opened: Opened, derivation: ElementDependence, op: str
) -> tuple[int, list[Candidate]]:
    """The total number of operand elements, and the candidates among them, in order of ports."""
    weighed: list[Candidate] = []
    total = 0
    ranking = traits_of(op).ranking
    shares = _shares(derivation.terms) if derivation.how == "sum" else None
    for read in derivation.reads:
        if read.selects:
            continue
        total += read.at.size
        numbers = flat(opened.args[read.port], read.at)
        terms = derivation.terms if read.port in derivation.paired else None
        for i in _standing_out(numbers if terms is None else terms, ranking == "exp"):
            term = None if terms is None else terms[i]
            share = None if terms is None or shares is None else float(shares[i])
            weighed.append(Candidate(read.port, int(read.at[i]), numbers[i], term, share, i))
    if ranking == "size" and len(weighed) == 2:
        sizes = _shares(np.array([complex(candidate.number) for candidate in weighed]))
        for candidate, size in zip(weighed, sizes.tolist(), strict=True):
            candidate.share = size
    return total, weighed


def _standing_out(numbers: Array, by_value: bool) -> list[int]:
    """The positions of all numbers, or of outliers if there are too many.

    Outliers are the first NaN, Inf and zeros, and the largest magnitudes; with ``by_value`` also
    the largest signed values.
    """
    if numbers.size <= MOST_CANDIDATES:
        return list(range(numbers.size))
    per_kind = MOST_CANDIDATES // 4
    with np.errstate(all="ignore"):
        sizes = np.abs(numbers.astype(np.complex128))
    chosen = [np.flatnonzero(sizes != sizes), np.flatnonzero(np.isinf(sizes))]
    chosen.append(np.flatnonzero(sizes == 0))
    if by_value:
        chosen.append(np.argsort(np.nan_to_num(-numbers.astype(np.float64)), kind="stable"))
    largest = np.argsort(np.nan_to_num(-sizes), kind="stable")
    return np.unique(np.concatenate([places[:per_kind] for places in (*chosen, largest)])).tolist()  # type: ignore[no-any-return]


def count(opened: Opened, derivation: ElementDependence, state: str) -> int:
    """The number of operand elements in a state: ``nan``, ``inf`` or ``zero``."""
    count = 0
    for read in derivation.reads:
        if not read.selects:
            with np.errstate(all="ignore"):
                sizes = np.abs(flat(opened.args[read.port], read.at).astype(np.complex128))
            tests = {"nan": sizes != sizes, "inf": np.isinf(sizes), "zero": sizes == 0}
            count += int(np.sum(tests[state]))
    return count


def blame_order(
    op: str,
    candidates: list[Candidate],
    opened: Opened,
    derivation: ElementDependence,
    position: int,
) -> list[Candidate]:
    """Candidates in the order that `nonfinite_origins.birth` requires.

    Terms of a sum come first; for a softmax, the operand's element at the result's position.
    """
    if derivation.terms is not None:
        return sorted(candidates, key=lambda candidate: candidate.port != derivation.paired[0])
    if op == "softmax":
        own_element = Candidate(0, position, element(opened.args[0], position))
        return [
            own_element,
            *(candidate for candidate in candidates if candidate.position != position),
        ]
    return candidates


def blamed(candidates: list[Candidate], at: int, trait: str) -> list[Candidate]:
    """The candidate to blame; for a product within a sum, the factor to blame."""
    if not 0 <= at < len(candidates):
        return []
    first = candidates[at]
    if first.term is None:
        return [first]
    factors = [
        candidate
        for candidate in candidates
        if candidate.order == first.order and candidate.term is not None
    ]
    if trait == "infinite":
        factors = [
            candidate for candidate in factors if state_of(candidate.number) == "inf"
        ] or factors
    return [max(factors, key=lambda candidate: abs(complex(candidate.number)))]


def _shares(terms: Array | None) -> Array:
    if terms is None or not terms.size:
        return np.zeros(0)
    with np.errstate(all="ignore"):
        sizes = np.abs(terms.astype(np.complex128))
        largest = sizes.max()
        if math.isfinite(largest) and largest:
            sizes = sizes / largest  # their sum could overflow
        total = float(sizes.sum())
        if not math.isfinite(total) or not total:
            return np.where(np.isfinite(sizes), 0.0, 1.0)
        return np.asarray(sizes / total)


def same(
    op: str, kind: str, state: str, candidates: list[Candidate], derivation: ElementDependence
) -> list[Candidate]:
    """The operands in the same state (NaN, Inf or zero) that the op passes on."""
    if state == "finite":
        return []
    alike = [candidate for candidate in candidates if state_of(candidate.number) == state]
    if state != "zero":
        return alike
    traits = traits_of(op)
    if derivation.how == "sum" or traits.ranking == "size":
        terms = (
            derivation.terms
            if derivation.terms is not None
            else [candidate.number for candidate in candidates]
        )
        return alike if np.all(np.asarray(terms) == 0) else []
    if traits.zeros == "all":
        return alike if len(alike) == len(candidates) else []
    if traits.zeros == "first":
        return [candidate for candidate in alike if candidate.port == 0]
    moves = ("moved", "extreme", "ordered", "winner", "chosen", "product", "replaced")
    passes = traits.zeros == "any" or kind in moves
    return alike if passes else []


def any_nan(opened: Opened, position: int) -> list[Candidate]:
    """A NaN among the op's inputs that the element does not depend on by derivatives."""
    shape = opened.outs[opened.port].shape
    for port, operand in enumerate(opened.args):
        array = np.asarray(operand)
        if opened.points[port] is None or array.dtype.kind in "biu":
            continue
        with np.errstate(all="ignore"):
            places = np.flatnonzero(array != array)
        if places.size:
            aligned = array.shape == shape and position in places
            at = position if aligned else int(places[0])
            return [Candidate(port, at, element(array, at))]
    return []


def ranked(op: str, candidates: Sequence[Candidate], result: Any) -> list[Candidate]:
    """The operands, sorted by their contribution to the result."""
    ranking = traits_of(op).ranking

    def key(candidate: Candidate) -> tuple[float, float]:
        size = abs(complex(candidate.number)) if candidate.number is not None else 0.0
        size = size if math.isfinite(size) else math.inf
        if ranking == "picks":
            return float(candidate.number != result), -size
        if ranking == "first":
            return float(candidate.port), -size
        if candidate.share is not None:
            return -candidate.share, -size
        if ranking == "exp":
            return -float(candidate.number), -size
        if op in ("power", "float_power") and not size:
            return -math.inf, 0.0  # x ** 0 is 1 for any x
        if ranking == "factor" and size:
            return -abs(math.log(size)) if math.isfinite(size) else -math.inf, -size
        return 0.0, -size

    return sorted(candidates, key=key)


def shares_of(ranked: Sequence[Candidate]) -> list[float | None]:
    """The share to report for each operand: a term's share appears only at its first factor."""
    terms: set[int] = set()
    shares: list[float | None] = []
    for candidate in ranked:
        factor = candidate.term is not None and candidate.order in terms
        shares.append(None if factor else candidate.share)
        if candidate.term is not None:
            terms.add(candidate.order)
    return shares


def made_words(
    op: str, ranked: list[Candidate], opened: Opened, derivation: ElementDependence, total: int
) -> str:
    """A description of how a finite number was computed from its operands."""
    if not ranked:
        return f"{op} computes it from no operand"
    first = ranked[0]
    axes = along(opened, derivation)
    if derivation.how == "sum" and derivation.terms is not None and derivation.terms.size > 1:
        share = f", the largest makes up {first.share:.0%}" if first.share is not None else ""
        return f"{op} of {derivation.terms.size:,} terms{axes}{share}"
    numbers = {candidate.port: number_text(candidate.number) for candidate in reversed(ranked)}
    if total > max(len(numbers), 1):
        rows = [read.at.size for read in derivation.reads if not read.selects and read.at.size > 1]
        # Besides one row, there may be single elements, such as a weight.
        return f"{op} of {rows[0] if len(rows) == 1 else total:,} elements{axes}"
    return f"{op} of {' and '.join(numbers[port] for port in sorted(numbers))}"


def along(opened: Opened, derivation: ElementDependence) -> str:
    """The axes that a single operand's elements span: `` along axis 0 of (6, 4)``, or ``""``."""
    reads = [read for read in derivation.reads if not read.selects and read.at.size > 1]
    if len(reads) != 1:
        return ""
    shape = np.shape(opened.args[reads[0].port])
    places = np.unravel_index(reads[0].at, shape)
    axes = [
        str(axis)
        for axis, coordinates in enumerate(places)
        if (coordinates != coordinates[0]).any()
    ]
    if len(axes) == len(shape):
        return ""
    noun = "axis" if len(axes) == 1 else "axes"
    return f" along {noun} {' and '.join(axes)} of {shape_words(shape)}"


def range_of(array: Array) -> str:
    """A description of an array: its range, and counts of negative, zero, NaN and Inf elements."""
    if not array.size:
        return "is empty"
    with np.errstate(all="ignore"):
        finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array.reshape(-1)
    words = "has no finite elements"
    if finite.size:
        low, high = finite.min(), finite.max()
        words = (
            f"ranges from {number_text(low)} to {number_text(high)}"
            if low != high
            else f"is {number_text(low)}"
        )
    special = [
        ("negative", int(np.sum(array < 0))),
        ("zero", int(np.sum(array == 0))),
        ("nan", int(np.sum(array != array))),
        ("infinite", int(np.sum(np.isinf(array))) if array.dtype.kind == "f" else 0),
    ]
    told_counts = [f"{count:,} {trait}" for trait, count in special if count]
    suffix = f" ({', '.join(told_counts)} of {array.size:,})" if told_counts else ""
    return words + suffix


def index(array: Array, position: int) -> tuple[int, ...]:
    """The index of the element at a position in C order."""
    return tuple(int(coordinate) for coordinate in np.unravel_index(position, array.shape))


def element(array: Any, position: int) -> Any:
    """The element at a position in C order."""
    return flat(array, np.array([position], np.int64))[0]
