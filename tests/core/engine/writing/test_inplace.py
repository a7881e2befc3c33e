"""Writing to tensors has the same effect as writing to NumPy arrays."""

from __future__ import annotations

import copy
import gc
import operator
import pickle
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.engine.writing import sharing
from nodescope.errors import DtypeError, GradientError, ShapeError, UnsupportedError
from tests import depth

A = np.arange(12.0).reshape(3, 4)


def same(result: Any, expected: Any) -> None:
    """Equal to the last bit, dtype and shape included."""
    assert isinstance(result, ns.Tensor)
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    assert result.tolist() == expected.tolist()


def _name_of_a_view(x: Any) -> Any:
    y = x[0]
    y += 1
    return x, y


def _view_of_a_view(x: Any) -> Any:
    y = x.T
    z = y[1:, ::-1]
    z *= 2
    w = x.reshape(-1)
    w[3:7] = -1
    return x, y, z, w


def _two_views_overlap(x: Any) -> Any:
    a, b, c = x[0:2], x[1:3], x[2:]
    a += 10
    c -= 5
    b[:, 0] = 0
    return x, a, b, c


def _views_outlive(x: Any) -> Any:
    a, b = x[:2], x[1:]
    del x
    a += 1
    b *= 3
    return a, b


def _broadcast_view_sees(x: Any) -> Any:
    y = np.broadcast_to(x[0], (2, 4))
    x[0, 1] = 9
    return x, y


def _copies_do_not_see(x: Any) -> Any:
    kept = (x.copy(), x.flatten(), x[[0, 1]], x[x > 3], x.astype(x.dtype), x + 0, np.take(x, 1))
    x += 1
    return (x, *kept)


def _self_overlap(x: Any) -> Any:
    x[1:] = x[:-1]
    x[:, ::-1] += x
    return (x,)


def _scalar_places(x: Any) -> Any:
    x[1, 2] = 7.5
    x[-1, -1] += 2
    x[..., 0] *= 2
    return (x,)


def _masks(x: Any) -> Any:
    x[x > 5] = 0
    x[x < 2] += 1.5
    x[np.array([True, False, True])] -= 1
    return (x,)


def _arrays(x: Any) -> Any:
    x[[0, 0, 2]] += 1  # Adds once to the element named twice.
    x[[0, 1, 0], [1, 1, 1]] = np.array([5.0, 6.0, 7.0])
    return (x,)


def _augmented(x: Any) -> Any:
    x += 1
    x -= 0.5
    x *= 3
    x /= 2
    x **= 2
    x //= 1.5
    x %= 7
    return (x,)


def _list_holds_it(x: Any) -> Any:
    tensors = [x, x[0]]
    tensors[0] += 1
    tensors[1] *= 2
    return x, tensors[0], tensors[1]


def _called_by_name(x: Any) -> Any:
    x[0].__iadd__(1)
    operator.iadd(x[1], 2)
    operator.setitem(x, (2, 0), 3)
    return (x,)


def _function_writes(x: Any) -> Any:
    def bump(a: Any) -> None:
        a += 1

    bump(x[1])
    bump(x)
    return (x,)


def _out(x: Any) -> Any:
    y = x[1]
    np.add(x[0], 1, out=x[1])
    np.multiply(x, 2, out=x)
    np.exp(x[2], out=x[0])
    np.sum(x, axis=0, out=x[2])
    np.clip(x, 2, 30, out=x)
    np.add(1, 1, out=x[0, 1:])
    return x, y


def _functions(x: Any) -> Any:
    y = x[2]
    np.copyto(x[0], 5)
    np.copyto(x, -1.5, where=x == 4)
    np.put_along_axis(x, np.array([[1], [0], [3]]), 50, axis=1)
    np.fill_diagonal(x, [8, 9])
    np.put(x, [0, 5, -1], [1, 2])
    np.place(x, x > 40, [3, 4])
    np.putmask(x, x < 0, x * 10)
    np.add.at(x, ([0, 0, 1], [1, 1, 1]), 2)
    np.subtract.at(x, 2, np.arange(4))
    x[1].fill(6)
    return x, y


def _ints(x: Any) -> Any:
    x = x.astype(np.int64)
    y = x[1]
    x <<= 2
    x >>= 1
    x |= 1
    x &= 13
    x ^= 2
    x[0] = 2.75  # Truncated, as in NumPy.
    y //= 2
    return x, y


def _matrices(x: Any) -> Any:
    y = x[:, :3]
    y @= y.copy()
    return x, y


def _layout_is_kept(x: Any) -> Any:
    y = x.T.copy().T  # Not in C order.
    y[0] = 1
    z = np.ravel(y)
    z += 1
    w = x[:, ::2]
    del x
    w += 1
    v = w.reshape(-1)
    v *= 2
    return y, w


def _float32_stays(x: Any) -> Any:
    x = x.astype(np.float32)
    x += np.arange(4.0)
    x *= 1e-3
    x[0] = np.float64(0.1)
    return (x,)


def _empty(x: Any) -> Any:
    y = x[:0]
    y += 1
    x[0:0] = 5
    x[:, 4:] *= 2
    return x, y


PROGRAMS = [
    _name_of_a_view, _view_of_a_view, _two_views_overlap, _views_outlive, _broadcast_view_sees,
    _copies_do_not_see, _self_overlap, _scalar_places, _masks, _arrays, _augmented, _list_holds_it,
    _called_by_name, _function_writes, _out, _functions, _ints, _matrices, _layout_is_kept,
    _float32_stays, _empty,
]  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("program", PROGRAMS)
def test_writes_are_those_of_numpy(program: Any) -> None:
    result, expected = program(ns.tensor(A)), program(A.copy())
    for ours, numpys in zip(result, expected, strict=True):
        same(ours, numpys)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("program", depth.some([p for p in PROGRAMS if p is not _ints], 3))
def test_writes_under_a_tape_are_those_of_numpy(program: Any) -> None:
    leaf = ns.parameter(A, name="w")
    for ours, numpys in zip(program(leaf * 1), program(A.copy()), strict=True):
        same(ours, numpys)


def test_all_names_of_a_tensor_see_a_write() -> None:
    x = ns.tensor(A)
    y = x
    x += 1
    assert y is x
    same(y, A + 1)


@pytest.mark.deep
def test_what_shares_memory_is_what_numpy_says() -> None:
    takes: list[Any] = [
        lambda x: x[0], lambda x: x[:, 1:], lambda x: x.T, lambda x: x.reshape(-1),
        lambda x: x.T.reshape(-1), lambda x: np.squeeze(x[None]), lambda x: np.flip(x),
        lambda x: np.split(x, 2, axis=1)[1], lambda x: np.swapaxes(x, 0, 1), lambda x: x.ravel(),
        lambda x: np.expand_dims(x, 0), lambda x: np.broadcast_to(x, (2, 3, 4)), lambda x: x[[0]],
        lambda x: x.astype(x.dtype), lambda x: x.copy(), lambda x: np.atleast_3d(x),
        lambda x: np.diagonal(x), lambda x: np.take(x, 1), lambda x: x.flatten(),
        lambda x: np.moveaxis(x, 0, 1), lambda x: x[x > 1], lambda x: np.sum(x, axis=()),
        lambda x: np.concatenate([x]), lambda x: np.roll(x, 0), lambda x: np.positive(x),
        lambda x: np.clip(x, None, 100), lambda x: np.where(x > -1, x, 0), lambda x: np.sort(x),
        lambda x: np.tile(x, 1), lambda x: np.diag(x), lambda x: np.triu(x), lambda x: np.real(x),
        lambda x: np.cumsum(x, axis=0), lambda x: np.rollaxis(x, 1), lambda x: np.rot90(x),
        lambda x: np.pad(x, 0), lambda x: np.repeat(x, 1), lambda x: np.nan_to_num(x),
        lambda x: x.max(axis=()), lambda x: np.stack([x])[0], lambda x: np.array_split(x, 2)[0],
        lambda x: np.resize(x, (3, 4)), lambda x: np.meshgrid(x[0], x[1])[0], lambda x: x.conj(),
        lambda x: np.astype(x, x.dtype, copy=False), lambda x: np.nan_to_num(x, copy=False),
        lambda x: np.imag(x), lambda x: x.repeat(1), lambda x: np.einsum("ij->ji", x),
    ]  # fmt: skip
    for take in takes:
        x, array = ns.tensor(A), A.copy()
        y, view = take(x), take(array)
        assert np.shares_memory(x.data, y.data) == np.shares_memory(array, view)
        x += 1
        array += 1
        same(y, view)


# What is refused


def test_what_does_not_fit_is_refused_and_nothing_changes() -> None:
    x = ns.tensor(np.arange(4))
    row = ns.tensor(A)[0]
    fixed = np.broadcast_to(row, (2, 4))
    calls: list[tuple[Any, Any, type[Exception], str]] = [
        (operator.iadd, (x, 0.5), DtypeError, "tensor of int64 cannot hold float64"),
        (operator.itruediv, (x, 2), DtypeError, "cannot hold float64"),
        (operator.iadd, (row, 1j), DtypeError, "cannot hold complex128"),
        (operator.iadd, (row, A), ShapeError, r"\(3, 4\) does not fit into shape \(4,\)"),
        (operator.setitem, (x, 0, [1, 2]), ShapeError, "index_set"),
        (operator.setitem, (x, 9, 1), IndexError, "out of bounds"),
        (operator.setitem, (x, 0, ["a"]), DtypeError, "numbers"),
        (operator.setitem, (x, 0, None), UnsupportedError, "NoneType"),
        (operator.iadd, (fixed, 1), UnsupportedError, "read-only view"),
    ]
    for call, args, kind, says in calls:
        with pytest.raises(kind, match=says):
            call(*args)
    same(x, np.arange(4))
    same(row, A[0])
    with pytest.raises(UnsupportedError, match="out of the graph"):
        np.add(x, 1, out=np.zeros(4))


def test_memory_as_another_dtype_is_refused() -> None:
    x = ns.tensor(A + 1j)
    part = np.real(x)
    with pytest.raises(UnsupportedError, match="of float64 shares memory"):
        x += 1
    same(x, A + 1j)
    same(part, A)


# How


def test_counts_are_calibrated() -> None:
    x = ns.tensor(A)
    assert sharing.unshared(x)
    y = x[1:]
    assert not sharing.unshared(x)
    assert not sharing.unshared(y)
    del x
    assert sharing.unshared(y)
    y += 1
    assert sharing.unshared(y)
    z = y.detach()
    assert not sharing.unshared(y)
    assert sharing.sharers(y) == [z] or sharing.sharers(y)[0] is z


def test_tensors_that_only_the_tape_holds_do_not_count() -> None:
    w = ns.parameter(A, name="w")
    x = w * 1
    total = (x[0] * x[1]).sum()
    gc.collect()
    assert sharing.sharers(x) == []
    x[0] = 1
    row = x[2]
    assert [sharer is row for sharer in sharing.sharers(x)] == [True]
    total.backward()


def test_programs_that_write_are_recorded() -> None:
    seen: list[str] = []

    class Probe:
        def emit(self, event: Any) -> None:
            node = getattr(event, "node", None)
            if type(event).__name__ == "NodeFinished" and node is not None:
                seen.append(node.op)

    from nodescope.engine.tracer import observe, unobserve
    from nodescope.events import Bus

    plain = [array.tolist() for array in _view_of_a_view(ns.tensor(A))]
    bus = Bus()
    bus.add(Probe())
    observe(bus)
    try:
        observed = [array.tolist() for array in _view_of_a_view(ns.tensor(A))]
    finally:
        unobserve()
    assert observed == plain
    assert seen.count("multiply") == 1
    assert seen.count("index_set") == 1


def test_copies_share_nothing() -> None:
    written = ns.tensor(A)
    written += 1
    for x in (ns.tensor(A + 1), written):
        for copied in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
            same(copied, A + 1)
            copied *= 2
            same(x, A + 1)
    w = ns.parameter(A, name="w")
    for copied in (copy.copy(w), copy.deepcopy([w])[0], pickle.loads(pickle.dumps(w))):
        (copied * copied).sum().backward()
        same(copied.grad, 2 * A)
        assert copied.name == "w"
    assert w.grad is None
    with pytest.raises(GradientError, match="pickle"):
        pickle.dumps(w * 2)
