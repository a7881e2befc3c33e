"""Shared building blocks of the sections.

Invariant: an argument that a function cannot honour is refused, never ignored.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.engine import dispatch_mode
from nodescope.engine.numpy_functions.base import tensor_of
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor, check_dtype, make
from nodescope.errors import DomainError, UsageError
from nodescope.ir.dtypes import as_dtype

__all__ = [
    "DEVICE", "check_device", "converted", "dtype_of", "made", "no_copy", "tensor_of", "traced",
]  # fmt: skip

DEVICE = "cpu"


def check_device(name: str, device: Any) -> None:
    """Raise `UsageError` for every device but `DEVICE`, the only one."""
    if device is not None and device != DEVICE:
        raise UsageError(
            f"{name}: no device {device!r}", source=where(), hint=f'the only one is "{DEVICE}"'
        )


def dtype_of(dtype: Any) -> np.dtype[Any] | None:
    """A dtype that tensors can have, or None for None. Raises `DtypeError`."""
    return None if dtype is None else check_dtype(as_dtype(dtype))


def made(data: Any) -> Tensor:
    """A new array as a constant."""
    tensor = make(np.asarray(data), kind="constant")
    tracer = dispatch_mode.observer()
    if tracer is not None:
        tracer.leaf(tensor)
    return tensor


def traced(name: str, *args: Any, **kwargs: Any) -> Tensor:
    """Call one of NumPy's functions on tensors; NumPy's annotations cover only arrays."""
    result: Tensor = getattr(np, name)(*args, **kwargs)
    return result


def converted(x: Tensor, dtype: Any) -> Tensor:
    """The tensor in a dtype; itself if it has that dtype already, or if ``dtype`` is None."""
    return x if dtype is None else x.astype(dtype_of(dtype), copy=False)


def no_copy(name: str, why: str) -> DomainError:
    """The error for a ``copy=False`` that cannot be honoured; a ValueError, as the standard
    requires.
    """
    return DomainError(f"{name}: copy=False, but {why}", source=where(), hint="omit copy")
