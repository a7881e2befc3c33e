"""Tensor: its properties, what it refuses, and how NumPy handles it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import DtypeError, ShapeError, UnsupportedError, UsageError
from tests.parts import in_parts

RNG = np.random.default_rng(0)
A = RNG.standard_normal((3, 4))
B = RNG.standard_normal((3, 4)).astype(np.float32)


def same(result: Any, expected: Any) -> None:
    """Equal to the last bit, dtype and shape included."""
    expected = np.asarray(expected)
    assert isinstance(result, ns.Tensor)
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    assert result.numpy().tobytes() == expected.tobytes()


PROGRAMS = [
    lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / y,
    lambda x, y: x // y, lambda x, y: x % y, lambda x, y: abs(x) ** y, lambda x, y: -x,
    lambda x, y: 2 - x, lambda x, y: 2 * x, lambda x, y: 1 / x, lambda x, y: abs(x) ** 2,
    lambda x, y: 2**y, lambda x, y: x @ y.T, lambda x, y: x > y, lambda x, y: x == y,
    lambda x, y: x != 0, lambda x, y: (x > 0) & (y > 0), lambda x, y: ~(x > 0),
    lambda x, y: x[0], lambda x, y: x[1:, ::-1], lambda x, y: x[..., None],
    lambda x, y: x[[0, 2]], lambda x, y: x[np.array([True, False, True])],
    lambda x, y: x[x > 0], lambda x, y: x[np.int64(1), -1], lambda x, y: x[[]],
    lambda x, y: x.sum(), lambda x, y: x.mean(axis=0), lambda x, y: x.max(1, keepdims=True),
    lambda x, y: x.reshape(4, 3), lambda x, y: x.reshape((2, -1)), lambda x, y: x.T,
    lambda x, y: x.transpose(1, 0), lambda x, y: x.astype("float16"), lambda x, y: x.ravel(),
    lambda x, y: x.var(ddof=1), lambda x, y: x.argmax(axis=1), lambda x, y: x.any(),
    lambda x, y: np.tanh(x), lambda x, y: np.add(x, y), lambda x, y: np.maximum(x, 0),
    lambda x, y: np.sum(x, axis=(0, 1)), lambda x, y: np.add.reduce(x),
    lambda x, y: np.concatenate([x, y], axis=1), lambda x, y: np.stack((x, y)),
    lambda x, y: np.where(x > 0, x, 0), lambda x, y: np.clip(x, -1, 1),
    lambda x, y: np.clip(x, None, np.abs(y)), lambda x, y: np.expand_dims(x, 0),
    lambda x, y: np.squeeze(x[None]), lambda x, y: np.split(x, 2, axis=1)[1],
    lambda x, y: np.dot(x, y.T), lambda x, y: np.outer(x[0], y[1]), lambda x, y: np.take(x, 1),
    lambda x, y: np.vstack([x[0], y]), lambda x, y: np.hstack([x, y]),
    lambda x, y: np.moveaxis(x[None], 0, -1), lambda x, y: np.swapaxes(x, 0, 1),
    lambda x, y: np.broadcast_to(x, (2, 3, 4)), lambda x, y: np.copy(x),
    lambda x, y: np.cumsum(x, axis=0), lambda x, y: np.ravel(x),
    lambda x, y: np.ones_like(x), lambda x, y: np.full_like(x, 3), lambda x, y: np.float32(2) * y,
]  # fmt: skip


@in_parts(2)
@pytest.mark.parametrize("program", PROGRAMS)
def test_tensors_compute_what_arrays_do(program: Any) -> None:
    same(program(ns.tensor(A), ns.tensor(B)), program(A, B))
    same(program(ns.tensor(B), ns.tensor(A)), program(B, A))


@pytest.mark.parametrize("other", [2, 2.5, True, np.float64(2.5), np.arange(4), [1, 2, 3, 4]])
def test_promotion_is_that_of_numpy(other: Any) -> None:
    for data in (A, B, A > 0, np.arange(4, dtype=np.int8)):
        same(ns.tensor(data) + other, data + other)
        same(other + ns.tensor(data), other + data)
        same(np.multiply(other, ns.tensor(data)), np.multiply(other, data))


def test_arrays_on_the_left_do_not_swallow_tensors() -> None:
    same(A + ns.tensor(B), A + B)
    same(A @ ns.tensor(B).T, A @ B.T)


REFUSED: list[tuple[Any, str]] = [
    (lambda x: np.asarray(x), r"\.numpy\(\)"),
    (lambda x: np.array([x, x]), r"\.numpy\(\)"),
    (lambda x: np.add(x, 1, out=np.zeros((3, 4))), r"np\.add with out="),
    (lambda x: np.add(x, 1, where=np.zeros((3, 4), bool)), r"np\.add.*where="),
    (lambda x: np.subtract.accumulate(x), r"np\.subtract\.accumulate is not traced"),
    (lambda x: np.histogram2d(x[0], x[1]), r"np\.histogram2d is not traced.*np\.histogram and"),
    (lambda x: np.save("x.npy", x), r"np\.save is not traced.*write the array: x\.numpy\(\)"),
    (lambda x: np.hypot.reduceat(x, [0]), r"np\.hypot\.reduceat is not traced"),
    (lambda x: np.multiply.at(x, 0, 1), r"np\.multiply\.at is not traced"),
    (lambda x: np.max(x, where=x > 0), r"np\.max: where= needs initial="),
    (lambda x: np.quantile(x, 0.5, weights=x), r"np\.quantile and np\.percentile: weights="),
    (lambda x: np.repeat(x, ns.tensor(2)), r"np\.repeat: repeats determines the shape"),
]


@pytest.mark.parametrize(("call", "says"), REFUSED)
def test_what_is_not_traced_is_refused_by_name(call: Any, says: str) -> None:
    with pytest.raises(UnsupportedError, match=says) as caught:
        call(ns.tensor(A))
    assert re.search(r"test_tensor\.py:\d+", str(caught.value))


def test_arrays_that_tensors_give_are_read_only() -> None:
    x = ns.tensor(A)
    with pytest.raises(ValueError, match="read-only"):
        x.numpy()[0] = 1


def test_foreign_operands_get_their_turn() -> None:
    class Other:
        def __radd__(self, other: object) -> str:
            return "mine"

    assert ns.tensor(A) + Other() == "mine"  # type: ignore[comparison-overlap]
    with pytest.raises(TypeError):
        ns.tensor(A) + "text"


ERRORS: list[tuple[Any, type[Exception], str]] = [
    (lambda: ns.tensor(A) @ ns.tensor(B), ShapeError, r"inner dimensions differ: \(3, 4\)"),
    (lambda: ns.tensor(A) + np.ones(3), ShapeError, r"add: shapes \(3, 4\) and \(3,\)"),
    (lambda: ns.tensor(A).reshape(5, 5), ShapeError, "12 elements"),
    (lambda: ns.tensor(A).sum(axis=2), ShapeError, "axis 2 is out of range"),
    (lambda: ns.tensor(A)[7], IndexError, "out of bounds for axis 0"),
    (lambda: ns.tensor(A)[7], ShapeError, "getitem: index 7"),
    (lambda: ns.tensor(A) & ns.tensor(A), DtypeError, "bitwise_and: not defined for float64"),
    (lambda: ns.tensor(["a"]), DtypeError, "numbers"),
    (lambda: ns.tensor([1, 2], requires_grad=True), DtypeError, "int64 cannot require a gradient"),
    (lambda: bool(ns.tensor(A)), ShapeError, "ambiguous"),
    (lambda: ns.tensor(A).item(), ShapeError, "12 elements"),
    (lambda: len(ns.tensor(1.0)), ShapeError, "scalar"),
    (lambda: ns.cross_entropy(A, np.array([0, 1, 4])), ShapeError, "labels run from 0 to 4"),
    (lambda: ns.parameter(A, name=""), UsageError, "not a name"),
    (lambda: ns.name_scope("a//b"), UsageError, "not a name"),
]


@pytest.mark.parametrize(("call", "kind", "says"), ERRORS)
def test_errors_say_what_and_where(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says) as caught:
        call()
    assert re.search(r"test_tensor\.py:\d+", str(caught.value))


def test_python_protocols() -> None:
    x = ns.tensor([[1.0, 2.0], [3.0, 4.0]], name="x")
    assert [row.tolist() for row in x] == [[1.0, 2.0], [3.0, 4.0]]
    assert (len(x), float(x[0, 0]), int(x[1, 1]), bool(x[0, 1] > 1)) == (2, 1.0, 4, True)
    assert [10, 20, 30][ns.tensor(1)] == 20
    assert repr(x).startswith("tensor([[1., 2.]")
    assert "name='x'" in repr(x)
    assert x in {x}
    assert x.name == "x"


def test_data_are_copied() -> None:
    data = np.ones(3)
    x = ns.tensor(data)
    data[:] = 7
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_floating_point_errors_pass_unchanged() -> None:
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        ns.tensor([1.0]) / ns.tensor([0.0])


def test_norm_is_exact_up_to_rounding() -> None:
    # NumPy sums these squares by BLAS, in another order.
    result = np.linalg.norm(ns.tensor(A), axis=1)
    assert result.numpy() == pytest.approx(np.linalg.norm(A, axis=1), rel=1e-14)
