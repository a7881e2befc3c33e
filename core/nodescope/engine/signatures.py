"""Annotations of `Tensor`'s methods from `engine.operators` and `engine.methods`, for type
checkers.

Invariant: annotations only; nothing here exists when a program runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from nodescope.engine.tensor import Tensor


class Operators:
    """The base of `Tensor`, empty at run time."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __rmatmul__(self, other: Any) -> Tensor: ...
        def __floordiv__(self, other: Any) -> Tensor: ...
        def __mod__(self, other: Any) -> Tensor: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...
        def __and__(self, other: Any) -> Tensor: ...
        def __or__(self, other: Any) -> Tensor: ...
        def __xor__(self, other: Any) -> Tensor: ...
        def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
        def __ne__(self, other: object) -> Tensor: ...  # type: ignore[override]
        def __getitem__(self, index: Any) -> Tensor: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def __neg__(self) -> Tensor: ...
        def __pos__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __array_ufunc__(
            self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any
        ) -> Any: ...
        def __array_function__(
            self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> Any: ...

    # Methods that are ops, with NumPy's arguments; added to the class by engine.operators.
    sum: Callable[..., Tensor]
    prod: Callable[..., Tensor]
    mean: Callable[..., Tensor]
    max: Callable[..., Tensor]
    min: Callable[..., Tensor]
    any: Callable[..., Tensor]
    all: Callable[..., Tensor]
    argmax: Callable[..., Tensor]
    argmin: Callable[..., Tensor]
    var: Callable[..., Tensor]
    std: Callable[..., Tensor]
    squeeze: Callable[..., Tensor]
    cumsum: Callable[..., Tensor]
    reshape: Callable[..., Tensor]
    ravel: Callable[..., Tensor]
    flatten: Callable[..., Tensor]
    transpose: Callable[..., Tensor]
    astype: Callable[..., Tensor]
    copy: Callable[..., Tensor]
    T: Tensor

    # Added to the class by engine.methods.
    argpartition: Callable[..., Tensor]
    argsort: Callable[..., Tensor]
    choose: Callable[..., Tensor]
    clip: Callable[..., Tensor]
    compress: Callable[..., Tensor]
    conjugate: Callable[..., Tensor]
    cumprod: Callable[..., Tensor]
    put: Callable[..., None]
    searchsorted: Callable[..., Tensor]
    to_device: Callable[..., Tensor]
    tobytes: Callable[..., bytes]
    trace: Callable[..., Tensor]
    conj: Callable[..., Tensor]
    diagonal: Callable[..., Tensor]
    dot: Callable[..., Tensor]
    nonzero: Callable[..., tuple[Tensor, ...]]
    repeat: Callable[..., Tensor]
    round: Callable[..., Tensor]
    swapaxes: Callable[..., Tensor]
    take: Callable[..., Tensor]
    mT: Tensor
    real: Tensor
    imag: Tensor
    device: str
    itemsize: int
    nbytes: int

    # Added to the class by engine.writing.inplace.
    fill: Callable[[Any], None]
    flat: Any
    partition: Callable[..., None]
    sort: Callable[..., None]

    # Of tensors in graphs built by hand; added to the class by engine.graphs.operation.
    op: Any
    graph: Any
    consumers: Callable[[], list[Any]]
