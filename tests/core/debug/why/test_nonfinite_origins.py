"""Births: how each op produces NaN, Inf and zero, checked with the op itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodescope import ops
from nodescope.debug.why.nonfinite_origins import birth, distinct_texts, number_text, state_of
from tests.depth import examples

INF, F16 = np.inf, np.float16


@pytest.mark.parametrize(
    ("op", "numbers", "state", "kind", "words"),
    [
        ("log", [-3.1e-7], "nan", "log of a negative number", "log of -3.1e-07"),
        ("log1p", [-2.0], "nan", "log of a negative number", "log1p of -2"),
        ("sqrt", [-1.0], "nan", "sqrt of a negative number", "sqrt of -1"),
        ("arcsin", [1.5], "nan", "arcsin outside [-1, 1]", "arcsin of 1.5"),
        ("arccosh", [0.5], "nan", "arccosh outside [1, inf]", "arccosh of 0.5"),
        ("sin", [INF], "nan", "sin of inf", "sin of inf"),
        ("power", [-2.0, 0.5], "nan", "power of a negative number", "-2 to the power of 0.5"),
        ("divide", [0.0, 0.0], "nan", "0/0", "0 / 0"),
        ("divide", [INF, -INF], "nan", "inf/inf", "inf / -inf"),
        ("remainder", [3.0, 0.0], "nan", "division by zero", "3 / 0"),
        ("multiply", [0.0, INF], "nan", "0*inf", "0 * inf"),
        ("add", [INF, -INF], "nan", "inf-inf", "inf + -inf"),
        ("subtract", [INF, INF], "nan", "inf-inf", "inf - inf"),
        ("log", [0.0], "inf", "log of zero", "log of 0"),
        ("log1p", [-1.0], "inf", "log of zero", "log1p of -1"),
        ("divide", [-2.0, 0.0], "inf", "division by zero", "-2 / 0"),
        ("reciprocal", [0.0], "inf", "division by zero", "1 / 0"),
        ("power", [0.0, -1.0], "inf", "division by zero", "0 to the power of -1"),
        ("arctanh", [1.0], "inf", "arctanh of 1", "arctanh of 1"),
        ("exp", [800.0], "inf", "overflow", "exp of 800, above the largest float64, 1.79769e+308"),
        ("square", [F16(300)], "inf", "overflow",
         "square of 300, above the largest float16, 65504"),
        ("add", [F16(60000), F16(60000)], "inf", "overflow",
         "add of 6e+04 and 6e+04, above the largest float16, 65504"),
        ("exp", [-800.0], "zero", "underflow", "exp of -800"),
        ("multiply", [1e-200, 1e-200], "zero", "underflow", "multiply of 1e-200 and 1e-200"),
        ("square", [F16(1e-4)], "zero", "underflow", "square of 0.0001"),
        ("subtract", [2.5, 2.5], "zero", "cancellation", "subtract: 2.5 and 2.5"),
        ("relu", [-4.0], "zero", "clipped", "relu of -4"),
        ("floor", [0.3], "zero", "rounded to zero", "floor of 0.3"),
    ],
)  # fmt: skip
def test_births(op: str, numbers: list[Any], state: str, kind: str, words: str) -> None:
    arrays = [np.asarray(number) for number in numbers]
    with np.errstate(all="ignore"):
        out = np.asarray(ops.get(op).impl(*arrays))
    assert state_of(out[()]) == state  # The operation itself gives this state.
    result = birth(op, numbers, out[()], out.dtype.name)
    assert (result.kind, result.words) == (kind, words)


def test_sums() -> None:
    assert birth("sum", [1.0, 2.0], 0.0, "float64", [1.0, -1.0]).kind == "cancellation"
    assert birth("mean", [], np.nan, "float64").kind == "empty reduction"
    result = birth("matmul", [0.0, INF], np.nan, "float64", [np.nan])
    assert (result.kind, result.words) == ("0*inf", "a term of matmul is 0*inf")
    result = birth("sum", [INF, 1.0, -INF], np.nan, "float64", [INF, 1.0, -INF])
    assert (result.kind, result.blame) == ("inf-inf", 0)
    result = birth("softmax", [-INF, -INF], np.nan, "float64")
    assert result.words == "softmax of a row of 2 elements, all -inf"
    assert birth("logsumexp", [1.0, INF], np.nan, "float64").kind == "inf-inf"


@settings(max_examples=examples(500), deadline=None, derandomize=True)
@given(
    st.sampled_from([all_op.name for all_op in ops.all_ops()]),
    st.lists(st.floats(width=16) | st.integers(-3, 3) | st.booleans(), max_size=4),
    st.sampled_from([np.nan, np.inf, -np.inf, 0.0]),
    st.sampled_from(["float16", "bfloat16", "float64", "complex64", "int64", "bool"]),
    st.booleans(),
)
def test_every_birth_has_words(
    op: str, numbers: list[Any], out: float, dtype: str, adds: bool
) -> None:
    result = birth(op, numbers, out, dtype, list(numbers) if adds else None)
    assert result.kind
    assert result.words
    assert -1 <= result.blame < max(len(numbers), 1)


def test_numbers_are_reported_in_four_digits() -> None:
    numbers = [3, True, 0.123456, np.float32(1e10), 1 + 2j, np.int8(4), np.nan, "text"]
    assert [number_text(number) for number in numbers] == [
        "3", "True", "0.1235", "1e+10", "1+2j", "4", "nan", "text",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "other", "texts"),
    [
        (1.53912, 1.53939, ("1.5391", "1.5394")),
        (1.0, 1.0 + 2**-52, ("1", "1.0000000000000002")),
        (0.0, -0.0, ("0", "-0")),
        (np.nan, np.nan, ("nan", "nan")),
        (1j, 1.00001j, ("0+1j", "0+1.00001j")),
        (2, 3, ("2", "3")),
    ],
)
def test_two_numbers_are_distinguished(first: Any, other: Any, texts: tuple[str, str]) -> None:
    assert distinct_texts(first, other) == texts


@given(st.floats(), st.floats())
def test_numbers_that_differ_are_distinguished(one: float, other: float) -> None:
    # All NaNs are alike, whatever their sign; 0.0 and -0.0 are not.
    alike = repr(one) == repr(other)
    assert (distinct_texts(one, other)[0] == distinct_texts(one, other)[1]) == alike
