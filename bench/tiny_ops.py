"""The cost per op on four-element tensors, which is almost only the engine's overhead.

The program is fifty times `h = h * y; h = h + x`: the forward pass alone, then with the backward
pass.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import nodescope as ns
from bench.measure import Row, median_ns, paired, ratio

PAIRS = 50
OPS = 2 * PAIRS
X = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
Y = np.array([0.5, 0.6, 0.7, 0.8], np.float32)


def body(x: Any, y: Any) -> Any:
    h = x
    for _ in range(PAIRS):
        h = h * y
        h = h + x
    return h


def rows() -> Iterator[Row]:
    yield from _forward()
    yield from _forward_and_backward()


def _forward() -> Iterator[Row]:
    x, y = ns.parameter(X, name="x"), ns.parameter(Y, name="y")
    contenders: dict[str, Callable[[], object]] = {
        "nodescope": lambda: body(x, y),
        "numpy": lambda: body(X, Y),
    }
    if torch := _module("torch"):
        torch.set_num_threads(1)
        tx, ty = (torch.from_numpy(array.copy()).requires_grad_() for array in (X, Y))
        contenders["torch"] = lambda: body(tx, ty)
    times = paired(contenders)
    nodescope_time = f"{median_ns(times, 'nodescope', OPS):.0f} ns per op"
    limits = {"numpy": (2.5, 2.0), "torch": (0.45, 0.35)}
    for peer in contenders:
        if peer in limits:
            must, aim = limits[peer]
            detail = f"{nodescope_time}, {peer} {median_ns(times, peer, OPS):.0f} ns"
            yield Row(
                "eager op with tape, tiny tensor",
                peer,
                ratio(times, "nodescope", peer),
                must=must,
                aim=aim,
                detail=detail,
            )


def _forward_and_backward() -> Iterator[Row]:
    x, y = ns.parameter(X, name="x"), ns.parameter(Y, name="y")

    def ours() -> object:
        x.grad = y.grad = None
        body(x, y).sum().backward()
        return x.grad

    contenders: dict[str, Callable[[], object]] = {"nodescope": ours}
    if torch := _module("torch"):
        tx, ty = (torch.from_numpy(array.copy()).requires_grad_() for array in (X, Y))

        def torchs() -> object:
            tx.grad = ty.grad = None
            body(tx, ty).sum().backward()
            return tx.grad

        contenders["torch"] = torchs
    if autograd := _module("autograd"):
        make_vjp = autograd.make_vjp
        pull = make_vjp(lambda pair: body(pair[0], pair[1]))

        def autograds() -> object:
            vjp, h = pull((X, Y))
            return vjp(np.ones_like(h))

        contenders["autograd"] = autograds
    if mygrad := _module("mygrad"):
        mx, my = mygrad.tensor(X), mygrad.tensor(Y)

        def mygrads() -> object:
            body(mx, my).sum().backward()
            grad = mx.grad
            mx.null_grad()
            my.null_grad()
            return grad

        contenders["mygrad"] = mygrads
    expected = np.asarray(ours().numpy())  # type: ignore[attr-defined]
    for name, call in contenders.items():
        result = call()
        result = result[0] if isinstance(result, tuple) else result
        result = result.numpy() if hasattr(result, "numpy") else np.asarray(result)
        np.testing.assert_allclose(result, expected, rtol=1e-4, err_msg=name)
    times = paired(contenders)
    limits = {"torch": (0.5, 0.33), "autograd": (0.2, 0.125), "mygrad": (0.2, 0.125)}
    nodescope_time = f"{median_ns(times, 'nodescope', OPS):.0f} ns per op"
    for peer, (must, aim) in limits.items():
        if peer in contenders:
            yield Row(
                "eager forward and backward, per op",
                peer,
                ratio(times, "nodescope", peer),
                must=must,
                aim=aim,
                detail=f"{nodescope_time}, {peer} {median_ns(times, peer, OPS):.0f} ns",
            )


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"  {name} is not installed: its rows are left out (make bench installs it)")
        return None
