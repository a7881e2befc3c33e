"""Operators, methods and NumPy's protocols in the native core do what the Python functions do."""

from __future__ import annotations

import enum
import gc
import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.engine import dispatch_mode
from nodescope.engine import run as engine
from nodescope.engine.tensor import LEAF, Tensor, make
from nodescope.errors import NodescopeError
from nodescope.ops.op import Op


class Small(enum.IntEnum):
    ONE = 1


X = make(np.random.default_rng(3).standard_normal((3, 4)).astype(np.float32), edge=LEAF)
Y = make(np.random.default_rng(4).standard_normal((3, 4)), edge=LEAF)
INTEGERS = make(np.arange(12).reshape(3, 4))
LOW = ns.tensor(np.ones((3, 4), np.float32)).astype("bfloat16")
SCALAR = make(np.array(2.0, np.float32), edge=LEAF)
WRITTEN = X * 1.0
WRITTEN[0] = 2.0
OPERANDS = [
    X, Y, INTEGERS, LOW, SCALAR, WRITTEN, 2, 2.5, True, 1j, Small.ONE, np.float32(2), np.int64(2),
    np.ones((3, 4)), [1.0, 2.0, 3.0, 4.0], None, "text",
]  # fmt: skip
OPERATORS = [
    f"__{side}{name}__"
    for name in ("add", "sub", "mul", "truediv", "pow", "matmul", "mod", "and", "lshift")
    for side in ("", "r")
] + ["__lt__", "__eq__"]


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gives: arrays, and the ops and attributes that made them; or an error."""
    try:
        result = call()
    except Exception as error:
        text = error.message if isinstance(error, NodescopeError) else str(error)
        return type(error), text, type(error.__cause__)
    if not isinstance(result, Tensor):
        return type(result), repr(result)
    data = result.data
    shown = type(result), data.dtype, data.shape, data.tobytes()
    if result.edge is None:
        return shown
    _, op, inputs, attrs = result.edge
    assert op is not None
    kinds = [(type(one), None if isinstance(one, Tensor) else one) for one in inputs]
    return *shown, op.name, kinds, repr(attrs), {key: type(value) for key, value in attrs.items()}


def same(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Both give the same, and the core's function is not a Python function."""
    assert not inspect.isfunction(function), "no native core"
    with np.errstate(all="ignore"):
        expected = outcome(lambda: function.__wrapped__(*args, **kwargs))
        assert repr(outcome(lambda: function(*args, **kwargs))) == repr(expected)
    return expected


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str) -> None:
    function = Tensor.__dict__[name]
    for left in (X, Y, INTEGERS, LOW, SCALAR, WRITTEN):
        for right in OPERANDS:
            same(function, left, right)
    same(function, X)
    same(function, X, Y, Y)


@pytest.mark.parametrize("name", ["__neg__", "__abs__", "__invert__"])
def test_unary_operators(name: str) -> None:
    for x in (X, INTEGERS, LOW, WRITTEN):
        same(Tensor.__dict__[name], x)


INDICES = [
    0, -1, 3, True, np.int64(1), Small.ONE, None, ..., slice(None), slice(1, 2),
    slice(None, None, -1), slice(np.int64(1), None), slice(0.5, None), (), (0, 1),
    (0, slice(1, 3)), (0, 1, 2), (None, 0),
    (slice(None), np.int64(1)), [0, 1], np.array([True, False, True]), INTEGERS, X, "text", 0.5,
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=lambda index: repr(index)[:40])
def test_indexing(index: Any) -> None:
    for x in (X, LOW, SCALAR, WRITTEN):
        same(Tensor.__dict__["__getitem__"], x, index)


REDUCTIONS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}), ((0,), {}), ((-1,), {"keepdims": True}), ((), {"axis": (0, 1)}),
    ((), {"axis": [0]}), ((), {"axis": np.int64(1)}), ((), {"axis": True}), ((2,), {}),
    ((), {"axis": (0, 0)}), ((), {"keepdims": 1}), ((), {"dtype": None}), ((0, None), {}),
    ((0,), {"axis": 0}), ((), {"dim": 0}), ((), {"axis": 0.5}), ((), {"where": True}),
    ((), {"ddof": 1}), ((0, None, None, True), {}),
]  # fmt: skip
NAMES = ("sum", "prod", "mean", "max", "min", "any", "all", "var", "std")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_reductions(name: str) -> None:
    for args, kwargs in REDUCTIONS:
        for x in (X, INTEGERS, LOW, SCALAR, WRITTEN):
            same(Tensor.__dict__[name], x, *args, **kwargs)
            by_numpy(getattr(np, name), x, *args, **kwargs)


def by_numpy(function: Any, *args: Any, **kwargs: Any) -> None:
    same(Tensor.__dict__["__array_function__"], X, function, (Tensor,), args, kwargs)


SHAPES = [
    (12,), ((12,),), (-1,), (2, 6), ((2, 6),), ([2, 6],), (5,), ((np.int64(2), 6),),
    (2, np.int64(6)), (), ((),), (None,), ("text",), (True, 12), ((True, 12),),
    (1, 0), ((1, 0),), (0, 0), (2, 1),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=repr)
def test_shapes(shape: Any) -> None:
    for x in (X, LOW, WRITTEN):
        for name in ("reshape", "transpose"):
            same(Tensor.__dict__[name], x, *shape)
            by_numpy(getattr(np, name), x, *shape)
        by_numpy(np.broadcast_to, x, *shape)
        by_numpy(np.expand_dims, x, *shape)
        by_numpy(np.reshape, x, *shape, order="C")
    same(Tensor.__dict__["reshape"], X, *shape, order="F")


def test_where() -> None:
    condition = X > 0
    for left in OPERANDS[:-2]:
        for right in (Y, LOW, 0.0, 1, np.float64(2)):
            by_numpy(np.where, condition, left, right)
    by_numpy(np.where, condition)
    by_numpy(np.where, condition, X)
    by_numpy(np.where, condition, X, X, X)
    by_numpy(np.where, condition, X, y=X)


@pytest.mark.parametrize("function", [np.concatenate, np.stack])
def test_joining(function: Any) -> None:
    ways: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}), ((1,), {}), ((), {"axis": -1}), ((), {"axis": 7}), ((np.int64(0),), {}),
        ((None,), {}), ((), {"dtype": np.float64}),
    ]  # fmt: skip
    for parts in (
        [X], [X, Y], (X, INTEGERS, Y), [X, LOW], [X, WRITTEN], [X, np.ones((3, 4))], [],
        [X, SCALAR], [X] * 12, X, [X, 1.0],
    ):  # fmt: skip
        for args, kwargs in ways:
            by_numpy(function, parts, *args, **kwargs)


@pytest.mark.filterwarnings("ignore")
def test_ufuncs() -> None:
    protocol = Tensor.__dict__["__array_ufunc__"]
    for ufunc in (np.exp, np.add, np.divmod, np.matmul, np.vecdot, np.isnan, np.frexp, np.gcd):
        for inputs in (
            (X,), (X, Y), (X, 2.0), (LOW, 2.0), (1, INTEGERS), (X, np.ones(4)), (X, True),
            (WRITTEN, X), (X, "text"), (X, Y.T),
        ):  # fmt: skip
            if len(inputs) == ufunc.nin:  # further ones would be written to
                same(protocol, X, ufunc, "__call__", *inputs)
                same(protocol, X, ufunc, "__call__", *inputs, dtype=np.float64)
            same(protocol, X, ufunc, "reduce", *inputs)


def test_an_observer_sees_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, Any]] = []

    def run(op: Op, inputs: Any, attrs: Any) -> Tensor:
        seen.append((op.name, attrs))
        return engine.run(op, inputs, attrs, False)

    monkeypatch.setattr(engine, "_slow", run)
    engine.set_slow(run)
    try:
        h: Any = np.exp(X + 1.0)
        np.sum(h[1:], axis=1)
        (1.0 - h).reshape(12).mean()
    finally:
        engine.set_slow(None)
        dispatch_mode._choose()
    assert [name for name, _ in seen] == [
        "add", "exp", "getitem", "sum", "subtract", "reshape", "mean",
    ]  # fmt: skip
    assert seen[3][1] == {"axis": 1, "keepdims": False}


def test_methods_keep_name_signature_and_documentation() -> None:
    assert Tensor.sum.__name__ == "sum"
    assert "axis" in inspect.signature(Tensor.sum).parameters
    assert Tensor.reshape.__qualname__ == "Tensor.reshape"
    assert "order" in inspect.signature(Tensor.reshape).parameters
    assert "The same elements in another shape" in (Tensor.reshape.__doc__ or "")
    bound = X.sum
    np.testing.assert_array_equal(bound(axis=0).numpy(), X.numpy().sum(axis=0))
    np.testing.assert_array_equal(
        X.__array_ufunc__(np.exp, "__call__", X).numpy(), np.exp(X.numpy())
    )


def test_nothing_leaks() -> None:
    x = X * 1.0

    def step() -> None:
        h: Any = np.where(x > 0, x, 1.0 - x)
        np.concatenate([h, x])[1:].sum(axis=0).reshape(2, 2).T.mean()
        for fails in (lambda: x.sum(axis=7), lambda: x.reshape(5), lambda: x[9], lambda: x @ x):
            with pytest.raises(NodescopeError):
                fails()  # type: ignore[no-untyped-call]

    def counts() -> list[int]:
        gc.collect()
        return [sys.getrefcount(item) for item in (x, x.data, x.data.dtype, None, 0, np.sum)]

    step()
    before = counts()
    for _ in range(200):
        step()
    assert all(abs(new - old) < 30 for new, old in zip(counts(), before, strict=True))
