"""Where derivatives are delicate, what the public functions do, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import ops
from nodescope.engine.run import apply
from nodescope.errors import BoundsError, DtypeError, ShapeError, UnsupportedError
from nodescope.ir.graph import TensorSpec


def slope(f: Any, *args: Any) -> Any:
    with np.errstate(all="ignore"):
        return ns.grad(f)(*args).numpy()


@pytest.mark.parametrize("zeros", [0, 1, 2, 3])
def test_prod_is_exact_at_zeros_and_so_is_its_second_derivative(zeros: int) -> None:
    x = np.array([2.0, -3.0, 5.0, 7.0])
    x[:zeros] = 0.0
    expected = [np.prod(np.delete(x, i)) for i in range(4)]
    assert slope(np.prod, x).tolist() == expected
    again = [[np.prod(np.delete(x, [i, j])) if i != j else 0.0 for i in range(4)] for j in range(4)]
    for i in range(4):
        row = slope(lambda v, i=i: ns.grad(np.prod)(v)[i], x)
        assert row.tolist() == again[i]


def test_cumprod_is_exact_at_zeros_twice() -> None:
    x = np.array([2.0, 0.0, 3.0, 0.0, 5.0])
    weights = np.array([1.0, 10.0, 100.0, 1000.0, 10000.0])

    def loss(v: Any) -> Any:
        return np.sum(np.cumprod(v) * weights)

    # d/dv[1] is 10 * 2 + 100 * 2 * 3; terms after the second zero add nothing.
    assert slope(loss, x)[1] == 620.0
    # The terms with both v[1] and v[3] give 1000 * 2 * 3 + 10000 * 2 * 3 * 5.
    assert slope(lambda v: ns.grad(loss)(v)[1], x)[3] == 306000.0
    assert slope(lambda v: ns.grad(loss)(v)[3], x)[1] == 306000.0


def test_ties_of_extremes_share_and_ties_of_two_operands_go_right() -> None:
    assert slope(np.max, np.array([1.0, 3.0, 3.0])).tolist() == [0.0, 0.5, 0.5]
    both = ns.grad(lambda a, b: np.sum(np.minimum(a, b)), (0, 1))(np.ones(2), np.array([1.0, 2.0]))
    assert [array.tolist() for array in both] == [[0.0, 1.0], [1.0, 0.0]]
    nan = slope(lambda v: np.sum(np.fmax(v, [np.nan, 5.0, 1.0])), np.array([1.0, 2.0, np.nan]))
    assert nan.tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("f", "at", "expected"),
    [
        (np.std, [2.0, 2.0], [0.0, 0.0]),
        (lambda v: np.sum(np.abs(v)), [0.0, -1.0], [0.0, -1.0]),
        (lambda v: np.sum(v**2.0), [0.0, -1.0], [0.0, -2.0]),
        (lambda v: np.sum(v**0), [0.0], [0.0]),
        (lambda v: np.sum(v**1), [0.0], [1.0]),
        (lambda v: np.sum(v**3), [-2.0, 0.0], [12.0, 0.0]),
        (lambda v: np.sum(v ** np.array([0.0, 1.0, 2.0])), [0.0, 0.0, -3.0], [0.0, 1.0, -6.0]),
        (lambda v: np.sum(np.array([0.0, 2.0]) ** v), [1.0, 0.0], [0.0, np.log(2.0)]),
        (lambda v: np.sum(np.sqrt(v)), [0.0], [np.inf]),
        (lambda v: np.sum(np.hypot(v, 0.0)), [0.0, -2.0], [0.0, -1.0]),
        (lambda v: np.sum(np.sinc(v)), [0.0], [0.0]),
        (lambda v: ns.logsumexp(v), [-np.inf, -np.inf], [0.0, 0.0]),
        (lambda v: np.mean(v.astype(np.float16)), [1.0] * 4, [0.25] * 4),
    ],
)
def test_slopes_at_delicate_places(f: Any, at: list[float], expected: list[float]) -> None:
    assert slope(f, np.array(at)) == pytest.approx(expected)


def test_second_derivatives_at_zero() -> None:
    assert slope(lambda v: ns.grad(np.sinc)(v), 0.0) == pytest.approx(-(np.pi**2) / 3)
    assert slope(lambda v: ns.grad(np.i0)(v), 0.0) == pytest.approx(0.5)
    # The derivative of b * a**(b - 1) by b at b = 0 is 1 / a.
    mixed = ns.grad(lambda b: ns.grad(lambda a: a**b)(ns.tensor(2.0)))(0.0)
    assert mixed.item() == pytest.approx(0.5)


def test_complex_parts_are_not_dropped() -> None:
    z = np.array([3.0 + 4.0j, -1.0j])
    assert slope(lambda v: np.sum(np.abs(v)), z) == pytest.approx([0.6 + 0.8j, -1.0j])
    assert slope(lambda v: np.sum(np.square(np.real(v))), z) == pytest.approx([6.0, 0.0])
    assert slope(lambda v: np.sum(np.angle(v)), z) == pytest.approx([(-4 + 3j) / 25, 1.0])
    assert slope(lambda v: np.var(v), z) == pytest.approx(z - z.mean())
    with pytest.raises(DtypeError, match="would drop the imaginary part"):
        ns.tensor(z).astype(np.float64)
    with pytest.raises(DtypeError, match="it has an imaginary part"):
        ns.index_update(ns.tensor([1.0, 2.0]), 0, 1j)


# Writing without writing


def test_index_update_is_assignment_to_a_copy() -> None:
    x, value = np.arange(6.0).reshape(2, 3), np.array([10.0, 20.0, 30.0])
    for index in (
        0,
        (slice(None), 1),
        [1, 0],
        (..., -1),
        np.array([[True, False, True]] * 2),
        None,
    ):
        expected = x.copy()
        given: Any = (
            7.0 if isinstance(index, np.ndarray) or index is None else value[: x[index].size]
        )
        given = given if np.ndim(given) == 0 or np.broadcast(x[index], given) else 7.0
        expected[index] = given
        data = ns.tensor(x)
        assert ns.index_update(data, index, given).tolist() == expected.tolist()
        assert data.tolist() == x.tolist()


def test_the_last_write_has_the_gradient() -> None:
    def f(v: Any) -> Any:
        return np.sum(ns.index_update(ns.tensor(np.zeros(3)), [1, 1, 0], v) * [5.0, 6.0, 7.0])

    assert slope(f, np.ones(3)).tolist() == [0.0, 6.0, 5.0]


def test_scattering_and_gathering() -> None:
    x = ns.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    places = [[2, 0], [1, 1]]
    assert ns.gather(x, places).tolist() == [[3.0, 1.0], [5.0, 5.0]]
    added = ns.scatter_add(x, places, [[10.0, 20.0], [30.0, 40.0]])
    assert added.tolist() == [[21.0, 2.0, 13.0], [4.0, 75.0, 6.0]]
    assert ns.index_add(x, [0, 0], 1.0).tolist() == [[3.0, 4.0, 5.0], [4.0, 5.0, 6.0]]
    put = ns.put_along_axis(x, [[1], [0]], 9.0, axis=1)
    assert put.tolist() == [[1.0, 9.0, 3.0], [9.0, 5.0, 6.0]]
    assert ns.one_hot([1, 3], 3).tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    values, where = ns.topk([3.0, 1.0, 3.0, np.nan], 3)
    assert (values.tolist()[1:], where.tolist()) == ([3.0, 3.0], [3, 0, 2])
    assert ns.topk([3.0, 1.0, 2.0], 2, largest=False)[1].tolist() == [1, 2]
    assert ns.bincount([1, 1], length=4).tolist() == [0, 2, 0, 0]
    assert ns.cummax([1.0, 3.0, 2.0]).tolist() == [1.0, 3.0, 3.0]
    assert slope(
        lambda v: np.sum(ns.cummax(v) * [1.0, 2.0, 4.0]), np.array([1.0, 3.0, 2.0])
    ).tolist() == [1, 6, 0]


# What depends on values, and refusals


@pytest.mark.parametrize("name", ["nonzero", "argwhere", "unique", "unique_all", "bincount"])
def test_shapes_that_depend_on_values_say_so(name: str) -> None:
    op = ops.get(name)
    sample = next(
        node for node in op.samples(np.random.default_rng(0)) if node.attrs.get("length") is None
    )
    specs = tuple(TensorSpec(x.shape, x.dtype.name) for x in sample.inputs)
    with pytest.raises(ShapeError, match="depends on values") as caught:
        op.infer(specs, sample.attrs)
    assert caught.value.hint


REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda x: ns.index_update(x, 0, [1.0, 2.0, 3.0]), ShapeError, r"\(3,\) does not fit \(2,\)"),
    (lambda x: ns.index_update(x, 5, 1.0), BoundsError, "out of bounds"),
    (lambda x: ns.topk(x, 3), ShapeError, "k = 3 is out of range for 2 elements"),
    (lambda x: np.pad(x, 1, "spline"), UnsupportedError, "mode='spline' is not traced"),
    (lambda x: np.split(x, 3), ShapeError, "2 elements cannot be split into 3 equal parts"),
    (lambda x: np.add(x, 1, dtype=np.int32), DtypeError, "cannot be computed with dtype=int32"),
    (lambda x: np.gradient(x[:1, 0]), ShapeError, "needs 2 elements"),
    (lambda x: np.mean(x, dtype=np.int64), DtypeError, "would truncate the mean"),
    (lambda x: np.searchsorted(x, x), ShapeError, "must have one dimension"),
    (lambda x: np.convolve(x, x), ShapeError, "two vectors"),
    (lambda x: np.bincount(x[0]), DtypeError, "counts integers"),
    (lambda x: ns.bincount([5], length=3), ShapeError, "5 is out of range for 3 counts"),
    (lambda x: np.subtract.reduce(x), UnsupportedError, r"np\.subtract\.reduce is not traced"),
]


@pytest.mark.parametrize(("call", "kind", "says"), REFUSED)
def test_refusals(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says) as caught:
        call(ns.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert re.search(r"test_numpy_functions_edges\.py:\d+", str(caught.value))


def test_divmod_and_shifts_are_operators() -> None:
    n = ns.tensor([7, -7])
    assert [array.tolist() for array in divmod(n, 2)] == [[3, -4], [1, 1]]
    assert (n << 1).tolist() == [14, -14]
    assert (n >> 1).tolist() == [3, -4]
    assert apply(ops.get("gcd"), (n, 14), {}).tolist() == [7, 7]
