"""What the functions here are written with.

Invariant: one call of `call` is one node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.engine.run import apply
from nodescope.engine.tensor import NO_ATTRS, Tensor, make, operand, weak

Table = dict[Any, Callable[..., Any]]
"""NumPy's function to ours, which takes the same arguments."""


def tensor_of(value: Any) -> Tensor:
    """``value`` as a tensor; arrays, lists and numbers become constants."""
    found = operand(value)
    if found.__class__ is Tensor:
        return found  # type: ignore[no-any-return]
    return make(np.asarray(value), kind="constant")


def call(name: str, *inputs: Any, **attrs: Any) -> Any:
    """Run the op ``name`` on tensors and Python scalars."""
    return apply(ops.get(name), weak(inputs), attrs or NO_ATTRS)
