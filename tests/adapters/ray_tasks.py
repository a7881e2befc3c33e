"""The operations of `ray_case`, as tasks. Workers import only this module of the suite."""

from __future__ import annotations

from typing import Any

import numpy as np
import ray


@ray.remote
def multiply(x: Any, w: Any) -> Any:
    return x @ w


@ray.remote
def bend(x: Any) -> Any:
    return np.tanh(x)


@ray.remote
def average(x: Any) -> Any:
    return x.mean()


@ray.remote
def pile(x: Any, row: Any) -> Any:
    return np.concatenate([x, row])


@ray.remote
def row(x: Any, at: int) -> Any:
    return x[at]


@ray.remote
def positive(x: Any) -> Any:
    return x[x > 0]


@ray.remote
def explode(x: Any) -> Any:
    with np.errstate(over="ignore"):
        return np.exp(x)


@ray.remote
def refuse(x: Any) -> Any:
    raise ArithmeticError("refused")


@ray.remote
def lowered(w: Any, by: float) -> Any:
    return w - by
