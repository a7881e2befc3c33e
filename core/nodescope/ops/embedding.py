"""Embedding: selects rows of a table by number; and its gradient, which adds rows back.

Invariant: a number outside of the table raises an error that names it, never gives a wrong row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.errors import BoundsError, DtypeError, ShapeError
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Array, Op, Operand, Sample, one_per_input
from nodescope.ops.windows import specs_of, working


def _numbers(name: str, indices: Operand) -> TensorSpec:
    if not isinstance(indices, TensorSpec) or as_dtype(indices.dtype).kind not in "iu":
        index_dtype = indices.dtype if isinstance(indices, TensorSpec) else type(indices).__name__
        raise DtypeError(
            f"{name}: indices must be integers, not {index_dtype}",
            hint="convert with .astype(np.int64)",
        )
    return indices


def _infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    table, indices = specs[0], _numbers("embedding", specs[1])
    if not isinstance(table, TensorSpec) or not table.shape:
        raise ShapeError("embedding: the table needs a dimension of rows")
    return TensorSpec((*indices.shape, *table.shape[1:]), table.dtype)


def _inside(indices: Array, rows: int) -> None:
    if indices.size and not 0 <= indices.min() <= indices.max() < rows:
        bad = np.flatnonzero((indices < 0) | (indices >= rows))[0]
        at = tuple(int(i) for i in np.unravel_index(bad, indices.shape))
        raise BoundsError(
            f"embedding: index {indices[at]} at position {at} is out of range for a table of "
            f"{rows} rows",
            hint="is the vocabulary smaller than the largest token number plus 1?",
        )


def _embedding(table: Array, indices: Array, padding_idx: int | None = None) -> Array:
    _infer(specs_of(table, indices), {})
    _inside(indices, len(table))
    return np.take(table, indices, axis=0)


def _grad_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    ct, indices = specs[0], _numbers("embedding_grad", specs[1])
    assert isinstance(ct, TensorSpec)
    lead = len(indices.shape)
    if ct.shape[:lead] != indices.shape:
        raise ShapeError(f"embedding_grad: {ct.shape} and indices {indices.shape} do not fit")
    return TensorSpec((attrs["rows"], *ct.shape[lead:]), ct.dtype)


def _grad(ct: Array, indices: Array, rows: int, padding_idx: int | None = None) -> Array:
    spec = _grad_infer(specs_of(ct, indices), {"rows": rows})
    _inside(indices, rows)
    flat, cotangents = indices.reshape(-1), ct.reshape(indices.size, *spec.shape[1:])
    total = np.zeros(spec.shape, working(ct.dtype))
    # Sort equal numbers side by side, then sum each run: much faster than np.add.at on rows.
    order = np.argsort(flat, kind="stable")
    sorted_ = flat[order]
    if padding_idx is not None:
        kept = sorted_ != padding_idx
        order, sorted_ = order[kept], sorted_[kept]
    if sorted_.size:
        starts = np.flatnonzero(np.r_[True, sorted_[1:] != sorted_[:-1]])
        total[sorted_[starts]] = np.add.reduceat(
            cotangents[order], starts, axis=0, dtype=total.dtype
        )
    return total.astype(ct.dtype, copy=False)


def _rule(F: Any, ct: Any, out: Any, table: Any, indices: Any, padding_idx: Any = None) -> Any:
    return F.embedding_grad(ct, indices, rows=table.shape[0], padding_idx=padding_idx)


def _grad_rule(
    F: Any, ct: Any, out: Any, g: Any, indices: Any, rows: int, padding_idx: Any = None
) -> Any:
    gradient = F.embedding(ct, indices)
    if padding_idx is None:
        return gradient
    column = (*indices.shape, *(1,) * (len(gradient.shape) - len(indices.shape)))
    return F.where(F.reshape(F.equal(indices, padding_idx), shape=column), 0.0, gradient)


def _samples(rng: np.random.Generator) -> list[Sample]:
    table = rng.standard_normal((4, 3))
    return [
        Sample((table, np.array([[0, 3], [3, 1]]))),
        Sample((table, np.array([2, 0, 2])), {"padding_idx": 1}),
        Sample((table, np.zeros(0, np.int64))),
        Sample((rng.standard_normal(5), np.array([[4, 4]]))),
    ]


def _grad_samples(rng: np.random.Generator) -> list[Sample]:
    # Only these samples have the padding index among the indices. The gradient of `embedding` omits
    # it on purpose, against the true slope, so the samples of `embedding` cannot have it.
    ct, indices = rng.standard_normal((3, 2)), np.array([2, 0, 2])
    return [
        Sample((ct, indices), {"rows": 3, "padding_idx": 2}),
        *(
            Sample(
                (rng.standard_normal((*s.inputs[1].shape, *s.inputs[0].shape[1:])), s.inputs[1]),
                {"rows": s.inputs[0].shape[0], **s.attrs},
            )
            for s in _samples(rng)
        ),
    ]


register(
    Op(
        name="embedding",
        family="index",
        infer=_infer,
        impl=_embedding,
        vjp=(_rule, None),
        ports=("table", "indices"),
        samples=_samples,
    )
)
register(
    Op(
        name="embedding_grad",
        family="index",
        infer=_grad_infer,
        impl=_grad,
        vjp=(_grad_rule, None),
        ports=("ct", "indices"),
        samples=_grad_samples,
        flops=one_per_input,
    )
)
