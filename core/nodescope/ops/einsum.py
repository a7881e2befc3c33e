"""Sums of products: ``einsum``, to which tensordot, inner, kron and the like are reduced.

Subscripts are explicit here (``ij,jk->ik``, without ellipsis: `spelled_out` makes them so). Two
operands are multiplied as matrices if their size pays for bringing them into that form; more are
contracted in pairs, in an order found by NumPy's `einsum_path` and cached.

Invariant: values are those of `numpy.einsum` up to rounding; axes of size 1 broadcast as in NumPy.
"""

from __future__ import annotations

import functools
import string
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nodescope.errors import ShapeError
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Array, Op, Operand, Sample
from nodescope.ops.shapes import dtype_of, shape_of

_SMALL = 2048  # number of products below which NumPy's plain loop is the fastest
_BLAS = frozenset(np.dtype(name) for name in ("f4", "f8", "c8", "c16"))


@functools.lru_cache(1024)
def spelled_out(subscripts: str, ndims: tuple[int, ...]) -> str:
    """The user's subscripts with the ellipsis as letters and an explicit output.

    Raises:
        ShapeError: The subscripts do not fit operands of these dimensions.
    """
    text = subscripts.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ndims):
        raise ShapeError(f"einsum: {text!r} is for {len(terms)} operands, not {len(ndims)}")
    free = [letter for letter in reversed(string.ascii_letters) if letter not in text]
    spread = 0
    for term, ndim in zip(terms, ndims, strict=True):
        named = len(term.replace("...", "", 1))
        if "..." in term:
            spread = max(spread, ndim - named)
        if named > ndim or ("..." not in term and named != ndim):
            raise ShapeError(
                f"einsum: {term!r} in {text!r} does not name the axes of an operand of "
                f"{ndim} dimensions",
                hint="one letter per axis, or ... for the remaining axes",
            )
    if spread > len(free):
        raise ShapeError(f"einsum: not enough letters for {text!r}")
    rest = "".join(reversed(free[:spread]))
    filled = [
        term.replace("...", rest[spread - (ndim - len(term) + 3) :] if "..." in term else "", 1)
        for term, ndim in zip(terms, ndims, strict=True)
    ]
    if arrow:
        if rest and "..." not in output:
            raise ShapeError(
                f"einsum: {text!r} omits the axes of ... from its output",
                hint="start the output with ...",
            )
        output = output.replace("...", rest, 1)
    else:
        known = "".join(filled)
        output = rest + "".join(
            letter
            for letter in sorted(set(known))
            if known.count(letter) == 1 and letter not in rest
        )
    letters = set("".join(filled))
    for letter in (*letters, *output):
        if letter not in string.ascii_letters:
            raise ShapeError(f"einsum: {letter!r} in {text!r} is not a letter")
    if not letters.issuperset(output) or len(set(output)) != len(output):
        raise ShapeError(
            f"einsum: the output of {text!r} repeats a letter or has one that no operand has"
        )
    return f"{','.join(filled)}->{output}"


@functools.lru_cache(1024)
def _terms(subscripts: str) -> tuple[tuple[str, ...], str]:
    inputs, _, output = subscripts.partition("->")
    return tuple(inputs.split(",")), output


def _sizes(terms: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """The size of every letter. Raises `ShapeError` if two operands disagree."""
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, size in zip(term, shape, strict=True):
            before = sizes.get(label, 1)
            if before != size and before != 1 and size != 1:
                raise ShapeError(
                    f"einsum: {label!r} in {','.join(terms)!r} has size {before} in one operand "
                    f"and {size} in another",
                    hint="a letter must have the same size everywhere",
                )
            sizes[label] = size if before == 1 else before
    return sizes


def _infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    terms, output = _terms(attrs["subscripts"])
    shapes = [shape_of(spec) for spec in specs]
    if [len(term) for term in terms] != [len(shape) for shape in shapes]:
        raise ShapeError(f"einsum: {attrs['subscripts']!r} does not fit operands {shapes}")
    sizes = _sizes(terms, shapes)
    dtype = np.result_type(*(np.dtype(dtype_of(spec)) for spec in specs))
    return TensorSpec(tuple(sizes[letter] for letter in output), dtype.name)


# Values


class _Product(NamedTuple):
    """How two operands become stacks of matrices, and their product becomes the output.

    Attributes:
        left: Order of the left operand's axes: common, its own, contracted.
        right: Order of the right operand's: common, contracted, its own.
        groups: Numbers of axes that are common, the left's own, contracted, the right's own.
        back: Order of the product's axes.
        shared: Pairs of axes that must be equal in size.
    """

    left: tuple[int, ...]
    right: tuple[int, ...]
    groups: tuple[int, int, int, int]
    back: tuple[int, ...]
    shared: tuple[tuple[int, int], ...]


@functools.lru_cache(1024)
def _product(a: str, b: str, output: str) -> _Product | None:
    """The matrix product for a contraction, or None if it is not one."""
    if len(set(a)) != len(a) or len(set(b)) != len(b):
        return None
    common = [letter for letter in a if letter in b and letter in output]
    contracted = [letter for letter in a if letter in b and letter not in output]
    left = [letter for letter in a if letter not in b]
    right = [letter for letter in b if letter not in a]
    if not contracted or not set(left).union(right) <= set(output):
        return None
    if common and not left and not right:
        return None  # many small inner products: NumPy's loop does them in one pass
    labels = [*common, *left, *right]
    return _Product(
        tuple(a.index(letter) for letter in (*common, *left, *contracted)),
        tuple(b.index(letter) for letter in (*common, *contracted, *right)),
        (len(common), len(left), len(contracted), len(right)),
        tuple(labels.index(letter) for letter in output),
        tuple((a.index(letter), b.index(letter)) for letter in (*common, *contracted)),
    )


def _pair(a: Array, b: Array, terms: tuple[str, ...], output: str) -> Any:
    plan = _product(*terms, output) if a.size * b.size > _SMALL and a.dtype == b.dtype else None
    if plan is None or a.dtype not in _BLAS or not all(
        a.shape[i] == b.shape[j] for i, j in plan.shared
    ):  # fmt: skip
        return np.einsum(f"{','.join(terms)}->{output}", a, b)
    a, b = a.transpose(plan.left), b.transpose(plan.right)
    common, own, contracted, other = plan.groups
    batch, rows = a.shape[:common], a.shape[common : common + own]
    columns = b.shape[common + contracted :]
    # Reshaping copies operands that no matrix product could read in place; the usual ones are left
    # alone.
    if own != 1 or contracted != 1:
        a = a.reshape((*batch, _count(rows), _count(a.shape[common + own :])))
    if other != 1 or contracted != 1:
        b = b.reshape((*batch, _count(b.shape[common : common + contracted]), _count(columns)))
    product = np.matmul(a, b)
    if own != 1 or other != 1:
        product = product.reshape((*batch, *rows, *columns))
    return product.transpose(plan.back)


def _count(shape: tuple[int, ...]) -> int:
    n = 1
    for size in shape:
        n *= size
    return n


def _einsum(*operands: Array, subscripts: str) -> Any:
    terms, output = _terms(subscripts)
    if len(operands) == 2:
        return _pair(operands[0], operands[1], terms, output)
    if len(operands) < 2:
        return np.einsum(subscripts, *operands)
    left, labels = list(operands), list(terms)
    for step in _order(subscripts, tuple(operand.shape for operand in operands)):
        chosen = [left.pop(i) for i in step]
        used = tuple(labels.pop(i) for i in step)
        last = not left
        needed = output if last else output + "".join(labels)
        product_labels = (
            output if last else "".join(dict.fromkeys(x for x in "".join(used) if x in needed))
        )
        if len(chosen) == 2:
            product = _pair(chosen[0], chosen[1], used, product_labels)
        else:
            product = np.einsum(f"{','.join(used)}->{product_labels}", *chosen)
        left.append(product)
        labels.append(product_labels)
    return left[0]


@functools.lru_cache(1024)
def _order(subscripts: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """The order in which to contract operands; highest positions first in each step."""
    terms, _ = _terms(subscripts)
    sizes = _sizes(terms, shapes)
    one_group = (tuple(range(len(shapes)))[::-1],)
    for term, shape in zip(terms, shapes, strict=True):
        if any(sizes[label] != size for label, size in zip(term, shape, strict=True)):
            return one_group  # broadcast axes: all at once, by NumPy
    if 0 in sizes.values():
        return one_group
    blanks = [np.broadcast_to(np.empty(()), shape) for shape in shapes]
    path = np.einsum_path(subscripts, *blanks, optimize="greedy")[0][1:]
    return tuple(tuple(sorted(step, reverse=True)) for step in path)


# Gradients


def _vjp(F: Any, ct: Any, out: Any, *operands: Any, subscripts: str, port: int) -> Any:
    terms, output = _terms(subscripts)
    x, term = operands[port], terms[port]
    labels = "".join(dict.fromkeys(term))
    other_operands = [operand for i, operand in enumerate(operands) if i != port]
    operand_terms = [output, *(t for i, t in enumerate(terms) if i != port)]
    # The product of the cotangent and the other operands, per letter; axes along which x was
    # broadcast are summed, letters that only x had are broadcast.
    sizes = _sizes(operand_terms, [operand.shape for operand in (ct, *other_operands)])
    shape = tuple(x.shape[term.index(label)] for label in labels)
    kept = "".join(
        label for label, size in zip(labels, shape, strict=True) if label in sizes and size != 1
    )
    gradient = F.einsum(ct, *other_operands, subscripts=f"{','.join(operand_terms)}->{kept}")
    fitted = tuple(sizes[label] if label in kept else 1 for label in labels)
    if gradient.shape != fitted:
        gradient = F.reshape(gradient, shape=fitted)
    if fitted != shape:
        gradient = F.broadcast_to(gradient, shape=shape)
    if len(labels) == len(term):
        return gradient
    return _on_diagonal(F, gradient, labels, term, set("".join(terms)))


def _on_diagonal(F: Any, value: Any, labels: str, term: str, taken_letters: set[str]) -> Any:
    """``value`` where all axes of the same letter in ``term`` have equal indices, else 0."""
    free = iter(letter for letter in string.ascii_letters if letter not in taken_letters)
    target, terms, eyes = "", [labels], []
    for label in term:
        if label not in target:
            target += label
            continue
        fresh = next(free)
        target += fresh
        terms.append(label + fresh)
        eyes.append(np.eye(value.shape[labels.index(label)], dtype=value.dtype))
    return F.einsum(value, *eyes, subscripts=f"{','.join(terms)}->{target}")


def _flops(specs: tuple[Operand, ...], out: TensorSpec, attrs: dict[str, Any]) -> int:
    """For each combination of indices, its products and a sum, in each step of `_order`."""
    subscripts: str = attrs["subscripts"]
    terms, output = _terms(subscripts)
    shapes = tuple(shape_of(spec) for spec in specs)
    sizes = _sizes(terms, shapes)
    if len(terms) == 1:
        return _count(shapes[0]) if set(terms[0]) - set(output) else 0
    steps = _order(subscripts, shapes) if len(terms) > 2 else ((1, 0),)
    labels, flops = list(terms), 0
    for step in steps:
        used = "".join(labels.pop(i) for i in step)
        flops += len(step) * _count(tuple(sizes[label] for label in set(used)))
        labels.append("".join(x for x in dict.fromkeys(used) if x in output + "".join(labels)))
    return flops


_CASES: list[tuple[str, list[tuple[int, ...]]]] = [
    ("ij,jk->ik", [(2, 3), (3, 4)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 2)]),
    ("ij->ji", [(2, 3)]), ("ij->", [(2, 3)]), ("ii->i", [(3, 3)]), ("iij->j", [(2, 2, 3)]),
    ("i,i->", [(4,), (4,)]), ("i,j->ij", [(2,), (3,)]), ("ij,kj,kl->il", [(2, 3), (4, 3), (4, 2)]),
    ("ij,jk->i", [(2, 3), (3, 4)]), (",i->i", [(), (3,)]), ("ij,ij->ij", [(2, 3), (1, 3)]),
    ("ii,i,ijj->j", [(2, 2), (2,), (2, 3, 3)]), ("ij,j->i", [(0, 3), (3,)]),
    ("ij,jk->ik", [(2, 0), (0, 3)]), ("i,i->", [(1,), (3,)]), ("iij,k->ki", [(1, 1, 2), (2,)]),
    ("abcd,cdbe->ae", [(5, 4, 5, 4), (5, 4, 4, 5)]), ("abc,dc->dba", [(6, 5, 7), (8, 7)]),
]  # fmt: skip

register(
    Op(
        name="einsum",
        family="matmul",
        infer=_infer,
        impl=_einsum,
        vjp=(_vjp,),
        variadic=True,
        samples=lambda rng: [
            Sample(
                tuple(rng.standard_normal(shape) for shape in shapes), {"subscripts": subscripts}
            )
            for subscripts, shapes in _CASES
        ],
        flops=_flops,
    )
)
