"""The operand through which an element is followed: the responsible one, not the largest one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.debug.why import why
from nodescope.debug.why.target import positions
from nodescope.record.recording import Recording
from tests.core.debug.replay.programs import recorded

INF, NAN = np.inf, np.nan

Two = Callable[[Any, Any], Any]


@pytest.mark.parametrize(
    ("op", "a", "b", "leads"),
    [
        (np.maximum, 3.0, -10.0, "a"),
        (np.maximum, -500.0, -100.0, "b"),
        (np.minimum, 5.0, INF, "a"),
        (np.minimum, 5.0, 0.5, "b"),
        (np.fmax, NAN, 1.0, "b"),
        (np.fmin, 1.0, NAN, "a"),
        (np.logaddexp, 1.0, -1000.0, "a"),
        (np.logaddexp2, -50.0, 1.0, "b"),
        (np.remainder, 7.0, 100.0, "a"),
        (np.fmod, 5.0, INF, "a"),
        (np.copysign, 2.0, -100.0, "a"),
        (np.power, 5.0, 0.0, "b"),
        (np.power, 0.0, 2.0, "a"),
        (np.floor_divide, 0.0, 5.0, "a"),
        (lambda a, b: np.logical_and(a > 0, b > 0), 1.0, -1.0, "b"),
        (lambda a, b: np.bitwise_and(np.astype(a, int), np.astype(b, int)), 5.0, 0.0, "b"),
    ],
)  # fmt: skip
def test_the_operand_that_explains_an_element(
    op: Two, a: float, b: float, leads: str, tmp_path: Path
) -> None:
    def program() -> None:
        op(ns.tensor([a], name="a"), ns.tensor([b], name="b"))

    with Recording.open(recorded(tmp_path / "r.nscope", program)) as recording:
        last = [row.value.id for row in recording.values()][-1]
        names = [item.name for item in why(recording, last, (0,)).root.chain()]
        assert leads in names or any(name.startswith("greater") for name in names)
        assert {"a": "b", "b": "a"}[leads] not in names
        if "greater" in "".join(names):
            first = why(recording, last, (0,)).root.operands[0]
            assert (first.name, bool(first.number)) == ("greater_1", False)


@pytest.mark.parametrize(
    ("op", "data", "at"),
    [
        (lambda x: np.cumprod(x)[2:], [2.0, 0.0, 5.0], 1),
        (lambda x: np.all(x > 0), [1.0, 0.0, 3.0], 1),
        (lambda x: ns.softmax(x)[1:2], [0.0, -2000.0, 1.0], 1),
        (lambda x: np.linalg.norm(x), [0.0, 0.0], 0),
        (lambda x: np.prod(x), [0.0, 3.0, INF], 2),
        # The largest factor, 1e250, is not in the term that overflows.
        (lambda x: x[:2] @ x[2:], [1.0, 1e200, 1e250, 1e200], 1),
    ],
)
def test_the_element_that_is_to_blame(
    op: Callable[[Any], Any], data: list[float], at: int, tmp_path: Path
) -> None:
    with Recording.open(
        recorded(tmp_path / "r.nscope", lambda: op(ns.tensor(data, name="x")))
    ) as recording:
        last = [row.value.id for row in recording.values()][-1]
        chain = why(recording, last).root.chain()
        assert ("x", (at,)) in [(item.name, item.at) for item in chain] or chain[-1].at == (at,)
        assert {item.at for item in chain if item.name == "x"} <= {(at,)}


def test_in_a_large_row_the_largest_leads_and_the_own_element_is_reported(tmp_path: Path) -> None:
    data = -np.arange(1.0, 5001.0) - 1000
    data[3000] = -1.0
    with Recording.open(
        recorded(tmp_path / "r.nscope", lambda: ns.softmax(ns.tensor(data, name="x")))
    ) as recording:
        assert why(recording, "softmax[3000]").culprit.at == (3000,)
        result = why(recording, "softmax[2000]").root
        assert result.words == "softmax of -3001 beside -1"
        assert result.operands[0].at == (2000,)


def test_shares_of_terms_whose_sum_overflows(tmp_path: Path) -> None:
    with Recording.open(
        recorded(tmp_path / "r.nscope", lambda: np.sum(ns.tensor([1e308, -1e308, 1e308, 1.0])))
    ) as recording:
        assert why(recording, "sum").root.words == "sum of 4 terms, the largest makes up 33%"


@pytest.mark.parametrize(
    ("array", "which", "at"),
    [
        (np.array([-3.0, NAN, -1.0]), "max", 2),
        (np.array([3.0, NAN, 1.0]), "min", 2),
        (np.array([NAN, -INF]), "max", 1),
        (np.array([1 + 2j, complex(NAN, 3), 3j]), "min", 0),
        (np.array([NAN, NAN]), "max", 0),
        (np.array([-128, 5], np.int8), None, 0),
        (np.array([2**63 - 1, -(2**63)]), None, 1),
        (np.array([3, -3]), None, 0),
    ],
)
def test_nan_is_not_an_extreme_and_magnitudes_do_not_wrap(array: Any, which: Any, at: int) -> None:
    assert positions(array, which, "x") == [at]
