"""Small graphs with what compilers often get wrong: signed zeros, layouts, loops, waiting.

Invariant: each traced graph runs, and is the same in every run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope.ops.calls import Scalar
from tests.conformance.graphs.choose import Choices, Seeded
from tests.conformance.graphs.making import Case, Making

ZEROS = np.array([0.0, -0.0, 1.5, np.nan, np.inf, -np.inf, -2.0], np.float32)
RNG = np.random.default_rng


def _x(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> np.ndarray[Any, Any]:
    return RNG(seed).standard_normal(shape).astype(dtype)


def neutral_numbers(m: Making) -> list[int | None]:
    x = m.input(ZEROS)
    return [
        m.one(op, args)
        for op in ("add", "subtract", "multiply", "divide", "power")
        for number in (0.0, -0.0, 1.0, -1.0, 2, 0.5, 3.0)
        for args in ((x, Scalar(number)), (Scalar(number), x))
    ]


def itself(m: Making) -> list[int | None]:
    x, n = m.input(ZEROS), m.input(np.arange(-3, 4))
    return [m.one(op, (v, v)) for v in (x, n)
            for op in ("subtract", "divide", "maximum", "equal", "multiply")]  # fmt: skip


def casts(m: Making) -> list[int | None]:
    x, n = m.input(_x((9,), "float64")), m.input(np.arange(2**53 - 4, 2**53 + 5))
    narrow = m.one("astype", (x,), dtype="float32")
    back = m.one("astype", (narrow,), dtype="float64")
    real = m.one("astype", (n,), dtype="float64")
    return [back, m.one("astype", (real,), dtype="int64")]


def twins(m: Making) -> list[int | None]:
    """Nodes that differ in one detail only."""
    x, n = m.one("copy", (m.input(_x((3, 4))),)), m.input(np.arange(12).reshape(3, 4))
    z = m.input(ZEROS)
    results = [m.one("sum", (x,), axis=axis, keepdims=keep)
             for axis in (0, 1, -1, None) for keep in (True, False)]  # fmt: skip
    results += [m.one("multiply", (n, Scalar(item))) for item in (1, 1.0, True, 2, 2.0)]
    results += [m.one("copysign", (m.one("abs", (m.input(_x((3,))),)), Scalar(item)))
              for item in (0.0, -0.0)]  # fmt: skip
    results += [m.one("add", (z, Scalar(item))) for item in (0.0, -0.0)]
    results += [m.one("subtract", args) for args in ((x, Scalar(2.0)), (Scalar(2.0), x))]
    y = m.one("copy", (m.input(_x((3, 4), seed=1)),))
    results += [m.one(op, args) for op in ("subtract", "divide", "greater", "power", "add")
              for args in ((x, y), (y, x))]  # fmt: skip
    results += [m.one("astype", (n,), dtype=item) for item in ("float32", "float64", "int32")]
    results += list(m.node("divmod", (x, y)) or ()) + list(m.node("divmod", (x, y)) or ())
    return results


def again(m: Making) -> list[int | None]:
    """Nodes to recompute in order to save memory."""
    x = m.input(_x((3, 4)))
    first = m.one("tanh", (x,))
    m.phase = "recompute"
    two = m.one("tanh", (x,))
    m.phase = "backward"
    return [m.one("multiply", (first, two)), m.one("add", (two, x))]


def orders(m: Making) -> list[int | None]:
    """Transposes of transposes, and reshapes of them."""
    x = m.one("copy", (m.input(_x((2, 3, 4))),))
    once = m.one("transpose", (x,), axes=(1, 2, 0))
    flat = m.one("reshape", (once,), shape=(6, 4))
    return [
        m.one("transpose", (once,), axes=(1, 2, 0)), m.one("transpose", (once,), axes=(2, 0, 1)),
        m.one("transpose", (once,), axes=(0, 2, 1)), flat, m.one("reshape", (flat,), shape=(2, 12)),
        m.one("flip", (m.one("flip", (x,), axis=0),), axis=1),
    ]  # fmt: skip


def copies(m: Making) -> list[int | None]:
    """Sums over a transposed array and over its copy, which add in different orders."""
    x = m.input(_x((40, 50)))
    turned = m.one("transpose", (x,), axes=None)
    copy = m.one("copy", (turned,))
    same = m.one("multiply", (copy, Scalar(1.0)))
    parts = [m.one("multiply", (x, Scalar(item))) for item in (0.3, 0.7, 1.7, 2.9)]
    return [
        m.one("sum", (v,), axis=None, keepdims=False) for v in (turned, copy, same, x, *parts)
    ]  # fmt: skip


def constants(m: Making) -> list[int | None]:
    """Constants to fold."""
    a = m.constant(_x((300,)))
    b = m.constant(_x((300,), seed=2))
    product = m.one("multiply", (a, b))
    total = m.one("sum", (product,), axis=None, keepdims=False)
    x = m.input(_x((300,), seed=3))
    return [m.one("add", (m.one("exp", (product,)), x)), m.one("multiply", (total, x)), product]


def waiting(m: Making) -> list[int | None]:
    """Nodes that wait for others, some of which are otherwise unused."""
    x = m.input(_x((4,)))
    dead = m.one("exp", (x,))
    assert dead is not None
    first = m.nodes[-1].id
    p = m.input(_x((4,), seed=1), op="parameter")
    new = m.node("assign_add", (p, x), control=(first,)) or [0]
    second = m.nodes[-1].id
    more = [m.one("assign_add", (p, x)) for _ in range(2)]
    third = m.nodes[-1].id
    soon = m.node("negative", (x,)) or [0]
    late = m.node("negative", (x,), control=(second, third)) or [0]
    return [new[0], *more, late[0], soon[0]]


def diamond(m: Making) -> list[int | None]:
    """A product between two elementwise parts, which could be one kernel without it."""
    x, w = m.input(_x((8, 8))), m.input(_x((8, 8), seed=1))
    a = m.one("tanh", (x,))
    b = m.one("multiply", (a, Scalar(2.0)))
    product = m.one("matmul", (b, w))
    c = m.one("add", (product, b))
    d = m.one("subtract", (c, a))
    e = m.one("maximum", (d, Scalar(0.0)))
    return [e, c]


def rows(m: Making) -> list[int | None]:
    """Reductions with NaN in different places, over either axis."""
    x = _x((5, 40))
    x[1, 3] = x[4, 39] = np.nan
    x[2] = -np.inf
    x[3, :] = -0.0
    v = m.input(x)
    results = [m.one(op, (v,), axis=axis, keepdims=keep) for op in ("max", "min", "sum", "mean")
             for axis in (0, 1, None) for keep in (True, False)]  # fmt: skip
    results += [m.one("softmax", (v,), axis=axis) for axis in (0, 1)]
    relu = m.one("relu", (v,))
    return [*results, relu, m.one("maximum", (relu, Scalar(1.0)))]


def chain(m: Making) -> list[int | None]:
    """A chain of elementwise nodes on 37 elements, with numbers on either side."""
    x, y = m.input(_x((37,))), m.input(_x((37,), seed=1))
    now: int | None = x
    for number in (0.1, 3.0, 0.7):
        now = m.one("add", (m.one("multiply", (now, Scalar(number))), y))
        now = m.one("subtract", (Scalar(1.0), now))
        now = m.one("tanh", (m.one("divide", (Scalar(0.3), now)),))
    early = m.one("square", (x,))
    return [now, early, m.one("reciprocal", (m.one("add", (early, Scalar(1.0))),)), x]


def exact(m: Making) -> list[int | None]:
    """Values that must be bit-identical in any back end."""
    x, y = m.input(_x((37,))), m.input(_x((37,), seed=1))
    now = x
    for number in (0.123456789, 3.3333333, 0.7654321):
        now = m.one("add", (m.one("multiply", (now, Scalar(number))), y)) or now
        now = m.one("subtract", (Scalar(1.2345678), m.one("multiply", (now, x)))) or now
    return [now, m.one("greater", (now, Scalar(0.1)))]


def held(m: Making) -> list[int | None]:
    """Values and their views, used long after they were made."""
    x = m.input(_x((16, 16)))
    a = m.one("multiply", (x, x))
    view = m.one("transpose", (a,), axes=None)
    b = m.one("add", (x, Scalar(0.5)))
    c = m.one("multiply", (b, Scalar(0.3)))
    only = m.one("transpose", (m.one("multiply", (c, Scalar(0.25))),), axes=None)
    d = m.one("subtract", (c, x))
    e = m.one("matmul", (d, b))
    f = m.one("add", (m.one("add", (e, view)), only))
    g = m.one("multiply", (f, a))
    top = m.one("getitem", (g,), index=(slice(1, 9),))
    h = m.one("add", (m.one("matmul", (g, d)), b))
    for _ in range(4):
        h = m.one("matmul", (m.one("tanh", (h,)), d))
    h = m.one("add", (h, only))
    return [h, m.one("multiply", (top, Scalar(2.0))), m.one("add", (a, view))]


def turned(m: Making) -> list[int | None]:
    """A transposed result of a product, as an operand of another product."""
    x, w = m.input(_x((6, 6))), m.input(_x((6, 6), seed=1))
    a = m.one("matmul", (x, w))
    b = m.one("subtract", (m.one("transpose", (a,), axes=(1, 0)), a))
    c = m.one("matmul", (b, w))
    d = m.one("multiply", (m.one("flip", (c,), axis=0), c))
    return [m.one("matmul", (d, w))]


def returned(m: Making) -> list[int | None]:
    """Results that are one another, inputs, constants, and views."""
    x, k = m.input(_x((4, 4))), m.constant(_x((4, 4), seed=1))
    copy = m.one("copy", (x,))
    twice = m.one("negative", (m.one("negative", (x,)),))
    same = m.one("multiply", (k, Scalar(1.0)))
    doubled = m.one("add", (x, k))
    also = m.one("add", (x, k))
    return [copy, twice, same, doubled, also, x, k]


def spread_out(m: Making) -> list[int | None]:
    """Broadcasting, implicit and explicit."""
    row, column = m.input(_x((1, 5))), m.input(_x((4, 1), seed=1))
    whole = m.input(_x((4, 5), seed=2))
    wide = m.one("broadcast_to", (row,), shape=(4, 5))
    both = m.one("broadcast_to", (row,), shape=(3, 4, 5))
    return [
        m.one("add", (wide, whole)), m.one("multiply", (wide, column)), m.one("negative", (wide,)),
        m.one("sum", (both,), axis=None, keepdims=False), m.one("add", (both, whole)),
        m.one("sum", (m.one("square", (both,)),), axis=(0, 2), keepdims=True),
    ]  # fmt: skip


def strong_numbers(m: Making) -> list[int | None]:
    """Powers, divisions and choices by numbers."""
    x = m.input(np.concatenate([ZEROS, _x((20,))]))
    n = m.input(np.arange(-9, 9))
    mask = m.one("greater", (x, Scalar(0.1)))
    results = [m.one("divide", (x, Scalar(item))) for item in (3.0, 0.1, 2.0, -4.0, 1e-40)]
    results += [m.one("power", (x, Scalar(item))) for item in (2, 0.5, -1, 1, 0, 3)]
    results += [m.one(op, (n, Scalar(item))) for op in ("floor_divide", "remainder")
              for item in (2, 3, 4, 8)]  # fmt: skip
    results += [m.one("where", (mask, x, Scalar(item))) for item in (0.0, -0.0, 1.0)]
    return [*results, m.one("reciprocal", (x,))]


DIRECTED: tuple[Callable[[Making], list[int | None]], ...] = (
    neutral_numbers, itself, casts, twins, again, orders, copies, constants, waiting, diamond,
    rows, chain, exact, held, turned, returned, spread_out, strong_numbers,
)  # fmt: skip


@functools.cache
def directed() -> tuple[Case, ...]:
    """All directed graphs."""
    results = []
    for item in DIRECTED:
        m = Making(Choices(Seeded(0)))
        outputs = [value for value in item(m) if value]
        results.append(m.finish(item.__name__, outputs))
    return tuple(results)
