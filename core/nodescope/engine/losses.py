"""Losses: the scalar at which each backward pass begins.

While a function is traced, the values that are losses are noted; after each call of the compiled
function, those among its outputs are reported.

Invariant: one number per backward pass is read; no value or node depends on it.
"""

from __future__ import annotations

import sys
from typing import Any

from nodescope.engine import dispatch_mode
from nodescope.engine.tensor import Tensor
from nodescope.origins import is_internal


def began(root: Tensor, depth: int = 2) -> None:
    """Note a backward pass that begins at a tensor with gradient one: a loss, if it is a scalar.

    Args:
        depth: The number of innermost frames that surely belong to the engine.
    """
    observer = dispatch_mode.builder() or dispatch_mode.attending()
    if observer is None:
        return
    data: Any = root.data
    if data.ndim or data.dtype.kind == "c":
        return
    frame = sys._getframe(depth)
    while is_internal(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    observer.began(root, (frame.f_code, frame.f_lasti))
