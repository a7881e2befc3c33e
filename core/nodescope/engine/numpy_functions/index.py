"""Taking from and writing to places in a tensor, always as a new tensor.

Invariant: nothing is written in place; an index is read as NumPy reads it.
"""

from __future__ import annotations

from typing import Any

from nodescope.engine.numpy_functions.base import Table, call, tensor_of
from nodescope.engine.operators import index_template
from nodescope.engine.tensor import Tensor, operand


def index_update(x: Any, index: Any, value: Any) -> Tensor:
    """A copy of ``x`` in which ``copy[index] = value`` was done.

    Args:
        x: Any tensor; the result has its shape and dtype.
        index: Whatever ``x[index]`` takes: ints, slices, None, ``...``, arrays of ints or bools.
        value: Broadcasts to what the index selects, and is converted to the dtype of ``x``. Where
            an element is named twice the last value counts.

    Raises:
        ShapeError: ``value`` does not fit.
        BoundsError: The index lies outside.
        DtypeError: ``value`` is complex and ``x`` is not.
    """
    template, arrays = index_template(index)
    found = operand(value)
    given = tensor_of(value) if found is None else found
    return call("index_set", tensor_of(x), given, *arrays, index=template)  # type: ignore[no-any-return]


NUMPY: Table = {}
