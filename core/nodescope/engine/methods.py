"""Methods, properties and protocols of NumPy arrays, besides operators; and unsupported ones.

A method named like a NumPy function is that function, through the same dispatch.

Invariant: every attribute of NumPy arrays is implemented, or refused with an alternative;
``hasattr`` is then False.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

import numpy as np

from nodescope.engine.operators import called, function_method
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor, check_known
from nodescope.errors import BoundsError, MissingError, ShapeError, UnsupportedError, UsageError
from nodescope.ops.layout import as_shape

_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


# Methods that are NumPy functions


_FUNCTIONS = (
    "argpartition", "argsort", "choose", "clip", "cumprod", "diagonal", "dot", "nonzero", "put",
    "repeat", "round", "searchsorted", "swapaxes", "take", "trace",
)  # fmt: skip


def _compress(self: Tensor, condition: Any, axis: int | None = None, out: Any = None) -> Tensor:
    """`numpy.compress` of this tensor: the elements where ``condition`` is true."""
    result: Any = np.compress(condition, self, axis=axis, out=out)
    return result  # type: ignore[no-any-return]


# Properties


def _matrix_transposed(self: Tensor) -> Tensor:
    """The last two dimensions swapped.

    Raises:
        ShapeError: The tensor has fewer than two dimensions.
    """
    if self.ndim < 2:
        raise ShapeError(
            f"mT: a tensor of shape {self.shape} is not a matrix",
            source=where(),
            hint="reshape it to two dimensions first",
        )
    order = (*range(self.ndim - 2), self.ndim - 1, self.ndim - 2)
    return self.transpose(order)


def _real(self: Tensor) -> Tensor:
    """The real parts; the tensor itself if it is not complex."""
    if self.dtype.kind != "c":
        return self
    result: Any = np.real(self)
    return result  # type: ignore[no-any-return]


def _conjugate(self: Tensor) -> Tensor:
    """The complex conjugate; the tensor itself if it is not complex."""
    if self.dtype.kind != "c":
        return self
    result: Any = np.conjugate(self)
    return result  # type: ignore[no-any-return]


def _imag(self: Tensor) -> Tensor:
    """The imaginary parts, zeros if it is not complex."""
    result: Any = np.imag(self)
    return result  # type: ignore[no-any-return]


def _itemsize(self: Tensor) -> int:
    """Bytes of one element."""
    return int(self.dtype.itemsize)


def _nbytes(self: Tensor) -> int:
    """Bytes of all elements."""
    return self.size * int(self.dtype.itemsize)


def _device(self: Tensor) -> str:
    """Where the elements are: always ``"cpu"``."""
    return "cpu"


# Protocols


def _to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """The tensor itself: there is only one device.

    Raises:
        UsageError: The device is not ``"cpu"``, or a stream is given.
    """
    if device != "cpu":
        raise UsageError(
            f"to_device: no device {device!r}", source=where(), hint='the only one is "cpu"'
        )
    if stream is not None:
        raise UsageError("to_device: the CPU has no streams", source=where(), hint="omit it")
    return self


def _namespace(self: Tensor, /, *, api_version: str | None = None) -> Any:
    """The module `nodescope`, which follows the Python array API standard.

    Raises:
        UsageError: Another version of the standard is requested.
    """
    if api_version is not None and api_version not in _VERSIONS:
        raise UsageError(
            f"__array_namespace__: no version {api_version!r} of the array API standard",
            source=where(),
            hint=f"there are {', '.join(_VERSIONS)}",
        )
    return sys.modules["nodescope"]  # which lies above this layer


def _dlpack(
    self: Tensor,
    /,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[Any, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """The elements for another library, by the DLPack protocol; read-only, or a copy.

    Raises:
        UnsupportedError: The tensor requires a gradient, which would be lost silently, or it is
            bfloat16, which NumPy does not export.
    """
    if self.edge is not None:
        raise UnsupportedError(
            "__dlpack__: this tensor requires a gradient, which would not flow out of the graph",
            source=where(),
            hint="export x.detach()",
        )
    if self.dtype.kind == "V":
        raise UnsupportedError(
            f"__dlpack__: NumPy does not export {self.dtype}",
            source=where(),
            hint="convert with .astype('float32')",
        )
    data = self.numpy()
    # Without versions, the protocol has no read-only flag: such callers get a copy.
    if copy is None and (max_version is None or max_version[0] < 1):
        return data.copy().__dlpack__(stream=stream, dl_device=dl_device)
    return data.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)


def _dlpack_device(self: Tensor, /) -> tuple[int, int]:
    """The CPU, in DLPack's numbers."""
    return (1, 0)


def _complex(self: Tensor) -> complex:
    return complex(self._one("complex"))


def _divmod(self: Tensor, other: Any) -> Any:
    return self // other, self % other


def _rdivmod(self: Tensor, other: Any) -> Any:
    return other // self, other % self


def _item(self: Tensor, *index: Any) -> Any:
    """One element as a Python number: the only one, the n-th of all, or the one at an index.

    Raises:
        ShapeError: There is not exactly one element and no index.
        BoundsError: The index is out of range.
    """
    if not index:
        return _only(self)
    check_known(self, "item")
    try:
        places: Any = (as_shape(item) if isinstance(item, tuple) else item for item in index)
        return self.data.item(*places)
    except (IndexError, ValueError) as error:
        raise BoundsError(f"item: {error}", source=where()) from None


_only = Tensor.item


def _tobytes(self: Tensor, order: str = "C") -> bytes:
    """The elements as bytes, in C's order or Fortran's ("F")."""
    check_known(self, "tobytes")
    return self.data.tobytes(order)  # type: ignore[arg-type]


# Unsupported attributes

_ARRAY = "it is the array's own: take it from x.numpy()"
_INPLACE = "write x {}= y"
_MISSING = {
    "base": _ARRAY, "byteswap": _ARRAY, "ctypes": _ARRAY, "dump": _ARRAY, "dumps": _ARRAY,
    "flags": _ARRAY, "getfield": _ARRAY, "strides": _ARRAY, "tofile": _ARRAY,
    "tostring": _ARRAY, "setfield": _ARRAY, "setflags": _ARRAY,
    "itemset": "write x[index] = value",
    "resize": "a tensor keeps its shape: x = x.reshape(...), np.resize(x, shape), or np.pad",
    "ptp": "use x.max() - x.min()",
    "newbyteorder": "elements are always in the machine's own order",
    "view": "use x.reshape for another shape, x.astype for another dtype",
    "permute": "use x.transpose(...)",
    "unsqueeze": "use np.expand_dims(x, axis)",
    "expand": "use np.broadcast_to(x, shape)",
    "contiguous": "the engine chooses the layout in memory: omit it",
    "clone": "use x.copy()",
    "to": "use x.astype(dtype)",
    "float": "use x.astype('float32')", "double": "use x.astype('float64')",
    "half": "use x.astype('float16')", "long": "use x.astype('int64')",
    "cpu": "tensors are on the CPU: omit it",
    "cuda": "tensors are on the CPU: omit it",
    "requires_grad_": "make it with nodescope.tensor(x, requires_grad=True)",
    "zero_": "set x.grad = None, or use optimizer.zero_grad()",
    "add_": _INPLACE.format("+"), "sub_": _INPLACE.format("-"),
    "mul_": _INPLACE.format("*"), "div_": _INPLACE.format("/"),
    "copy_": "write x[...] = y, or use nodescope.assign(x, y)",
    "masked_fill": "use np.where(mask, value, x)",
    "pow": "use x ** y", "matmul": "use x @ y", "t": "use x.T",
    "norm": "use np.linalg.norm(x)",
    "is_leaf": "parameters and tensors with requires_grad=True are the leaves",
    **{name: f"use np.{name}(x)" for name in ("abs", "exp", "log", "sqrt", "sin", "cos", "tanh")},
    **{name: f"use nodescope.{name}(x)"
       for name in ("softmax", "log_softmax", "relu", "sigmoid")},
}  # fmt: skip


class _Missing:
    """A stand-in for an attribute that tensors do not have: its error names an alternative."""

    def __init__(self, hint: str) -> None:
        self.hint = hint

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        error = MissingError(f"a tensor has no {self.name}", source=where(), hint=self.hint)
        error.name = self.name
        raise error


def _dir(self: Tensor) -> list[str]:
    return [name for name in object.__dir__(self) if name not in _MISSING]


def _fill() -> None:
    for name in _FUNCTIONS:
        setattr(Tensor, name, function_method(name))
    for name, read in {
        "mT": _matrix_transposed, "real": _real, "imag": _imag, "itemsize": _itemsize,
        "nbytes": _nbytes, "device": _device,
    }.items():  # fmt: skip
        setattr(Tensor, name, property(read))
    for name, method in {
        "item": _item,
        "compress": _compress, "tobytes": _tobytes, "to_device": _to_device,
        "__array_namespace__": _namespace,
        "__dlpack__": _dlpack, "__dlpack_device__": _dlpack_device, "__complex__": _complex,
        "conj": _conjugate, "conjugate": _conjugate,
        "__divmod__": _divmod, "__rdivmod__": _rdivmod, "__dir__": _dir,
    }.items():  # fmt: skip
        setattr(Tensor, name, called(f"Tensor.{name}", method))
    for name, hint in _MISSING.items():
        if inspect.getattr_static(Tensor, name, None) is None:
            missing = _Missing(hint)
            missing.name = name
            setattr(Tensor, name, missing)


_fill()
