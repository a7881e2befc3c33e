"""Writing to tensors that share memory while a graph is built.

Nothing runs, so there is no memory to inspect: the nodes that made a view determine which elements
of which value it shows. After a write, each sharer becomes a selection of old and new elements, as
in `nodescope.engine.writing.inplace` for memory.

Invariant: a write is refused if its target is a view or a copy depending on a layout that is only
known when the graph runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope import ops
from nodescope.engine.source import where
from nodescope.engine.symbolic import Abstract
from nodescope.engine.tensor import Tensor, settled
from nodescope.engine.writing.sharing import traced_sharers
from nodescope.errors import TraceError, UnsupportedError
from nodescope.ir.graph import Node
from nodescope.ops.index import Port
from nodescope.ops.op import Array

_ALWAYS = {
    "alias",
    "detach",
    "diagonal",
    "broadcast_to",
    "expand_dims",
    "flip",
    "squeeze",
    "transpose",
}
"""Ops whose result is a view of their first input, whatever its memory layout."""
_READ_ONLY = {"broadcast_to", "diagonal"}
_CONTIGUOUS = {"copy"}
"""Ops whose result is in C order."""


def shared(target: Tensor, builder: Any) -> tuple[int, Array, list[tuple[Tensor, Array]]]:
    """The other tensors affected by a write to ``target``.

    Returns:
        The value that owns the memory, its elements covered by ``target``, and the other tensors
        with the elements that they cover.

    Raises:
        TraceError: The owner is unknown, or a sharer cannot be given new elements.
        UnsupportedError: ``target`` is a read-only view.
    """
    sharers = traced_sharers(target, builder)
    if not sharers:
        return 0, np.zeros(0, np.intp), []
    root, places = _places(target, builder)
    shown_sharers = []
    for other in sharers:
        of, shown = _places(other, builder)
        if of != root:
            continue
        if _outside(other, builder):
            raise _refusal()
        shown_sharers.append((other, shown))
    if shown_sharers and any(node.op in _READ_ONLY for node in _views(target, builder)[1]):
        raise UnsupportedError(
            "the tensor is a read-only view", source=where(), hint="copy it: x = x.copy()"
        )
    return root, places, shown_sharers


def _outside(tensor: Tensor, builder: Any) -> bool:
    """Whether a tensor does not belong to the graph: it is an argument, or from outside."""
    data: Any = settled(tensor).data
    if data.__class__ is not Abstract:
        return id(tensor) not in builder.made
    return builder.producer(data.value).op in ("placeholder", "parameter")


def _refusal() -> TraceError:
    return TraceError(
        "while a graph is built, a tensor that shares memory with another cannot be written to "
        "where only the run shows which elements they share",
        source=where(),
        hint="write to a copy, x = x.copy(), or make a new tensor, as in x = x + y",
    )


def _views(tensor: Tensor, builder: Any) -> tuple[int, list[Node]]:
    """The value that a tensor is a view of, and the nodes in between, last first."""
    data: Any = settled(tensor).data
    value = data.value if data.__class__ is Abstract else builder.value_of(tensor)
    nodes = []
    while value not in builder.shown:
        node = builder.producer(value)
        if not (node.op in _ALWAYS or node.op in ("reshape", "getitem", "real", "imag")):
            break
        if any(isinstance(item, Port) for item in node.attrs.get("index", ())) or not node.inputs:
            break
        nodes.append(node)
        value = node.inputs[0]
    return value, nodes


def _places(tensor: Tensor, builder: Any) -> tuple[int, Array]:
    """The value whose memory a tensor shows, and the indices of its elements there."""
    root, nodes = _views(tensor, builder)
    if root in builder.shown:
        root, places = builder.shown[root]
        known = False
    else:
        shape = tuple(builder.values[root - 1].spec.shape)
        places = np.arange(int(np.prod(shape))).reshape(shape)
        known = builder.producer(root).op in _CONTIGUOUS or len(shape) < 2
    for view in reversed(nodes):
        if view.op in ("real", "imag"):
            raise _refusal()
        seen: Array = np.asarray(ops.get(view.op).impl(places, **view.attrs))
        if view.op == "reshape":
            if not known and _without_ones(seen.shape) != _without_ones(places.shape):
                raise _refusal()
            if seen.size and not np.may_share_memory(seen, places):  # a copy
                root, known = view.outputs[0], True
                seen = np.arange(seen.size).reshape(seen.shape)
        places = seen
    return root, places


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)
