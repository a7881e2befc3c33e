"""Copies of tensors by Python's own means: ``copy``, ``pickle``.

Invariant: a copy shares no memory with its original, and a leaf's copy is a leaf.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.engine.source import where
from nodescope.engine.tensor import LEAF, Tensor, alias, check_known, make, settled
from nodescope.errors import GradientError
from nodescope.ops.op import Array


def _copied(self: Tensor, memo: Any = None) -> Tensor:
    """``copy.copy`` and ``copy.deepcopy``: a leaf stays a leaf, a computed tensor keeps a
    history.
    """
    if self.edge is not None and self.edge is not LEAF:
        return self.copy()
    copy = alias(settled(self), self.edge)
    if isinstance(copy.data, np.ndarray):
        copy.data = copy.data.copy(order="K")
    if hasattr(copy, "_vid"):
        del copy._vid  # another value
    return copy


def _reduced(self: Tensor, protocol: Any) -> Any:
    """The state for ``pickle``. Raises `GradientError` for a history, which cannot be kept."""
    if self.edge is not None and self.edge is not LEAF:
        raise GradientError(
            "pickle: this tensor was computed from one that requires a gradient",
            source=where(),
            hint="keep x.detach(), or x.numpy()",
        )
    check_known(self, "pickle")
    return _restored, (self.data, self.edge is LEAF, getattr(self, "_kind", "tensor"), self.name)


def _restored(data: Array, leaf: bool, kind: str, name: str) -> Tensor:
    return make(data, LEAF if leaf else None, kind, name)


for _name, _function in {
    "__copy__": _copied, "__deepcopy__": _copied, "__reduce_ex__": _reduced,
}.items():  # fmt: skip
    setattr(Tensor, _name, _function)
