"""scan and map: a function over the leading dimension, with and without a carry.

Invariant: the carry keeps its structure, shapes and dtypes; results are stacked in the order of the
inputs, whichever way the loop runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.emit.scopes import name_scope
from nodescope.engine import dispatch_mode
from nodescope.engine.control.body import TracedBody, check_form, check_same, tensor_of, trace
from nodescope.engine.control.scan_op import record_scan
from nodescope.engine.run import apply
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor, make, spec_of
from nodescope.engine.trees import Structure, Tree, flatten, unflatten
from nodescope.errors import ShapeError, TraceError


def scan(
    f: Callable[[Tree, Tree], tuple[Tree, Tree]],
    init: Tree,
    xs: Tree,
    *,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Tree, Tree]:
    """``carry, y = f(carry, x)`` for each ``x`` along the leading dimension of ``xs``.

    Eagerly, a Python loop; in a graph, one node, which keeps what its derivative needs. (As
    ``jax.lax.scan``.)

    Args:
        f: Maps a carry and one element to the next carry, of the same structure, shapes and
            dtypes, and a result; either may be a tree, and the result None.
        init: The initial carry.
        xs: A tree of tensors with a common leading size, or None with ``length``.
        length: The number of iterations; checked against ``xs``.
        reverse: Iterate from the last element to the first.

    Returns:
        The final carry, and the results stacked along a new leading dimension.

    Raises:
        ShapeError: Leading sizes differ, or neither ``xs`` nor ``length`` is given.
        TraceError: The carry changes its structure, shape or dtype, or ``f`` returns no pair.
    """
    columns, form = flatten(xs)
    columns = [tensor_of(column, "scan") for column in columns]
    count = _length(columns, length)
    carry, carry_form = flatten(init)
    carry = [tensor_of(leaf, "scan") for leaf in carry]
    if dispatch_mode.builder() is None:
        return _run(f, carry, carry_form, columns, form, count, reverse)
    return _record(f, carry, carry_form, columns, form, count, reverse)


def map(f: Callable[[Tree], Tree], xs: Tree) -> Tree:
    """``f`` applied to each element along the leading dimension, stacked. (As ``jax.lax.map``.)"""
    return scan(lambda carry, x: (carry, f(x)), None, xs)[1]


def _length(columns: Sequence[Tensor], length: int | None) -> int:
    sizes = set()
    for column in columns:
        if not column.ndim:
            raise ShapeError(
                "scan: a scalar has no leading dimension to iterate over", source=where()
            )
        sizes.add(column.shape[0])
    if length is not None:
        sizes.add(int(length))
    if len(sizes) != 1:
        problem = "xs is empty" if not sizes else f"leading sizes differ: {sorted(sizes)}"
        raise ShapeError(f"scan: {problem}", source=where(), hint="give length= if there are no xs")
    return sizes.pop()


def _pair(result: Any) -> tuple[Tree, Tree]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise TraceError(
            f"scan: the function must return (carry, y), not {type(result).__name__}",
            source=where(),
            hint="return carry, None if there is no result",
        )
    return result


def _run(
    f: Any,
    carry: list[Tensor],
    carry_form: Structure,
    columns: list[Tensor],
    form: Structure,
    count: int,
    reverse: bool,
) -> tuple[Tree, Tree]:
    specs = [spec_of(leaf) for leaf in carry]
    rows: list[list[Tensor]] = []
    y_form: Structure | None = None
    for i in reversed(range(count)) if reverse else range(count):
        with name_scope("scan"):
            x = unflatten(form, [column[i] for column in columns])
            following, y = _pair(f(unflatten(carry_form, carry), x))
        carry, after = flatten(following)
        check_form("scan", carry_form, after, "the carry before and after")
        carry = [tensor_of(leaf, "scan") for leaf in carry]
        check_same("scan", specs, [spec_of(leaf) for leaf in carry], carry_form)
        leaves, structure = flatten(y)
        if y_form is not None:
            check_form("scan", y_form, structure, "the results of two iterations")
        y_form = structure
        rows.append([tensor_of(leaf, "scan") for leaf in leaves])
    if reverse:
        rows.reverse()
    if y_form is None:  # the structure that an iteration would have
        return unflatten(carry_form, carry), _nothing(f, carry, carry_form, columns, form)
    with name_scope("scan"):
        stacked = [np.stack(rows_of_leaf) for rows_of_leaf in zip(*rows, strict=True)]
    return unflatten(carry_form, carry), unflatten(y_form, stacked)


def _nothing(
    f: Any, carry: list[Tensor], carry_form: Structure, columns: list[Tensor], form: Structure
) -> Tree:
    body = _traced(f, carry, carry_form, columns, form)
    (_, y_form) = body.structure.children
    specs = [body.spec(value) for value in body.outputs[len(carry) :]]
    return unflatten(y_form, [make(np.zeros((0, *s.shape), s.dtype)) for s in specs])


def _traced(
    f: Any, carry: list[Tensor], carry_form: Structure, columns: list[Tensor], form: Structure
) -> TracedBody:
    rows = [
        make(np.broadcast_to(np.zeros((), column.dtype), column.shape[1:]), kind="constant")
        for column in columns
    ]
    body = trace(
        "scan",
        lambda *args: _pair(f(*args)),
        (unflatten(carry_form, carry), unflatten(form, rows)),
    )
    check_form("scan", carry_form, body.structure.children[0], "the carry before and after")
    after = [body.spec(value) for value in body.outputs[: len(carry)]]
    check_same("scan", [spec_of(leaf) for leaf in carry], after, carry_form)
    return body


def _record(
    f: Any,
    carry: list[Tensor],
    carry_form: Structure,
    columns: list[Tensor],
    form: Structure,
    count: int,
    reverse: bool,
) -> tuple[Tree, Tree]:
    body = _traced(f, carry, carry_form, columns, form)
    targets = [target for target, _ in body.writes]
    if targets:
        # The body assigns to outside state: record it again, with that state in the carry.
        builder = dispatch_mode.builder()
        before = [builder.current_of(target) for target in targets]
        carry, carry_form = flatten((before, unflatten(carry_form, carry)))
        body = _traced(_stateful(f, targets), carry, carry_form, columns, form)
    around = body.captures
    results = record_scan(
        body.graph(around, body.outputs),
        (*carry, *columns, *around),
        carries=len(carry),
        columns=len(columns),
        length=count,
        reverse=reverse,
    )
    last = unflatten(carry_form, results[: len(carry)])
    if targets:
        state, last = last
        for target, value in zip(targets, state, strict=True):
            apply(ops.get("assign"), (target, value), {})
    ys = results[len(carry) : len(body.outputs)]
    return last, unflatten(body.structure.children[1], ys)


def _stateful(f: Any, targets: list[Tensor]) -> Callable[[Tree, Tree], tuple[Tree, Tree]]:
    """``f`` with the values of ``targets`` in its carry."""

    def step(both: Tree, x: Tree) -> tuple[Tree, Tree]:
        before, inner = both
        for target, value in zip(targets, before, strict=True):
            apply(ops.get("assign"), (target, value), {})
        following, y = _pair(f(inner, x))
        builder = dispatch_mode.builder()
        return ([builder.current_of(target) for target in targets], following), y

    return step
