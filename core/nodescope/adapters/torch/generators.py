"""Generators: records the generator state before a random operator, so that a re-run draws the same
numbers.

The state is an attribute of the execution. A state takes 5 kB, so only the first `MOST_BYTES` of
states of a run are kept.

Invariant: a state is read, never changed.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from nodescope.adapters.torch.rerun.refusals import GENERATOR_STATE, draws, plain_name
from nodescope.adapters.torch.signatures import Bound, Signature

__all__ = ["GENERATOR_STATE", "Generators"]

MOST_BYTES: Final = 32 << 20


class Generators:
    """The generator states of a run."""

    def __init__(self) -> None:
        self.left = MOST_BYTES
        """The number of bytes of states that may still be kept."""
        self.before = b""
        """The state before an operator that has already run and is reported next, or ``b""``."""

    def state_before(self, signature: Signature, bound: Bound) -> bytes:
        """The state of the generator that an operator is about to draw from.

        ``b""`` if the operator draws nothing, if it draws on a device other than the CPU, or if
        `left` is used up.
        """
        before, self.before = self.before, b""
        if self.left <= 0 or not draws(plain_name(signature.native), signature.attrs(bound.plain)):
            return b""
        tensors = (*bound.inputs, *bound.overwritten)
        if not all(tensor.is_cpu for tensor in tensors):
            return b""
        generator: Any = None
        for argument, value in zip(signature.arguments, bound.plain, strict=True):
            if argument.name == "generator":
                generator = value
            if (
                argument.name == "device"
                and value is not None
                and torch.device(value).type != "cpu"
            ):
                return b""
        generator = torch.default_generator if generator is None else generator
        if generator.device.type != "cpu":
            return b""
        state = before or generator.get_state().numpy().tobytes()
        self.left -= len(state)
        return bytes(state)
