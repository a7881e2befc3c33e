"""Fast paths of conditions give the same results as the builtins, without warnings."""

from __future__ import annotations

import ast
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodescope.debug.expressions.builtins import (
    BINARY,
    COMPARE,
    CONSTANTS,
    FUNCTIONS,
    NAMES,
    Scene,
    bounded,
    check_pair,
    compared,
    index_of,
    operand,
    truth,
)
from nodescope.debug.expressions.compiler import compile_condition, compile_expression
from nodescope.errors import ConditionError
from tests.depth import examples
from tests.parts import in_parts

DTYPES = (
    "bool", "int8", "uint8", "int64", "uint64", "float16", "float32", "float64", ">f4",
    "longdouble", "complex64", "bfloat16",
)  # fmt: skip
NUMBERS = (0.0, -0.0, 1.0, -1.0, 3.0, 0.1, 250.0, 7e4, float("nan"), float("inf"), -float("inf"))


def plainly(node: ast.expr, scene: Scene) -> Any:
    """The value of an expression without fast paths, which must agree with it."""
    match node:
        case ast.Constant(value=number):
            return number
        case ast.Name(id=name):
            return CONSTANTS[name] if name in CONSTANTS else NAMES[name](scene)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return not truth(plainly(inner, scene))
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -operand(plainly(inner, scene))
        case ast.BinOp(left=left, op=op, right=right):
            a, b = plainly(left, scene), plainly(right, scene)
            check_pair(a, b)
            return bounded(BINARY[type(op)](a, b))
        case ast.BoolOp(op=ast.And(), values=values):
            return all(truth(plainly(value, scene)) for value in values)
        case ast.BoolOp(values=values):
            return any(truth(plainly(value, scene)) for value in values)
        case ast.Compare(left=left, ops=ops, comparators=rights):
            a = plainly(left, scene)
            result: Any = True
            for op, right in zip(ops, rights, strict=True):
                b = plainly(right, scene)
                result = compared(COMPARE[type(op)], a, b)
                if len(ops) > 1 and not truth(result):
                    return False
                a = b
            return result if len(ops) == 1 else True
        case ast.Call(func=ast.Name(id=name), args=args):
            return FUNCTIONS[name][1](*(plainly(arg, scene) for arg in args))
        case ast.Subscript(value=inner, slice=index):
            return index_of(plainly(inner, scene), plainly(index, scene))
        case ast.Tuple(elts=elements):
            return tuple(plainly(element, scene) for element in elements)
    raise AssertionError(ast.dump(node))


def outcome(run: Any) -> Any:
    """The result of a call, or a mark that it has none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return run()
    except Warning:
        raise
    except Exception as error:
        return ConditionError if isinstance(error, ConditionError) else Exception


def same(a: Any, b: Any) -> bool:
    if isinstance(a, type) or isinstance(b, type):
        return isinstance(a, type) and isinstance(b, type)
    if isinstance(a, tuple):
        return isinstance(b, tuple) and a == b
    x, y = np.asarray(a), np.asarray(b)
    # Compare text, which distinguishes -0.0 and NaN; bytes would include the padding of long
    # doubles.
    return x.dtype == y.dtype and x.shape == y.shape and repr(x.tolist()) == repr(y.tolist())


arrays = st.builds(
    lambda name, numbers, shape: as_array(name, numbers, shape),
    st.sampled_from(DTYPES),
    st.lists(st.sampled_from(NUMBERS), min_size=4, max_size=4),
    st.sampled_from([(), (0,), (1,), (3,), (2, 2), (1, 1)]),
)


def as_array(name: str, numbers: list[float], shape: tuple[int, ...]) -> np.ndarray:
    if name == "bfloat16":
        name = ml_dtypes.bfloat16
    with np.errstate(all="ignore"):
        result = np.array(numbers).astype(name)
    return result[: int(np.prod(shape))].reshape(shape)


constants = st.sampled_from(
    ["0", "3", "-1", "300", "70000", "0.1", "3.5", "1e10", "1e300", "inf", "-inf", "True",
     "9223372036854775808", "mean(3)", "abs(2)", "(1, 2)", "-(0.0)", "2 ** 0.5"]
)  # fmt: skip
roots = st.sampled_from(
    ["value", "inputs[0]", "inputs[1]", "value[0]", "step", "elapsed", "inputs", "shape(value)"]
)


def deeper(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    functions = st.sampled_from([name for name in FUNCTIONS if FUNCTIONS[name][0] == 1])
    signs = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
    return st.one_of(
        st.builds("{}({})".format, functions, inner),
        st.builds("({} {} {})".format, inner, signs, constants),
        st.builds("({} {} {})".format, constants, signs, inner),
        st.builds("({} {} {})".format, inner, signs, inner),
        st.builds("({} {} {} {} {})".format, inner, signs, constants, signs, inner),
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        st.builds("(not {})".format, inner),
        st.builds("(-{})".format, inner),
        st.builds("({} * {})".format, inner, inner),
    )


@settings(max_examples=examples(300), deadline=None)
@given(st.recursive(roots, deeper, max_leaves=4), arrays, arrays, arrays)
def test_fast_paths_agree_with_the_tables(text, value, left, right):
    scene = Scene(value, (left, right), 7, "n", elapsed=0.5)
    try:
        expression = compile_expression(text)
    except ConditionError:
        return  # The text is too long, or one of its constants is invalid.
    with np.errstate(all="ignore"):
        wanted = outcome(lambda: plainly(ast.parse(text, mode="eval").body, scene))
    results = [outcome(lambda: expression(scene)) for _ in range(2)]
    assert all(same(item, wanted) for item in results), (text, results, wanted)
    with np.errstate(all="ignore"):
        wanted = outcome(lambda: truth(plainly(ast.parse(text, mode="eval").body, scene)))
    assert same(outcome(lambda: compile_condition(text)(scene)), wanted)


SIGNALLING = {
    "float16": b"\x01\x7c",
    "float32": b"\x01\x00\x80\x7f",
    "float64": b"\x01\x00\x00\x00\x00\x00\xf0\x7f",
}


@in_parts(3)
@pytest.mark.parametrize("dtype", SIGNALLING)
@pytest.mark.parametrize("count", [1, 3, 40])
@pytest.mark.parametrize(
    "text",
    [
        "max(value) > 3", "min(value) < 3", "isnan(value).any()", "isinf(value).all()",
        "isfinite(value).any()", "any(value)", "all(value)", "count(value) > 0", "sum(value) > 0",
        "(value > 1e300).any()", "any(value == value)", "count(isnan(value)) > 70000",
        "not any(value < 3)", "mean(value) > 1 or value.max() > 1e300", "max(value) == value[0]",
    ],
)  # fmt: skip
def test_signalling_nans_give_no_warning(dtype, count, text):
    value = np.frombuffer(SIGNALLING[dtype] * count, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compile_condition(text)(Scene(value)) in (True, False)


@pytest.mark.parametrize("text", ["1or step", "0x1for step", "1.5if 1 else 2", "step > 1and 2"])
def test_an_expression_that_python_warns_of_is_refused(text):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConditionError, match=r"is not a number; a space is missing"):
            compile_condition(text)


def test_a_constant_is_fitted_once_per_dtype():
    condition = compile_condition("max(value) > 0.1")
    for dtype in ("float32", "float64", "float32", "int64", "float16"):
        first = np.array([0.1], dtype)
        assert condition(Scene(first)) is bool(np.max(first) > 0.1)
