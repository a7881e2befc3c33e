"""Simplify: replaces expressions by shorter ones, by the table of `nodescope.passes.simplify_rules`
and by rules on attributes.

Invariant: except for rules requested by name, results stay bit-equal: the same elements and,
wherever it could be observed, the same memory order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nodescope import ops
from nodescope.ir.graph import Node
from nodescope.ops.calls import Scalar, call_of
from nodescope.ops.shapes import axes
from nodescope.passes import Rule, graph_pass
from nodescope.passes.draft import Draft
from nodescope.passes.layouts import Layouts, layouts_of
from nodescope.passes.patterns import (
    SCALARS,
    PatternMatch,
    call,
    feeds_weakly,
    find,
    full_of,
    make,
    parsed,
    planned,
)
from nodescope.passes.simplify_rules import RULES, Simplification, described

_SIGNED: Final = frozenset(["signbit", "copysign"])
_KINDS: Final[dict[str, str]] = {
    np.dtype(code).name: np.dtype(code).kind for code in (*np.typecodes["AllInteger"], *"?efdFD")
}
Args = tuple[int | Scalar, ...]
Stands = Callable[[Draft, Node], tuple[str, int, bool] | None]
"""Rule, the replacement value, and whether both have the same layout by construction."""


@functools.cache
def _rules() -> dict[str, tuple[Simplification, ...]]:
    by_op: dict[str, list[Simplification]] = {}
    for rule in RULES:
        term = parsed(rule.before)
        assert isinstance(term, tuple)
        by_op.setdefault(term[0], []).append(rule)
    return {op: tuple(rules) for op, rules in by_op.items()}


@functools.cache
def _candidates(op: str, makers: tuple[str | None, ...]) -> tuple[Simplification, ...]:
    """The rules that may match, by the ops that made the operands; ``""`` for Python scalars."""
    return tuple(rule for rule in _rules().get(op, ()) if _may_fit(parsed(rule.before), makers))


def _may_fit(term: Any, makers: tuple[str | None, ...]) -> bool:
    return len(term) - 1 == len(makers) and all(
        (expected == "") == (pattern in SCALARS) if isinstance(pattern, str)
        else expected == pattern[0] if isinstance(pattern, tuple)
        else expected in _FULL
        for pattern, expected in zip(term[1:], makers, strict=True)
    )  # fmt: skip


_FULL: Final = frozenset(["", "constant", "broadcast_to"])
"""Ops that produce a number, or an array filled with it."""


def _maker(draft: Draft, arg: int | Scalar) -> str | None:
    if isinstance(arg, Scalar):
        return ""
    producer = draft.producer(arg)
    return None if producer is None else producer.op


def replace(draft: Draft, rule: str, node: Node, value: int, note: str = "") -> None:
    """Replace a node's result by an existing value."""
    producer = draft.producer(value)
    draft.rewrite(
        rule, "eliminated", [node], [producer] if producer is not None else [],
        {node.outputs[0]: value}, note,
    )  # fmt: skip


def lies_alike(draft: Draft, layouts: Layouts, node: Node, value: int) -> bool:
    """Whether a value is indistinguishable from the copy of it that a node makes."""
    kind = layouts.of(value)
    if kind == "dense" and _copies(draft, node, value):
        return True
    return layouts.harmless(node.outputs[0], kind)


def _copies(draft: Draft, node: Node, value: int) -> bool:
    """Whether an op preserves the memory order of this operand."""
    if not isinstance(ops.get(node.op).impl, np.ufunc) and node.op != "astype":
        return False
    return all(operand == value or not draft.spec(operand).shape for operand in node.inputs)


def _bound(draft: Draft, rule: Simplification, x: Any) -> bool:
    if not isinstance(x, int) or np_kind(draft.spec(x).dtype) not in rule.kinds:
        return False
    if not rule.inner:
        return True
    producer = draft.producer(x)
    if producer is None:
        return False
    whole = producer.op == "astype" and np_kind(draft.spec(producer.inputs[0]).dtype) in "biu"
    return ("astype_whole" if whole else producer.op) in rule.inner


def np_kind(dtype: str) -> str:
    """The kind of a NumPy dtype by its name; ``V`` for bfloat16 and its like."""
    return _KINDS.get(dtype, "V")


def _try(
    draft: Draft, layouts: Layouts, rule: Simplification, node: Node, args: Args, signs: bool
) -> bool:
    if not rule.exact and not draft.options.allows(rule.name):
        return False
    if rule.signs and signs:
        return False
    match = find(draft, parsed(rule.before), node, args)
    if match is None or not _bound(draft, rule, match.bound.get("x")):
        return False
    if node.op != "where" and not _one_dtype(draft, match):
        return False
    values = [v for v in match.bound.values() if isinstance(v, int)]
    if feeds_weakly(draft, values):
        return False
    after, old = parsed(rule.after), node.outputs[0]
    plan = planned(draft, layouts, after, match)
    if plan is None or plan[0] != draft.spec(old):
        return False
    value = match.bound[after] if isinstance(after, str) else None
    if match.inner and after == _inner_term(rule):
        value = match.inner[-1].outputs[0]
    if isinstance(value, int):
        kept = layouts.of(value) == "dense" and _of_one(draft, node, match.inner)
        kept = kept and _ufuncs(node.op)  # in both directions
        if rule.exact and not kept and not lies_alike(draft, layouts, node, value):
            return False
        replace(draft, rule.name, node, value)
        return True
    assert isinstance(after, tuple)
    alike = plan[1] == layouts.of(old) == "rows" or (
        _of_one(draft, node, match.inner) and _ufuncs(node.op, after[0])
    )
    if rule.exact and not alike and not layouts.harmless(old, plan[1]):
        return False
    value = make(draft, after, match)
    producer = draft.producer(value)
    assert producer is not None
    draft.rewrite(rule.name, "rewritten", [node], [producer], {old: value})
    return True


def _one_dtype(draft: Draft, match: PatternMatch) -> bool:
    """Whether operands have the same dtype: otherwise they may bring NaN, or wrap before they
    round.
    """
    x, y, c = (match.bound.get(value) for value in "xyc")
    assert isinstance(x, int)
    dtype = draft.spec(x).dtype
    if isinstance(y, int) and draft.spec(y).dtype != dtype:
        return False
    return not isinstance(c, Scalar) or type(c.value) is int or np_kind(dtype) == "f"


def _of_one(draft: Draft, node: Node, inner: list[Node]) -> bool:
    """Whether all operands of some ufuncs are one array, whose order they preserve."""
    produced = {value for n in inner for value in n.outputs}
    operands = {
        value
        for node_of_chain in (node, *inner)
        for value in node_of_chain.inputs
        if draft.spec(value).shape
    }
    return len(operands - produced) == 1 and _ufuncs(*(n.op for n in inner))


def _ufuncs(*names: str) -> bool:
    return all(isinstance(ops.get(name).impl, np.ufunc) for name in names)


def _inner_term(rule: Simplification) -> Any:
    term = parsed(rule.before)
    return term[1] if isinstance(term, tuple) and len(term) == 2 else None


# Rules on attributes


def _identity(draft: Draft, node: Node) -> tuple[str, int, bool] | None:
    return "identity", node.inputs[0], True


def _copy(draft: Draft, node: Node) -> tuple[str, int, bool] | None:
    return "copy", node.inputs[0], False


def _broadcast(draft: Draft, node: Node) -> tuple[str, int, bool] | None:
    same = draft.spec(node.inputs[0]) == draft.spec(node.outputs[0])
    return ("broadcast_same", node.inputs[0], True) if same else None


_BITS: Final = {"float16": 11, "float32": 24, "float64": 53, "complex64": 24, "complex128": 53}


def holds(narrow: str, wide: str) -> bool:
    """Whether one dtype represents every number of another exactly."""
    if narrow == wide:
        return True
    kinds = np_kind(narrow) + np_kind(wide)
    if "V" in kinds:
        return False
    if kinds[0] == "b":
        return True
    first, other = np.dtype(narrow), np.dtype(wide)
    if kinds in ("uu", "ii"):
        return first.itemsize <= other.itemsize
    if kinds == "ui":
        return first.itemsize < other.itemsize
    if kinds[0] in "iu" and kinds[1] in "fc":
        exponent = 15 if wide == "float16" else 64
        return first.itemsize * 8 - (kinds[0] == "i") <= min(_BITS[wide], exponent)
    if kinds[0] in "fc" and kinds[1] in "fc" and kinds != "cf":
        return _BITS[narrow] <= _BITS[wide]
    return False


def direct(first: str, middle: str, last: str) -> bool:
    """Whether converting via ``middle`` equals converting directly."""
    if not holds(first, middle):
        return False
    if first == last or last == "bool":
        return True
    outer_kind, middle_kind, last_kind = np_kind(first), np_kind(middle), np_kind(last)
    if last_kind in "iu":  # out-of-range conversions are undefined, unless integers wrap
        return outer_kind in "biu" and (middle_kind in "biu" or holds(first, last))
    return last_kind in "fc"


def _astype(draft: Draft, node: Node) -> tuple[str, int, bool] | None:
    x, last = node.inputs[0], draft.spec(node.outputs[0]).dtype
    before = draft.producer(x)
    if draft.spec(x).dtype == last:
        return "astype_same", x, False
    if before is None or before.op != "astype":
        return None
    source = before.inputs[0]
    first = draft.spec(source).dtype
    if (before.phase == "recompute") != (node.phase == "recompute"):
        return None
    if feeds_weakly(draft, (source,)) or not direct(first, draft.spec(x).dtype, last):
        return None
    if first == last:
        return "astype_back", source, False
    now = draft.update(node, inputs=(source,))
    draft.rewrite("astype_twice", "rewritten", [now], [now])
    return None


def _flip(draft: Draft, node: Node) -> tuple[str, int, bool] | None:
    before = draft.producer(node.inputs[0])
    ndim = len(draft.spec(node.inputs[0]).shape)
    if before is not None and before.op == "flip":
        both = [set(axes("flip", _axis(flip.attrs["axis"]), ndim)) for flip in (before, node)]
        if both[0] == both[1]:
            return "flip_twice", before.inputs[0], True
    return None


def _axis(axis: Any) -> Any:
    return tuple(axis) if isinstance(axis, list) else axis


def _getitem(draft: Draft, node: Node) -> tuple[str, int, bool] | None:
    index = node.attrs["index"]
    if all(item is Ellipsis or (type(item) is slice and item == slice(None)) for item in index):
        return "getitem_all", node.inputs[0], True
    return None


def _joined(draft: Draft, node: Node) -> tuple[str, int, bool] | None:
    return ("concatenate_one", node.inputs[0], False) if len(node.inputs) == 1 else None


def _extreme(draft: Draft, node: Node) -> tuple[str, int, bool] | None:
    """The maximum of a single element."""
    x = node.inputs[0]
    shape = draft.spec(x).shape
    reduced_axes = axes(node.op, _axis(node.attrs["axis"]), len(shape))
    if any(shape[i] != 1 for i in reduced_axes) or feeds_weakly(draft, (x,)):
        return None
    if not shape or node.attrs["keepdims"]:
        return "extreme_of_one", x, False
    if Layouts(draft).of(x) != "rows":
        return None
    reshaped = draft.add("reshape", [x], {"shape": draft.spec(node.outputs[0]).shape}, like=node)
    draft.rewrite(
        "extreme_of_one", "rewritten", [node], [reshaped], {node.outputs[0]: reshaped.outputs[0]}
    )
    return None


def _whole(draft: Draft, node: Node) -> tuple[str, int, bool] | None:
    if np_kind(draft.spec(node.inputs[0]).dtype) not in "biu":
        return None
    if node.op == "round" and node.attrs["decimals"]:
        return None
    return "whole_already", node.inputs[0], False


def _real(draft: Draft, node: Node) -> tuple[str, int, bool] | None:
    real = np_kind(draft.spec(node.inputs[0]).dtype) != "c"
    return ("real_of_real", node.inputs[0], False) if real else None


def _chain(draft: Draft, node: Node) -> tuple[str, int, bool] | None:
    """Two additions of, or multiplications by, Python scalars merged into one."""
    args = call_of(node).args
    if len(args) != 2 or not isinstance(args[0], int) or not isinstance(args[1], Scalar):
        return None
    before = draft.producer(args[0])
    if before is None or before.op != node.op:
        return None
    inner = call_of(before).args
    if not isinstance(inner[0], int) or not isinstance(inner[1], Scalar):
        return None
    first, second = inner[1].value, args[1].value
    dtypes = {draft.spec(value).dtype for value in (inner[0], args[0], node.outputs[0])}
    if (
        len(dtypes) != 1
        or {type(first), type(second)} - {int, float}
        or feeds_weakly(draft, [inner[0]])
    ):
        return None
    dtype = np.dtype(dtypes.pop()) if np_kind(min(dtypes)) in "iuf" else None
    if dtype is None:
        return None
    both = first + second if node.op == "add" else first * second
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        both = (int(both) - info.min) % (1 << info.bits) + info.min
        name, exact = "scalars_whole", True
    else:
        name, exact = (
            "reassociate",
            node.op == "multiply" and _doubling(first) and _doubling(second),
        )
        name = "scalars_doubling" if exact else name
        exact = exact and abs(both) < float(np.finfo(dtype).max)
    if (not exact and not draft.options.allows("reassociate")) or not math.isfinite(both):
        return None
    combined = call(draft, node.op, (inner[0], Scalar(both)), node)
    draft.rewrite(name, "rewritten", [node], [combined], {node.outputs[0]: combined.outputs[0]})
    return None


def _doubling(number: float) -> bool:
    """Whether it is a power of two of at least 1: multiplying by it is exact."""
    return abs(number) >= 1 and math.isfinite(number) and abs(math.frexp(number)[0]) == 0.5


def _keep(draft: Draft, node: Node) -> tuple[str, int, bool] | None:
    args = call_of(node).args
    if len(args) == 2 and isinstance(args[0], int) and full_of(draft, args[1], False):
        layouts = Layouts(draft)
        spec = draft.spec(node.outputs[0])
        if draft.spec(args[0]) == spec and layouts.of(args[0]) == "rows":
            zeros = call(draft, "zeros_like", (args[0],), node)
            draft.rewrite(
                "keep_none", "rewritten", [node], [zeros], {node.outputs[0]: zeros.outputs[0]}
            )
    return None


SPECIAL: Final[dict[str, Stands]] = {
    "identity": _identity, "detach": _identity, "copy": _copy, "broadcast_to": _broadcast,
    "astype": _astype,
    "flip": _flip, "getitem": _getitem, "concatenate": _joined, "max": _extreme, "min": _extreme,
    "round": _whole, "nan_to_num": _whole, "real": _real, "add": _chain, "multiply": _chain,
    "keep": _keep,
}  # fmt: skip
ATTRIBUTES: Final = (
    Rule("identity", "another name for a value"),
    Rule("copy", "a copy that is indistinguishable from its operand"),
    Rule("broadcast_same", "broadcast_to the shape that it has"),
    Rule("astype_same", "astype to the dtype that it has"),
    Rule("astype_back", "astype to a dtype that holds every number, and back"),
    Rule("astype_twice", "astype by way of a dtype that holds every number"),
    Rule("flip_twice", "flip along the same axes twice"),
    Rule("getitem_all", "x[...], x[:]"),
    Rule("concatenate_one", "concatenate of one array"),
    Rule("extreme_of_one", "max or min over dimensions of size 1 -> reshape"),
    Rule("real_of_real", "real(x) of a real x"),
    Rule("scalars_whole", "(x + c) + d and (x * c) * d of integers -> one step"),
    Rule("scalars_doubling", "(x * c) * d for powers of two from 1 on -> one step"),
    Rule("keep_none", "keep(x, false) -> zeros_like(x)"),
    Rule("reassociate", "(x + c) + d and (x * c) * d -> one step", exact=False),
)


@graph_pass(
    "simplify",
    stage=44,
    help="shorter expressions for the same numbers",
    again=True,
    rules=(*described(), *ATTRIBUTES),
)
def simplify(draft: Draft) -> None:
    """Apply rules to each node, in order, until none matches."""
    table, layouts = _rules(), layouts_of(draft)
    order = list(draft)
    signs = any(node.op in _SIGNED for node in order)
    for node in order:
        if node.id not in draft:
            continue
        special = SPECIAL.get(node.op)
        if node.op not in table and special is None:
            continue
        now = draft.node(node.id)
        if now.control_inputs:
            continue  # its dependents wait for more than its value
        args = call_of(now).args
        rules = _candidates(node.op, tuple([_maker(draft, argument) for argument in args]))
        if any(_try(draft, layouts, rule, now, args, signs) for rule in rules) or special is None:
            continue
        rewrite = special(draft, now)
        if rewrite is None:
            continue
        name, value, alike = rewrite
        if draft.spec(value) != draft.spec(now.outputs[0]) or feeds_weakly(draft, (value,)):
            continue
        if alike or lies_alike(draft, layouts, now, value):
            replace(draft, name, now, value)
