"""The pass `simplify`: every pattern of its table on every dtype to which it applies."""

from __future__ import annotations

import ast
import itertools

import numpy as np
import pytest

import nodescope as ns
from nodescope import ops
from nodescope.engine.run import apply
from nodescope.errors import NodescopeError
from nodescope.passes.simplify import direct
from nodescope.passes.simplify_rules import RULES
from tests.core.passes.checking import check, lowered, nasty, ops_of, rules
from tests.depth import is_deep
from tests.parts import in_parts

DTYPES = {
    "b": ["bool"],
    "i": ["int8", "int32", "int64"],
    "u": ["uint8", "uint32"],
    "f": ["float16", "float32", "float64"],
    "c": ["complex64", "complex128"],
}
SCALARS = {"c": 3, "d": -2.0}


def program(text, dtype, number, condition=False):
    """A pattern as a function of arrays, with the inputs for it."""
    tree = ast.parse(text, mode="eval").body
    names = sorted({path.id for path in ast.walk(tree) if isinstance(path, ast.Name)}
                   - {path.func.id for path in ast.walk(tree) if isinstance(path, ast.Call)}
                   - {"true", "false", *SCALARS})  # fmt: skip
    inputs = [nasty("bool" if name == "z" else dtype, seed=i) for i, name in enumerate(names)]

    def build(tree, bound):
        if isinstance(tree, ast.Call):
            args = tuple(build(arg, bound) for arg in tree.args)
            return apply(ops.get(tree.func.id), args, {})
        if isinstance(tree, ast.Name):
            if tree.id in bound or tree.id in SCALARS:
                return bound.get(tree.id, SCALARS.get(tree.id))
            return number(tree.id == "true")
        return number(ast.literal_eval(tree))

    def function(*arrays):
        # Each operand is used with a known layout and with an unknown one.
        results = []
        for wrapped in (lambda a: a, lambda a: ~a if a.dtype == bool else -a, np.copy):
            bound = dict(zip(names, map(wrapped, arrays), strict=True))
            value = build(tree, bound)
            results += [value, np.sum(value), np.sum(np.transpose(value), axis=0)]
        return results

    return function, inputs


def scalar(value):
    return value


def filled(dtype):
    def constant(value):
        return ns.constant(np.full((6, 8), value, bool if type(value) is bool else dtype))

    return constant


@pytest.mark.one_in(2)
@in_parts(8)
@pytest.mark.parametrize("rule", RULES, ids=lambda item: f"{item.name}: {item.before}")
def test_a_pattern_is_found_without_changing_results(rule):
    fired = 0
    kinds = [dtype for kind in rule.kinds for dtype in DTYPES[kind]]
    forms = list(itertools.product(kinds, (False, True)))
    for dtype, as_constant in forms if is_deep() else dict.fromkeys((*forms[:1], *forms[-2:])):
        function, inputs = program(rule.before, dtype, filled(dtype) if as_constant else scalar)
        unsafe = frozenset() if rule.exact else frozenset([rule.name])
        try:
            with np.errstate(all="ignore"):
                result = lowered(function, inputs, ["simplify"], unsafe=unsafe)
        except (NodescopeError, TypeError, OverflowError):
            continue  # The op does not accept this dtype.
        fired += f"simplify/{rule.name}" in rules(result)
        if rule.exact:
            check(function, inputs, ["simplify"])
            if dtype == kinds[-1]:
                check(function, inputs)
        else:
            assert f"simplify/{rule.name}" not in rules(lowered(function, inputs))
    if rule.kinds and not rule.inner:
        assert fired


@pytest.mark.parametrize(
    ("function", "dtype", "fired", "left"),
    [
        (lambda x: np.copy(np.abs(x)), "float32", ["copy"], ["abs"]),
        (lambda x: np.exp(np.copy(x)), "float32", [], ["copy", "exp"]),
        (lambda x: np.broadcast_to(x, (6, 8)), "float32", ["broadcast_same"], []),
        (lambda x: np.sum(x.astype("float32")), "float32", [], ["astype", "sum"]),
        (lambda x: np.abs(x).astype("float32"), "float32", ["astype_same"], ["abs"]),
        (lambda x: x.astype("float64").astype("float32"), "float32", ["astype_back"],
         ["astype"]),
        (lambda x: x.astype("float64").astype("float16"), "float32", ["astype_twice"],
         ["astype", "astype"]),
        (lambda x: x.astype("float16").astype("float32"), "float32", [], ["astype", "astype"]),
        (lambda x: x.astype("float64").astype("int8"), "int32", [], ["astype", "astype"]),
        (lambda x: np.flip(np.flip(x, 0), 0), "float32", ["flip_twice"], ["flip"]),
        (lambda x: np.flip(np.flip(x, 0), 1), "float32", [], ["flip", "flip"]),
        (lambda x: x[...], "float32", ["getitem_all"], []),
        (lambda x: np.concatenate([np.abs(x)]), "float32", ["concatenate_one"], ["abs"]),
        (lambda x: np.max(np.copy(x)[:1], axis=0), "float32", ["extreme_of_one"],
         ["copy", "getitem", "reshape"]),
        (lambda x: np.sum(np.copy(x)[:1], axis=0), "float32", [], ["copy", "getitem", "sum"]),
        (lambda x: np.round(x), "int32", ["whole_already"], []),
        (lambda x: (x + 3) + 4, "int8", ["scalars_whole"], ["add", "add"]),
        (lambda x: (x * 100) * 100, "int8", ["scalars_whole"], ["multiply", "multiply"]),
        (lambda x: (x * 2.0) * 4.0, "float32", ["scalars_doubling"], ["multiply", "multiply"]),
        (lambda x: (x * 2.0) * 0.5, "float32", [], ["multiply", "multiply"]),
        (lambda x: (x + 1.0) + 2.0, "float32", [], ["add", "add"]),
        (lambda x: np.abs(x) + 0.0, "float32", ["add_zero_known"], ["abs"]),
        (lambda x: x + 0.0, "float32", [], ["add"]),
    ],
)  # fmt: skip
def test_rules_that_look_at_attributes(function, dtype, fired, left):
    result = check(function, [nasty(dtype)], ["simplify"], [f"simplify/{item}" for item in fired])
    kept = [op for op in ops_of(result) if op not in ("broadcast_to",)]
    assert kept == left or not set(fired).isdisjoint(
        ["astype_twice", "astype_back", "scalars_whole", "scalars_doubling", "flip_twice"]
    )
    check(function, [nasty(dtype)])


def test_a_copy_before_a_sum_is_kept():
    """Dropping a copy may change the memory order in which a sum adds."""
    x = (np.random.default_rng(0).standard_normal((65, 129)) * 1e4).astype("float32")
    columns = np.asfortranarray(x)
    sums = [(np.sum(columns, axis=i), np.sum(columns.copy(), axis=i)) for i in (None, 0, 1)]
    assert any(np.any(first != other) for first, other in sums)
    check(lambda x: np.sum(np.copy(x), axis=0), [x], ["simplify"], [], ["copy", "sum"])
    check(lambda x: np.sum(x * 1.0, axis=0), [x], ["simplify"], [], ["multiply", "sum"])
    check(lambda x: np.sum(np.copy(x) + np.copy(-x)), [x], ["simplify"], ["simplify/copy"])
    check(
        lambda x: np.sum(np.abs(np.copy(x)) * 1.0, axis=0), [x], ["simplify"],
        ["simplify/multiply_one"],
    )  # fmt: skip


def test_a_nan_keeps_its_sign_if_it_is_read():
    result = lowered(lambda x: np.signbit(x * -1.0), [nasty("float32")], ["simplify"])
    assert rules(result) == []
    result = lowered(lambda x: np.abs(x) * -1.0, [nasty("float32")], ["simplify"])
    assert rules(result) == ["simplify/multiply_minus_one"]


def test_conversions_by_way_of_another_dtype():
    names = [name for group in DTYPES.values() for name in group]
    for first, middle, last in itertools.product(names, repeat=3):
        if not direct(first, middle, last):
            continue
        if "complex" in first + middle and not last.startswith(("complex", "bool")):
            continue
        x = nasty(first, (40,))
        with np.errstate(all="ignore"):
            left_one, two = x.astype(middle).astype(last), x.astype(last)
        assert np.array_equal(left_one, two, equal_nan=left_one.dtype.kind in "fc"), (
            first,
            middle,
            last,
        )
    assert not direct("int64", "float64", "int32")
    assert not direct("float32", "float64", "int8")
    assert not direct("float64", "float32", "float16")
