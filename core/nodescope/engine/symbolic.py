"""Abstract: the placeholder for an array whose values are not known yet.

While a function is traced to a graph, and in graphs built by hand, a tensor's ``data`` is one of
these: a shape, a dtype, and the value of the graph that it stands for.

Invariant: any use of elements raises `TraceError` at the user's line; nothing is converted to an
array implicitly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.engine.source import where
from nodescope.engine.state import current
from nodescope.errors import TraceError
from nodescope.ir.graph import TensorSpec

_BRANCH = "use nodescope.cond, while_loop or scan, or np.where; or compute it outside of the graph"
_OUTSIDE = "return it from the function, or fetch it with a Session; print it outside"
_HINTS = {"bool": _BRANCH, "index": _BRANCH, "int": _BRANCH, "float": _BRANCH}


class Abstract:
    """The shape, dtype and origin of a value of a graph that is being built.

    Attributes:
        graph: The builder of the graph.
        value: The value's id there.
        base: None, as for an array that is not a view.
    """

    __slots__ = ("base", "dtype", "graph", "ndim", "shape", "size", "value")

    def __init__(self, spec: TensorSpec, graph: Any, value: int) -> None:
        self.shape = spec.shape
        self.dtype = np.dtype(spec.dtype)
        self.ndim = len(spec.shape)
        size = 1
        for length in spec.shape:
            size *= length
        self.size = size
        self.graph = graph
        self.value = value
        self.base = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # probed by NumPy and others: not an array
            raise AttributeError(name)
        raise refused(self, name)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __repr__(self) -> str:
        return f"<{TensorSpec(self.shape, self.dtype.name)}, not known yet>"

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise refused(self, "numpy")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        raise escaped(self)


def refused(data: Abstract, method: str) -> TraceError:
    """The error for requesting something that only an array has.

    Args:
        data: The placeholder.
        method: The Python conversion or method.
    """
    spec = TensorSpec(data.shape, data.dtype.name)
    if current().builder is None:
        return escaped(data)
    if method == "bool":
        message = f"a Python branch on a traced value: {spec} is not known while the graph is built"
    else:
        message = f"{method}: the elements of a traced value ({spec}) are not known yet"
    return TraceError(message, source=where(), hint=_HINTS.get(method, _OUTSIDE))


def escaped(data: Abstract) -> TraceError:
    """The error for using a value outside of its graph."""
    spec = TensorSpec(data.shape, data.dtype.name)
    node = data.graph.producer(data.value) if data.value else None
    creation = f", made at {node.source}," if node is not None and node.source else ""
    return TraceError(
        f"a value of a graph ({spec}){creation} is used outside of the graph that it belongs to",
        source=where(),
        hint="compute inside the function or `with graph.as_default():`, and return or fetch what "
        "is needed outside",
    )
