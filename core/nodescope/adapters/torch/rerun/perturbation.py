"""Perturbation: finds the input elements that matter by changing them a little.

It changes a whole range of an input at once, and halves the range where the result changes. All
numbers are stand-ins in double precision, so rounding does not hide a dependence.

Invariant: time is bounded; the changes are the same each time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch

from nodescope.adapters.torch.rerun.arguments import NotTriedError, call_of
from nodescope.adapters.torch.rerun.wire import Request
from nodescope.events import Array

MOST_S: Final = 4.0
"""Time limit in seconds for one input."""


def moved_reads(
    request: Request, attrs: Mapping[str, Any], operands: Sequence[Any], number: int
) -> Array:
    """The positions in one input that the element of the request depends on.

    Raises:
        NotTriedError: There are too many positions to find in time.
    """
    plain = [tensor.detach() for tensor in operands]
    before = _element(request, attrs, plain)
    elements = plain[number].reshape(-1)
    by = np.random.default_rng(number).uniform(0.5e-3, 1.5e-3, elements.numel())
    moved = elements + torch.from_numpy(by) * (1 + elements.abs())
    positions: list[int] = []
    waiting = [(0, elements.numel())] if elements.numel() else []
    until = time.monotonic() + MOST_S
    while waiting:
        start, end = waiting.pop()
        if time.monotonic() > until:
            raise NotTriedError("it reads too many elements to find them one by one")
        mixed = elements.clone()
        mixed[start:end] = moved[start:end]
        trial = list(plain)
        trial[number] = torch.empty_like(plain[number]).copy_(mixed.reshape(plain[number].shape))
        if torch.equal(_element(request, attrs, trial), before):
            continue
        if end - start == 1:
            positions.append(start)
        else:
            middle = (start + end) // 2
            waiting += [(middle, end), (start, middle)]
    return np.array(positions, np.int64)


def _element(request: Request, attrs: Mapping[str, Any], tensors: Sequence[Any]) -> Any:
    """The requested output element for these inputs, which are left unchanged."""
    with torch.no_grad():
        call = call_of(request.native, attrs, [tensor.clone() for tensor in tensors])
        return torch.nan_to_num(call.run()[request.port].reshape(-1)[request.position])
