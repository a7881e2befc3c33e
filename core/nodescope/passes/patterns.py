"""Patterns: terms such as ``multiply(negative(x), y)``, matched and built in a draft.

Words with an argument list are ops, other words stand for operands; a repeated word stands for the
same operand. ``c`` and ``d`` stand for Python scalars only. Numbers stand for Python scalars and
for constants full of that number, zeros by their sign; ``true`` and ``false`` for booleans.

Invariant: a pattern uses only facts known before the graph runs.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from nodescope import ops
from nodescope.errors import NodescopeError
from nodescope.ir.graph import Node, TensorSpec
from nodescope.ops.calls import Scalar, call_of
from nodescope.ops.op import port_name
from nodescope.passes.draft import Draft, same_number
from nodescope.passes.layouts import Kind, Layouts

Operand = int | Scalar
Term = tuple[Any, ...] | str | bool | float
SCALARS: Final = frozenset("cd")


@dataclass
class PatternMatch:
    """A match of a pattern.

    Attributes:
        node: The outermost node.
        bound: Operands by the words that stand for them.
        inner: The nodes within.
    """

    node: Node
    bound: dict[str, Operand] = field(default_factory=dict)
    inner: list[Node] = field(default_factory=list)


@functools.cache
def parsed(text: str) -> Term:
    """A pattern, from its text."""
    return _term(ast.parse(text, mode="eval").body)


def _term(tree: ast.expr) -> Term:
    if isinstance(tree, ast.Call):
        assert isinstance(tree.func, ast.Name)
        return (tree.func.id, *map(_term, tree.args))
    if isinstance(tree, ast.Name):
        return {"true": True, "false": False}.get(tree.id, tree.id)
    if isinstance(tree, ast.UnaryOp):
        inner = _term(tree.operand)
        assert isinstance(inner, float)
        return -inner
    assert isinstance(tree, ast.Constant)
    assert isinstance(tree.value, int | float)
    return float(tree.value)


def find(draft: Draft, term: Term, node: Node, args: Sequence[Operand]) -> PatternMatch | None:
    """The match of a pattern whose outermost node is this one, with these operands."""
    match = PatternMatch(node)
    return match if _matches(draft, term, node, match, args) else None


def _matches(
    draft: Draft, term: Term, node: Node, match: PatternMatch, args: Sequence[Operand] | None = None
) -> bool:
    assert isinstance(term, tuple)
    if term[0] != node.op:
        return False
    args = call_of(node).args if args is None else args
    return len(args) == len(term) - 1 and all(
        _fits(draft, pattern, operand, match)
        for pattern, operand in zip(term[1:], args, strict=True)
    )


def _fits(draft: Draft, pattern: Term, operand: Operand, match: PatternMatch) -> bool:
    if isinstance(pattern, str):
        if isinstance(operand, Scalar) != (pattern in SCALARS):
            return False
        return match.bound.setdefault(pattern, operand) == operand
    if not isinstance(pattern, tuple):
        return full_of(draft, operand, pattern)
    if isinstance(operand, Scalar):
        return False
    inner = draft.producer(operand)
    # Nodes recomputed to save memory must not be kept for a rule's sake.
    if inner is None or (inner.phase == "recompute") != (match.node.phase == "recompute"):
        return False
    if inner.op != pattern[0] or not _matches(draft, pattern, inner, match):
        return False
    match.inner.append(inner)
    return True


def full_of(draft: Draft, operand: Operand, number: float) -> bool:
    """Whether an operand is this number, or filled with it; ``True`` and ``False`` are not
    numbers.
    """
    boolean = isinstance(number, bool)
    if isinstance(operand, Scalar):
        value = operand.value
        if isinstance(value, complex) or isinstance(value, bool) != boolean:
            return False
        return same_number(value, number)
    while (node := draft.producer(operand)) is not None and node.op == "broadcast_to":
        operand = node.inputs[0]
    array = draft.array(operand)
    if array is None or not array.size or array.dtype.kind not in ("b" if boolean else "iuf"):
        return False
    if not same_number(float(array.flat[0]), number):
        return False
    same = array == array.flat[0]
    return bool(np.all(same) and (number != 0 or _one_sign(array)))


def _one_sign(array: Any) -> bool:
    return array.dtype.kind != "f" or bool(np.all(np.signbit(array) == np.signbit(array.flat[0])))


def planned(
    draft: Draft, layouts: Layouts, term: Term, match: PatternMatch
) -> tuple[Any, Kind] | None:
    """Spec and layout of a pattern's result, without building it; None if it cannot be built.

    A Python scalar is returned unchanged.
    """
    if isinstance(term, str):
        bound = match.bound[term]
        if isinstance(bound, Scalar):
            return bound.value, "rows"
        return draft.spec(bound), layouts.of(bound)
    if not isinstance(term, tuple):
        return term, "rows"
    if term[0] == "minus":
        inner = match.bound[term[1]]
        assert isinstance(inner, Scalar)
        # There is no integer -0, and complex products change the signs of zeros.
        turns = type(inner.value) is float or (type(inner.value) is int and inner.value != 0)
        return (-inner.value, "rows") if turns else None
    parts = [planned(draft, layouts, argument, match) for argument in term[1:]]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    spec = result(term[0], [item for item, _ in known])
    if spec is None:
        return None
    arrays = [item for item in known if isinstance(item[0], TensorSpec)]
    if term[0] in ("zeros_like", "ones_like"):
        return spec, "rows" if arrays[0][1] == "rows" else "dense"
    if any(kind == "rows" and array.shape == spec.shape for array, kind in arrays):
        return spec, "rows"
    ordered = all(kind in ("rows", "stretched") for _, kind in arrays)
    return spec, "rows" if ordered else "dense"


def result(op: str, operands: list[Any], attrs: dict[str, Any] | None = None) -> TensorSpec | None:
    """The output spec of an op with one output; None if it refuses the operands."""
    try:
        result_spec = ops.get(op).infer(tuple(operands), dict(attrs or {}))
    except (NodescopeError, TypeError, ValueError):
        return None
    return result_spec if isinstance(result_spec, TensorSpec) else None


def make(draft: Draft, term: Term, match: PatternMatch) -> int:
    """Build a pattern, as allowed by `planned`; return the value of its outermost node."""
    value = _made(draft, term, match)
    assert isinstance(value, int)
    return value


def _made(draft: Draft, term: Term, match: PatternMatch) -> Operand:
    if isinstance(term, str):
        return match.bound[term]
    if not isinstance(term, tuple):
        return Scalar(term)
    if term[0] == "minus":
        inner = match.bound[term[1]]
        assert isinstance(inner, Scalar)
        return Scalar(-inner.value)
    args = [_made(draft, argument, match) for argument in term[1:]]
    return call(draft, term[0], args, match.node).outputs[0]


def call(
    draft: Draft, op: str, args: Sequence[Operand], like: Node, attrs: dict[str, Any] | None = None
) -> Node:
    """A new node with operands of both kinds."""
    definition, known = ops.get(op), dict(attrs or {})
    for port, arg in enumerate(args):
        if isinstance(arg, Scalar):
            known[port_name(definition, port)] = arg.value
    return draft.add(
        op, [argument for argument in args if isinstance(argument, int)], known, like=like
    )


def feeds_weakly(draft: Draft, values: Iterable[int]) -> bool:
    """Whether one of the values may be fed as a Python number, which promotes weakly."""
    return any(
        value in draft.inputs and not draft.spec(value).shape and draft.spec(value).dtype[0] in "fb"
        for value in values
    )
