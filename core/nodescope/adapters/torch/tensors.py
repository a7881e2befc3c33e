"""Tensors as arrays: specs, copies, elements, edits.

Invariant: only `TorchTensors.write` changes a tensor, in its own memory and unnoticed by autograd;
no other function here has an effect on the program.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np
import torch

from nodescope.adapters.torch import places
from nodescope.adapters.torch.compat import is_zero_tensor
from nodescope.adapters.torch.device import runtime as devices
from nodescope.adapters.torch.device.captures import captured
from nodescope.arrays import Captured, Window
from nodescope.errors import ArrayError
from nodescope.events import Array, Level
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import OpaqueSpec, Spec, TensorSpec
from nodescope.record.captures import Statistics
from nodescope.record.summary import summarise

# Above this size in bytes, statistics are computed at once instead of from a copy.
LARGE_BYTES: Final = 1 << 16
# Dtypes of PyTorch that NumPy lacks, and the dtypes in which their elements are shown.
_SHOWN_AS: Final = {torch.complex32: torch.complex64}
_BITS: Final = {torch.bfloat16: torch.int16}


@functools.cache
def dtype_name(dtype: torch.dtype) -> str:
    """A dtype's name, NumPy's if there is such a dtype: ``torch.float32`` is ``float32``."""
    return str(dtype).removeprefix("torch.")


def spec_of(tensor: Any) -> Spec:
    """The spec of a tensor, or of another object that an operator returned."""
    if not isinstance(tensor, torch.Tensor):
        kind = type(tensor)
        return OpaqueSpec(f"{kind.__module__}.{kind.__qualname__}")
    device = tensor.device
    shape = tuple(tensor.shape) if not tensor.is_nested else (None,) * tensor.dim()
    return TensorSpec(shape, dtype_name(tensor.dtype), "" if device.type == "cpu" else str(device))


def host_array(tensor: Any) -> Array:
    """The elements of a tensor as an array, which shares the tensor's memory where possible.

    Raises:
        ArrayError: The tensor has no elements that can be shown.
    """
    why = _unseen(tensor)
    if why:
        raise ArrayError(why)
    plain = tensor.detach()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    if plain.is_quantized:
        plain = plain.dequantize()
    if is_zero_tensor(plain):
        plain = torch.zeros(plain.shape, dtype=plain.dtype)
    if plain.is_conj():
        plain = plain.resolve_conj()
    if plain.is_neg():
        plain = plain.resolve_neg()
    if plain.device.type != "cpu":
        plain = plain.cpu()
    dtype = plain.dtype
    if dtype in _SHOWN_AS:
        return plain.to(_SHOWN_AS[dtype]).numpy()  # type: ignore[no-any-return]
    if dtype in _BITS:
        bits = np.from_dlpack(plain.view(_BITS[dtype]))
        return bits.view(as_dtype(dtype_name(dtype)))
    try:
        # `Tensor.numpy` would make the tensor's memory permanently non-resizable.
        return np.from_dlpack(plain)
    except (BufferError, RuntimeError, TypeError):
        pass
    try:
        return plain.numpy()  # type: ignore[no-any-return]
    except TypeError:  # 8-bit floats
        return plain.to(torch.float32).numpy()  # type: ignore[no-any-return]


def _unseen(tensor: Any) -> str:
    if tensor.is_meta:
        return "a tensor on the device meta has a shape, but no elements"
    if tensor.is_nested:
        return "the elements of a nested tensor cannot be shown; look at its parts"
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) and not _is_plain(tensor.__class__):
        return f"the elements of a {type(tensor).__name__} cannot be shown"
    return ""


@functools.cache
def _is_plain(kind: Any) -> bool:
    """Whether a tensor subclass stores its elements as a plain tensor does."""
    return bool(kind.__torch_dispatch__ is torch.Tensor.__torch_dispatch__)


def _after_the_last(tensor: Any) -> None:
    """Make reads of a tensor on a device wait for the program's work in other streams."""
    index = devices.index_of(tensor)
    runtime = devices.chosen()
    if index >= 0 and runtime is not None:
        stream = runtime.stream(index)
        if stream is None:
            raise ArrayError("a CUDA graph is being captured: it has no elements yet")
        runtime.after_the_last(index, stream)


class _Unobserved:
    """A context in which the calling thread's operators are nodescope's own, so unobserved."""

    def __enter__(self) -> None:
        self._native = places.native
        if self._native is not None:
            self._native.quiet(1)

    def __exit__(self, *raised: object) -> None:
        if self._native is not None:
            self._native.quiet(-1)


class TorchTensors:
    """See `ArrayOps`."""

    def spec(self, array: Any) -> Spec:
        """Shape, dtype and device."""
        return spec_of(array)

    def nbytes(self, array: Any) -> int:
        """Size of the elements in bytes."""
        try:
            return array.numel() * array.element_size()  # type: ignore[no-any-return]
        except RuntimeError:
            return 0

    def capture(self, array: Any, level: Level) -> Array | Captured | None:
        """A copy of the elements, or the statistics of a large tensor at level ``summary``.

        On a device, the computation is enqueued without waiting for it.
        """
        with torch.no_grad(), _Unobserved():
            if _unseen(array):
                return None
            index = devices.index_of(array)
            if index >= 0:
                runtime = devices.runtime()
                if runtime is not None:
                    enqueued: Captured | None = captured(runtime, index, array, level)
                    return enqueued
            elements = host_array(array)
            if level == "summary" and elements.nbytes > LARGE_BYTES:
                return Statistics(summarise(elements))
            return np.array(elements)

    def numpy(self, array: Any, window: Window | None = None) -> Array:
        """The elements, or those of a window."""
        with torch.no_grad(), _Unobserved():
            try:
                _after_the_last(array)
                if window is not None and array.layout is torch.strided:
                    array = array.detach()[window]
                return np.array(host_array(array))
            except ArrayError:
                raise
            except Exception as error:
                raise ArrayError(f"the elements cannot be read: {error}") from error

    def refusal(self, array: Any) -> str:
        """Why the tensor cannot be edited, such as that it is a view, or ``""``."""
        why = _unseen(array)
        if why:
            return why
        if array.layout is not torch.strided:
            return f"a tensor of layout {str(array.layout).removeprefix('torch.')} cannot be edited"
        storage = array.untyped_storage()
        if array._is_view() or array.numel() * array.element_size() < storage.nbytes():
            return "it is a view of another value: edit that one, at the node that made it"
        return ""

    def write(self, array: Any, new: Array) -> None:
        """Copy the new elements into the tensor's memory.

        Autograd does not notice: it computes the operation's derivative at the new value.
        """
        with torch.no_grad(), _Unobserved():
            try:
                elements = np.ascontiguousarray(new)
                if elements.dtype.name == "bfloat16":
                    elements = elements.astype(np.float32)
                array.data.copy_(torch.from_numpy(elements.copy()))
            except Exception as error:
                raise ArrayError(f"the tensor cannot be changed: {error}") from error
