"""Failures: finds the exception of an operator that raised in C++, which the observer cannot see.

The operator runs again on the same operands, with copies of those that it writes to; the state of
the random generator is restored. That takes as long as the operator took before it raised. If it
raises nothing this time, the exception came from code after it: a hook that saves its result for
the backward pass, such as that of a checkpoint that has recomputed enough.

Invariant: the program's tensors and random numbers are unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from nodescope.adapters.torch.compat import schema_of

if TYPE_CHECKING:
    from nodescope.adapters.torch.operations import Call


def again(call: Call) -> Any:
    """Run a call that has raised again, and return its result.

    Raises:
        Exception: The exception of the call, or one that says that it is not known.
    """
    if call.function.namespace != "aten":
        raise RuntimeError(f"{call.signature.native} raised an exception")
    written = {id(call.bound.inputs[port]) for port in call.bound.written}
    drawn = torch.random.get_rng_state()
    try:
        copies = [_copy(argument, written) for argument in call.args]
        named = {
            argument.name: value
            for argument, value in zip(schema_of(call.function).arguments, copies, strict=True)
            if argument.kwarg_only
        }
        result = call.function(*copies[: len(copies) - len(named)], **named)
    finally:
        torch.random.set_rng_state(drawn)
    if written:
        raise RuntimeError(f"{call.signature.native} was refused by autograd")
    return result


def kept_instead(result: Any, kept: list[Any]) -> Any:
    """A result in which tensors that a hook has kept replace the recomputed ones."""
    if isinstance(result, tuple | list):
        return [kept_instead(item, kept) for item in result]
    for tensor in kept:
        if isinstance(result, torch.Tensor) and (tensor.shape, tensor.dtype) == (
            result.shape, result.dtype,
        ):  # fmt: skip
            return tensor
    return result


def _copy(argument: Any, written: set[int]) -> Any:
    if isinstance(argument, torch.Tensor):
        return argument.clone() if id(argument) in written else argument
    if isinstance(argument, list):
        return [_copy(item, written) for item in argument]
    return argument
