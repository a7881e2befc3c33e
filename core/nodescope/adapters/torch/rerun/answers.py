"""Answers: runs recorded operators and finds which elements they read, in the PyTorch process.

Invariant: each request has its own tensors, so in-place writes affect nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import torch

from nodescope.adapters.torch.rerun.arguments import Call, NotTriedError, call_of
from nodescope.adapters.torch.rerun.refusals import GENERATOR_STATE
from nodescope.adapters.torch.rerun.slopes import places, slopes
from nodescope.adapters.torch.rerun.wire import ArrayHeader, Request, checked
from nodescope.adapters.torch.tensors import host_array
from nodescope.events import Array
from nodescope.ir.attrs import decode_attrs

__all__ = ["NotTriedError", "answer", "received"]

_DTYPES: Final = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16,
        torch.int32, torch.int64, torch.float16, torch.float32, torch.float64, torch.complex64,
        torch.complex128, torch.bfloat16,
    )
}  # fmt: skip
_VIEWED: Final = frozenset({"aten::view", "aten::_unsafe_view"})


def received(headers: Sequence[ArrayHeader], read_into: Callable[[memoryview], bool]) -> list[Any]:
    """Read tensors whose memory follows, aligned as PyTorch aligns memory."""
    tensors: list[Any] = []
    for header in headers:
        if header.same_as >= 0:
            tensors.append(tensors[header.same_as])
            continue
        memory = torch.empty(header.nbytes, dtype=torch.uint8)
        if header.nbytes and not read_into(memoryview(memory.numpy())):
            raise EOFError
        dtype = _DTYPES[header.dtype]
        size = checked(header).itemsize
        if not header.nbytes:
            tensors.append(torch.empty(header.shape, dtype=dtype))
        elif any(step % size for step in header.strides):
            raise ValueError("strides that are no whole elements")
        else:
            steps = [step // size for step in header.strides]
            tensors.append(memory.view(dtype).as_strided(header.shape, steps))
    return tensors


def answer(request: Request, tensors: list[Any]) -> list[Array]:
    """The arrays that answer a request.

    Raises:
        NotTriedError: The call cannot be made.
        Exception: What PyTorch raises.
    """
    attrs = decode_attrs(request.attrs)
    if request.threads > 0 and request.threads != torch.get_num_threads():
        torch.set_num_threads(request.threads)
    if request.task == "places":
        return [places(request, attrs, tensors)]
    if request.task == "slopes":
        return slopes(request, attrs, tensors)
    state = attrs.pop(GENERATOR_STATE, b"")
    if state:
        attrs.pop("generator", None)  # the default generator gets its state
    call = call_of(request.native, attrs, tensors)
    _check_repeatable(call, seeded=bool(state))
    if state:
        torch.default_generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))
    with torch.inference_mode():
        return [_elements(output) for output in _run(call)]


def _run(call: Call) -> tuple[Any, ...]:
    if call.signature.native == "aten::_reshape_alias":
        # Its strides refer to the recorded memory, and PyTorch does not check them.
        return (torch.reshape(call.args[0], call.args[1]),)
    try:
        return call.run()
    except RuntimeError:
        # Only the elements of a view are recorded, not those of the tensor it views.
        if call.signature.native.partition(".")[0] not in _VIEWED or len(call.args) < 2:
            raise
        return (torch.reshape(call.args[0], call.args[1]),)


def _check_repeatable(call: Call, *, seeded: bool) -> None:
    """Refuse a call that would not give the same result again.

    The parent process also refuses operators that draw random numbers, by name.
    """
    if call.signature.native.startswith("aten::as_strided") and not _stands_alone(call):
        raise NotTriedError("it addresses memory, of which only the tensor's elements are recorded")
    if seeded or torch.Tag.nondeterministic_seeded not in call.function.tags:
        return
    values = (*call.args, *call.kwargs.values())
    for argument, value in zip(call.signature.arguments, values, strict=True):
        if argument.name in ("dropout_p", "dropout", "p") and value == 0:
            return
        if argument.name in ("train", "training") and value is False:
            return
    raise NotTriedError(
        "it draws random numbers, and the state of PyTorch's generator is not recorded"
    )


def _stands_alone(call: Call) -> bool:
    """Whether an operator that addresses memory stays within the elements of its tensor."""
    offset = next(
        value
        for argument, value in zip(
            call.signature.arguments, (*call.args, *call.kwargs.values()), strict=True
        )
        if argument.name == "storage_offset"
    )
    return offset is None and call.args[0].is_contiguous()


def _elements(output: Any) -> Array:
    """A tensor as it is recorded: its elements in index order, without gaps."""
    if not isinstance(output, torch.Tensor):  # a gradient that was not requested
        return np.empty(0, np.float32)
    try:
        return np.array(host_array(output))
    except RuntimeError:  # a zero tensor without memory
        return np.array(host_array(torch.zeros(output.shape, dtype=output.dtype)))
