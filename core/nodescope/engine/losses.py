"""Losses: the scalar at which each backward pass begins.

While a function is traced, the values that are losses are noted; after each call of the compiled
function, those among its outputs are reported.

Invariant: reads one number per backward pass; no value and no node depends on it.
"""

from __future__ import annotations

import sys
from typing import Any

from nodescope.engine import dispatch_mode
from nodescope.engine.tensor import Tensor
from nodescope.origins import is_internal


def began(root: Tensor, depth: int = 2) -> None:
    """A backward pass begins at a tensor, with the gradient one: if it is a number, a loss.

    Args:
        depth: So many frames from here on are the engine's at least.
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
