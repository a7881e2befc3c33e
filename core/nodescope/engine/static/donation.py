"""Donation: a placeholder for an array that was given to a compiled function.

Invariant: a placeholder keeps its array's shape and dtype; any use of elements raises `UsageError`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor
from nodescope.errors import UsageError


class DonatedArray:
    """The placeholder of a donated array.

    Args:
        data: The array.
        function: The function that it was given to.
    """

    __slots__ = ("dtype", "function", "ndim", "shape", "size")

    def __init__(self, data: np.ndarray[Any, Any], function: str) -> None:
        self.shape, self.dtype = data.shape, data.dtype
        self.ndim, self.size = data.ndim, data.size
        self.function = function

    def check(self) -> None:
        """Raise the error for using a donated array."""
        raise UsageError(
            f"this tensor was donated to {self.function}, which released its array",
            source=where(),
            hint="use what the function returned, or remove the argument from donate",
        )

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__array__":
            raise AttributeError(name)
        self.check()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        self.check()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        self.check()

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        self.check()


def donate(tensor: Tensor, function: str) -> None:
    """Take the array out of a tensor."""
    tensor.data = DonatedArray(tensor.data, function)  # type: ignore[assignment]
