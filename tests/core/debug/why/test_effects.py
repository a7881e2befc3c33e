"""Effects: numbers that are lost, limited or cut off are described, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nodescope as ns
from nodescope import ops
from nodescope.debug.why import why
from nodescope.debug.why.effects import absorbed, alike_words, effect_of, masked_row, out_of_range
from nodescope.errors import BoundsError
from nodescope.record.recording import Recording
from tests.core.debug.replay.programs import recorded

F32, I64 = np.float32, np.int64


@pytest.mark.parametrize(
    ("op", "operands", "words"),
    [
        ("add", [F32(1.0), F32(1e-9)],
         "1e-09 is lost beside 1, where float32 numbers are 1.192e-07 apart"),
        ("add", [F32(1e-9), F32(1.0)],
         "1e-09 is lost beside 1, where float32 numbers are 1.192e-07 apart"),
        ("add", [F32(1.0), F32(0.5)], ""),
        ("add", [F32(1.0), F32(0.0)], ""),
        ("subtract", [F32(1e8), F32(1.0)],
         "1 is lost beside 1e+08, where float32 numbers are 8 apart"),
        ("floor_divide", [I64(7), I64(2)], "7 // 2 is 3: the fraction of 3.5 is dropped"),
        ("floor_divide", [I64(6), I64(2)], ""),
        ("maximum", [-2.0, 0.5], "maximum limits -2 to 0.5"),
        ("maximum", [2.0, 0.5], ""),
        ("tanh", [40.0], "tanh of 40 is saturated at 1: its derivative is 0 here"),
        ("tanh", [0.5], ""),
        ("sigmoid", [-800.0], "sigmoid of -800 is saturated at 0: its derivative is 0 here"),
        ("greater", [3.0, 5.0], "3 > 5 is false"),
        ("multiply", [3.0, 5.0], ""),
    ],
)  # fmt: skip
def test_effects(op: str, operands: list[Any], words: str) -> None:
    with np.errstate(all="ignore"):
        out = np.asarray(ops.get(op).impl(*map(np.asarray, operands)))
    assert effect_of(op, operands, out[()], out.dtype) == words


@pytest.mark.parametrize(
    ("number", "dtype", "words"),
    [
        (2.7, np.int32, "astype drops the fraction of 2.7"),
        (-2.7, np.int32, "astype drops the fraction of -2.7"),
        (2.0, np.int32, ""),
        (np.int64(300), np.int8, "astype: 300 does not fit int8 and becomes 44"),
    ],
)
def test_conversions(number: Any, dtype: Any, words: str) -> None:
    out = np.asarray(number).astype(dtype)
    assert effect_of("astype", [number], out[()], out.dtype) == words


@given(st.floats(width=32), st.floats(width=32))
def test_only_absorbed_terms_are_called_absorbed(number: float, amount: float) -> None:
    with np.errstate(all="ignore"):
        one, other = F32(number), F32(amount)
        words = absorbed(float(one), float(other), np.dtype(F32))
        if words:
            assert one + other == one or one - other == one


def test_counts_and_masks() -> None:
    assert masked_row("softmax", (1, 2), -1) == "row 1 is wholly masked"
    assert masked_row("softmax", (0, 3, 1), 2) == "row [0, 3] is wholly masked"
    assert masked_row("softmax", (2,), 0) == "all of it is masked"
    assert masked_row("sum", (2,), 0) == ""
    assert alike_words("nan", 12, 12) == "all 12 operands are nan"
    assert alike_words("nan", 2, 12) == "2 of 12 operands are nan"
    assert alike_words("nan", 1, 12) == ""
    logits = np.zeros((4, 3))
    assert out_of_range("cross_entropy", [logits, np.array([0, 1, 7, -1])]) == (
        "2 of 4 labels are out of range: they run from 0 to 2"
    )
    assert out_of_range("cross_entropy", [logits, np.array([0, 1, 2, 2])]) == ""
    assert out_of_range("add", [logits, logits]) == ""


def test_labels_out_of_range_are_counted_where_it_raised(tmp_path: Path) -> None:
    def program() -> None:
        logits = ns.tensor(np.ones((4, 3)), name="logits")
        with pytest.raises(BoundsError):
            ns.cross_entropy(logits, ns.tensor(np.array([0, 1, 7, 9]), name="labels"))

    with Recording.open(recorded(tmp_path / "r.nscope", program)) as recording:
        root = why(recording, "cross_entropy").root
    assert root.ranges[0] == "2 of 4 labels are out of range: they run from 0 to 2"


def test_all_of_a_mean_are_nan(tmp_path: Path) -> None:
    def program() -> None:
        np.mean(np.log(ns.tensor(np.full((3, 4), -1.0), name="x")))

    path = recorded(tmp_path / "r.nscope", program)
    with Recording.open(path) as recording, np.errstate(all="ignore"):
        words = why(recording, "mean").root.words
    assert words == "mean passes on the nan of log at [0, 0] (all 12 operands are nan)"
