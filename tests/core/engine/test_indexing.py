"""Indices that NumPy refuses are refused with NumPy's kind of error, and a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import NodescopeError, TraceError

X = np.arange(6.0).reshape(2, 3)

WRONG: list[Any] = [
    np.array([True, False, True]), np.zeros((2, 2), bool), np.zeros((2, 3, 1), bool), [True],
    (slice(None), np.array([True, False])), (np.zeros((1, 2), bool),), np.array([[False]]),
    (np.ones(2, bool), np.ones(3, bool)), (0, 0, 0), 5, (slice(None), 7), np.array([5]), 1.5, "a",
    np.array([1.5]), np.array(["a"]), np.str_("a"), (np.array([0, 1]), np.array([0, 1, 2])),
    (..., ...), {}, b"a", 1j, (slice(None),) * 3, np.array([], float), slice(1.5, 2),
    slice("a", 2), slice(None, None, 1.0),
]  # fmt: skip


@pytest.mark.parametrize("index", WRONG, ids=repr)
def test_what_numpy_refuses_is_refused_in_kind(index: Any) -> None:
    with pytest.raises((IndexError, TypeError)) as numpys:
        X[index]
    x, y = ns.tensor(X), ns.tensor(X)
    for use in (lambda: x[index], lambda: y.__setitem__(index, 1.0)):
        with pytest.raises(numpys.type) as ours:
            use()
        assert isinstance(ours.value, NodescopeError)
        assert "test_indexing.py" in ours.value.source
        assert ours.value.hint
        assert "values" not in ours.value.message
    np.testing.assert_array_equal(y.numpy(), X)


def test_a_mask_of_the_wrong_size_names_axis_and_sizes() -> None:
    with pytest.raises(IndexError, match=r"axis 0 has size 3, the mask 2"):
        ns.tensor([1.0, 2.0, 3.0])[np.array([True, False])]
    with pytest.raises(IndexError, match=r"axis 2 has size 4, the mask 3"):
        ns.tensor(np.ones((2, 3, 4)))[..., ns.tensor([True, False, True])]
    with pytest.raises(IndexError, match=r"axis 0 has size 3, the mask 2"):
        ns.compile(lambda x: x[np.array([True, False])])(np.ones(3))


MASK, ROWS = X > 2, np.array([True, False])
COLUMNS = np.array([[True, False, True], [False, False, True]])
CHOSEN: list[Any] = [
    MASK, ROWS, (slice(None), COLUMNS[0]), (ROWS, slice(1, None)), (None, ROWS), (..., COLUMNS[1]),
    (ROWS, 1), (ROWS, np.array([0])), (None, MASK, None), ~ROWS & ROWS, [True, True],
    ns.constant(ROWS),
]  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("index", CHOSEN, ids=repr)
def test_masks_whose_elements_are_known_are_traced(index: Any) -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        y[index] *= 2.0
        y[index] = y[index] - 1.0
        return y, np.sin(y[index])

    eager, static = ns.parameter(X, name="x"), ns.parameter(X, name="x")
    result = ns.compile(lambda: f(static))()
    for first, two in zip(f(eager), result, strict=True):
        assert first.shape == two.shape
        assert first.numpy().tobytes() == two.numpy().tobytes()
    for x in (eager, static):
        sum(np.sum(-part * X.sum()) for part in f(x)).backward()
    sum(np.sum(-part * X.sum()) for part in result).backward()
    static.grad = static.grad - eager.grad  # type: ignore[operator]
    assert static.grad.numpy().tobytes() == eager.grad.numpy().tobytes()  # type: ignore[union-attr]


def test_conditions_that_are_known_select_in_compiled_functions() -> None:
    def f(x: Any) -> Any:
        return (
            np.compress([False, True], x, axis=0), np.compress([True], x), np.extract(MASK, x),
            x.compress(ROWS, axis=0),
        )  # fmt: skip

    for first, two in zip(f(X), ns.compile(f)(ns.tensor(X)), strict=True):
        np.testing.assert_array_equal(first, two.numpy())


def test_masks_that_a_call_may_change_are_refused() -> None:
    other = ns.tensor(MASK)
    with pytest.raises(TraceError, match="depends on its values"):
        ns.compile(lambda x: x[other])(X)
