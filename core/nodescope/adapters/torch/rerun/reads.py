"""Reads: which input elements an output element of an ATen operator depends on.

Positions are counted in C order. If PyTorch is needed and gives no answer, the result is None; the
reader then runs the node on other numbers to find out, and marks the answer as uncertain.

Invariant: a list of elements may be too long, and is then marked as inexact; it is never too short.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from nodescope.adapters.torch.rerun import kinds
from nodescope.adapters.torch.rerun.list_reads import list_reads
from nodescope.adapters.torch.rerun.queries import TORCH
from nodescope.adapters.torch.rerun.refusals import plain_name
from nodescope.adapters.torch.rerun.selectors import index_ports, selecting
from nodescope.adapters.torch.rerun.written_views import sources
from nodescope.errors import ReplayError
from nodescope.events import Array
from nodescope.ir.graph import Node
from nodescope.ops import get as _own
from nodescope.ops.dependence import made_from
from nodescope.ops.reading import ElementDependence, Read, broadcast, flat, stretched

_OWN_NAMES: Final = {"_softmax": "softmax", "_log_softmax": "log_softmax"}
_MATRICES: Final = frozenset({"mm", "bmm", "mv", "dot"})
_NO_DERIVATIVE: Final = -1


class Element(NamedTuple):
    """One element of one output.

    Attributes:
        node, attrs: The node, and its arguments.
        name: The operator's plain name.
        inputs: Its operands by port, including numbers given in place of tensors.
        outputs: Its outputs.
        port, position: The port of the output, and the element.
    """

    node: Node
    attrs: dict[str, Any]
    name: str
    inputs: Sequence[Any]
    outputs: Sequence[Array]
    port: int
    position: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the output."""
        return np.shape(self.outputs[self.port])

    @property
    def arrays(self) -> list[tuple[int, Array]]:
        """The inputs that are tensors, with their ports."""
        return [(p, value) for p, value in enumerate(self.inputs) if isinstance(value, np.ndarray)]


def element_reads(
    node: Node, attrs: dict[str, Any], inputs: Sequence[Any], outputs: Sequence[Array],
    port: int, position: int,
) -> ElementDependence | None:  # fmt: skip
    """See `Rerun.reads`."""
    element = Element(node, attrs, plain_name(node.native), inputs, outputs, port, position)
    try:
        if node.op == "updated_view":
            return _updated_view(element)
        return _reads(element)
    except ReplayError:  # PyTorch is missing, or cannot answer
        return None


def _reads(element: Element) -> ElementDependence | None:
    name = element.name
    if name.startswith(("_foreach_", "_fused_adam", "_fused_sgd", "_fused_adagrad")):
        return list_reads(
            name, element.attrs, element.node.writes, element.inputs, element.shape,
            element.port, element.position,
        )  # fmt: skip
    if name in kinds.NOTHING:
        return ElementDependence(())
    if name in kinds.SOURCE:
        return _source(element)
    if name in ("where", "masked_fill"):
        return _chosen(element)
    if name in ("native_dropout", "native_dropout_backward"):
        return _dropout(element)
    if name == "view_as_complex":
        return ElementDependence((Read(0, 2 * element.position + np.arange(2)),))
    if name == "view_as_real":
        return ElementDependence((_at(0, element.position // 2),))
    if name in kinds.POINTWISE:
        return broadcast(element.inputs, element.shape, element.position)
    if name in _MATRICES:
        return made_from(_own("matmul"), element.inputs, {}, element.outputs, element.position)
    if name in _OWN_NAMES and "half_to_float" not in element.attrs:
        attrs = {"axis": element.attrs["dim"]}
        op = _own(_OWN_NAMES[name])
        return made_from(op, element.inputs, attrs, element.outputs, element.position)
    moves = _moves(element)
    if moves is not None:
        return _moved(element, moves)
    if element.port in kinds.ROWS.get(name, ()):
        return _statistics_of_row(element)
    if element.port in kinds.CHANNELS.get(name, ()):
        return _statistics_of_channel(element)
    if (name, element.port) in kinds.PAIRS:
        return _paired(element, kinds.PAIRS[name, element.port])
    if name in kinds.MATRICES:
        return _matrices(element)
    if name == "linalg_vector_norm" and "ord" in element.attrs:
        order = element.attrs["ord"]
        return _sloped(element, kept=math.isinf(order)) if order else None
    if name in kinds.WINNERS and (element.port == 0 or name.startswith("_prelu")):
        return _sloped(element, kept=True)
    if name in kinds.SUMS or name in kinds.SMOOTH:
        return _sloped(element, kept=False)
    return None


def _at(port: int, position: int, selects: bool = False) -> Read:
    return Read(port, np.array([position], np.int64), selects)


# Without PyTorch


def _updated_view(element: Element) -> ElementDependence:
    arrays = [np.asarray(value) for value in element.inputs]
    port, at = sources(arrays, element.attrs)
    return ElementDependence((_at(int(port[element.position]), int(at[element.position])),))


def _source(element: Element) -> ElementDependence | None:
    last = len(element.inputs) - 1
    if last < 0:
        return ElementDependence(())
    place = stretched(np.shape(element.inputs[last]), element.shape, element.position)
    return None if place is None else ElementDependence((_at(last, place),))


def _chosen(element: Element) -> ElementDependence | None:
    """The reads of ``where`` and ``masked_fill``: the condition's element and the selected one."""
    every = broadcast(element.inputs, element.shape, element.position)
    if every is None or not every.reads:
        return None
    by_port = {read.port: read for read in every.reads}
    mask = 1 if element.name == "masked_fill" else 0
    first, other = (2, 0) if element.name == "masked_fill" else (1, 2)
    is_set = bool(flat(element.inputs[mask], by_port[mask].at)[0])
    chosen = by_port.get(first if is_set else other)
    selector = by_port[mask]._replace(selects=True)
    return ElementDependence((selector,) if chosen is None else (selector, chosen))


def _dropout(element: Element) -> ElementDependence:
    """The reads of dropout: the mask reads nothing, a dropped gradient reads the mask alone."""
    if element.name == "native_dropout":
        if element.port == 1:
            return ElementDependence(())
        return ElementDependence((_at(0, element.position),))
    mask = _at(1, element.position, True)
    is_kept = bool(flat(element.inputs[1], mask.at)[0])
    return ElementDependence((_at(0, element.position), mask) if is_kept else (mask,))


def _statistics_of_row(element: Element) -> ElementDependence:
    size = np.size(element.inputs[0]) // max(math.prod(element.shape), 1)
    start = element.position * size
    return ElementDependence((Read(0, np.arange(start, start + size)),))


def _statistics_of_channel(element: Element) -> ElementDependence:
    return ElementDependence((Read(0, _channel(element.inputs[0], element.position)),))


def _channel(array: Any, channel: int) -> Array:
    """The positions of a channel, which is an index on axis 1."""
    places = np.arange(np.size(array)).reshape(np.shape(array))
    return np.ascontiguousarray(places[:, channel]).reshape(-1)


def _matrices(element: Element) -> ElementDependence | None:
    reads = []
    for port, array in element.arrays:
        stack = array.shape[:-2] if array.ndim >= 2 else ()
        if element.shape[: len(stack)] != stack:
            return None
        size = math.prod(array.shape[len(stack) :])
        at = element.position // max(math.prod(element.shape[len(stack) :]), 1)
        reads.append(Read(port, np.arange(at * size, (at + 1) * size)))
    return ElementDependence(tuple(reads), exact=False)


# With PyTorch


def _moves(element: Element) -> tuple[int, ...] | None:
    """The inputs that select, if the operator only moves elements; else None."""
    if element.name == "index" or (
        element.name in ("index_put", "_index_put_impl", "_unsafe_index_put")
        and not element.attrs.get("accumulate")
    ):
        return index_ports(element.attrs)
    if element.name in ("scatter", "index_add") and "reduce" in element.attrs:
        return None
    if element.name == "view" and "dtype" in element.attrs:
        return None
    return kinds.SELECTORS.get(element.name)


def _moved(element: Element, selectors: tuple[int, ...]) -> ElementDependence | None:
    arrays = element.arrays
    at_port = {port: number for number, (port, _) in enumerate(arrays)}
    kept = tuple(at_port[port] for port in selectors if port in at_port)
    places = TORCH.places(
        element.node.native, element.attrs, [array for _, array in arrays], element.port, kept
    )
    if places.size != math.prod(element.shape):
        return None
    place = int(places[element.position])
    reads: list[Read] = []
    start = 0
    for number, (port, array) in enumerate(arrays):
        if number in kept:
            continue
        if start <= place < start + array.size:
            reads.append(_at(port, place - start))
        start += array.size
    moved = reads[0] if reads else None
    selecting_reads, exact = selecting(
        element.name, element.attrs, element.inputs, selectors, element.shape, element.position,
        moved,
    )  # fmt: skip
    return ElementDependence((*reads, *selecting_reads), exact)


def _sloped(element: Element, *, kept: bool) -> ElementDependence | None:
    arrays = element.arrays
    numbers = tuple(range(len(arrays))) if kept else ()
    derivatives, _ = TORCH.slopes(
        element.node.native, element.attrs, [array for _, array in arrays], element.port,
        element.position, kept=numbers,
    )  # fmt: skip
    reads = _reads_of(element, derivatives)
    floats = [read for read in reads if not read.selects]
    weights = [slopes for _, slopes in derivatives]
    unknown = any(np.isnan(slopes).any() for slopes in weights)
    if element.name not in kinds.SUMS or len(floats) != 1 or kept or unknown:
        return ElementDependence(tuple(reads))
    (read,) = floats
    number = next(number for number, (port, _) in enumerate(arrays) if port == read.port)
    with np.errstate(all="ignore"):
        values = flat(element.inputs[read.port], read.at).astype(np.float64)
        terms = values * weights[number]
    return ElementDependence(tuple(reads), True, "sum", terms, (read.port,))


def _reads_of(element: Element, derivatives: Sequence[tuple[Array, Array]]) -> list[Read]:
    reads: list[Read] = []
    for (port, array), (at, _) in zip(element.arrays, derivatives, strict=True):
        if at.size == 1 and at[0] == _NO_DERIVATIVE:
            reads.append(_labels(element, port, array))
        else:
            reads.append(Read(port, at))
    return [read for read in reads if read.at.size]


def _labels(element: Element, port: int, array: Array) -> Read:
    """The read of an input of integers that selects: a single element where known, else all."""
    place = element.position
    if element.name == "embedding_dense_backward" and port == 1:
        row = place // max(element.shape[-1], 1)
        return Read(port, np.flatnonzero(array.reshape(-1) == row), True)
    if element.name in ("nll_loss_forward", "nll_loss_backward") and array.ndim == 1:
        if element.shape == array.shape:
            return _at(port, place, True)
        if len(element.shape) == 2 and element.shape[0] == array.shape[0]:
            return _at(port, place // element.shape[1], True)
    return Read(port, np.arange(array.size), True)


def _paired(element: Element, pair: tuple[int, int]) -> ElementDependence | None:
    """The reads of sums of products: the factors of each term, and everything else added."""
    arrays = element.arrays
    if len(arrays) != len(element.inputs):
        return None
    derivatives, partners = TORCH.slopes(
        element.node.native, element.attrs, [array for _, array in arrays], element.port,
        element.position, pair=pair,
    )  # fmt: skip
    first, other = pair
    at, counts = derivatives[first]
    reads = _reads_of(element, derivatives)
    if partners is None or not at.size or not (counts == counts[0]).all():
        return ElementDependence(tuple(reads))
    scale = counts[0]
    if scale != 1:  # alpha
        partners = np.rint((partners + 1) / scale).astype(np.int64) - 1
    if not np.array_equal(np.unique(partners), derivatives[other][0]):
        return ElementDependence(tuple(reads))
    paired = [Read(other, partners) if read.port == other else read for read in reads]
    with np.errstate(all="ignore"):
        left, right = flat(element.inputs[first], at), flat(element.inputs[other], partners)
        terms = left * right
    return ElementDependence(tuple(paired), True, "sum", terms, (first, other))
