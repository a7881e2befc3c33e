"""Reading: the kinds of ops, by the origin of their outputs' elements.

A kind is a function of one call and one element. Most use the op itself: layout ops are run on an
array of positions, sums and products are differentiated with a cotangent of one element.

Invariant: never writes to its arguments; the stand-ins are the same each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from nodescope.ops.op import Array, Op
from nodescope.ops.rules import unbroadcast

MOST_STAND_IN = 1 << 22
"""The most input elements for which an op is run; for larger inputs, everything is listed."""


class Read(NamedTuple):
    """Elements of one input.

    Attributes:
        port: The op's port, counting Python scalars.
        at: Their positions in C order, in the order of the terms where there are any.
        selects: Whether they only select: an index, a mask, a label, a key.
    """

    port: int
    at: Array
    selects: bool = False


class ElementDependence(NamedTuple):
    """The elements that an element depends on.

    Attributes:
        reads: By port; a port without elements is left out.
        exact: Whether every element listed has an effect at generic values.
        how: ``sum`` or ``product`` of ``terms``; else ``""``.
        terms: The numbers added or multiplied.
        paired: With ``how``: ports whose i-th elements belong to the i-th term.
        note: Why the list is uncertain, as text; ``""`` if it is certain.
    """

    reads: tuple[Read, ...]
    exact: bool = True
    how: str = ""
    terms: Array | None = None
    paired: tuple[int, ...] = ()
    note: str = ""


class OutputElement(NamedTuple):
    """One element of one call."""

    op: Op
    inputs: tuple[Any, ...]
    attrs: dict[str, Any]
    outputs: tuple[Array, ...]
    port: int
    position: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the output."""
        return np.shape(self.outputs[self.port])


Kind = Callable[[OutputElement], ElementDependence]


def _at(position: int) -> Array:
    return np.array([position], np.int64)


def _all(value: Any) -> Array:
    return np.arange(np.size(value), dtype=np.int64)


def _index(array: Any, *positions: int) -> Any:
    """The element of an array at a position in C order, whatever its layout."""
    return np.asarray(array)[np.unravel_index(positions[0], np.shape(array))]


def flat(array: Any, at: Array) -> Array:
    """The elements at positions in C order."""
    array = np.asarray(array)
    if array.ndim == 0:
        return np.broadcast_to(array, at.shape)
    elements: Array = array[np.unravel_index(at, array.shape)]
    return elements


def stretched(shape: tuple[int, ...], full: tuple[int, ...], position: int) -> int | None:
    """The element of an array of ``shape`` that is broadcast to a position of ``full``."""
    index = np.unravel_index(position, full) if full else ()
    cut = len(full) - len(shape)
    if cut < 0 or any(n not in (1, m) for n, m in zip(shape, full[cut:], strict=True)):
        return None
    flat_position = 0
    for n, i in zip(shape, index[cut:], strict=True):
        flat_position = flat_position * n + (0 if n == 1 else int(i))
    return flat_position


def all_of(inputs: Sequence[Any]) -> ElementDependence:
    """All elements of these inputs."""
    reads = (Read(port, _all(value)) for port, value in enumerate(inputs))
    return ElementDependence(tuple(read for read in reads if read.at.size), exact=False)


def broadcast(
    inputs: Sequence[Any], shape: tuple[int, ...], position: int
) -> ElementDependence | None:
    """The elements that are broadcast to a place of a shape; None if an input is not broadcast."""
    reads = []
    for port, value in enumerate(inputs):
        place = stretched(np.shape(value), shape, position)
        if place is None:
            return None
        reads.append(Read(port, _at(place)))
    return ElementDependence(tuple(reads))


def everything(query: OutputElement) -> ElementDependence:
    """All elements of all inputs."""
    return all_of(query.inputs)


def nothing(query: OutputElement) -> ElementDependence:
    """No elements, for an output that depends only on the shape of its input."""
    return ElementDependence(())


def elementwise(query: OutputElement) -> ElementDependence:
    """The input elements that are broadcast to this output element."""
    broadcast_positions = broadcast(query.inputs, query.shape, query.position)
    if broadcast_positions is None:
        return everything(query)
    return ElementDependence(
        tuple(
            read._replace(selects=_selects(query, read.port)) for read in broadcast_positions.reads
        )
    )


def _selects(query: OutputElement, port: int) -> bool:
    ports = query.op.ports
    return port < len(ports) and ports[port] in ("condition", "mask", "indices", "labels", "key")


def chosen(query: OutputElement) -> ElementDependence:
    """``where``, ``choose`` and ``dropout``: the selecting element, and the selected one."""
    condition, *reads = elementwise(query).reads
    if query.op.name == "dropout":
        mask = reads[0]._replace(selects=True)
        is_kept = bool(flat(query.inputs[1], mask.at)[0])
        return ElementDependence((condition, mask) if is_kept else (mask,))
    says = flat(query.inputs[0], condition.at)[0]
    if query.op.name == "where":
        return ElementDependence((condition._replace(selects=True), reads[0 if bool(says) else 1]))
    return ElementDependence((condition._replace(selects=True), reads[int(says) % len(reads)]))


def replaced(query: OutputElement) -> ElementDependence:
    """``assign``: the new value; the old one has no influence."""
    dependence = elementwise(query)
    return ElementDependence(tuple(read for read in dependence.reads if read.port == 1))


def moved(query: OutputElement) -> ElementDependence:
    """Ops that only move elements; run twice on positions, to detect filled-in elements."""
    selectors = _selectors(query)
    sizes = [np.size(value) for value in query.inputs]
    if sum(sizes) + math.prod(query.shape) > MOST_STAND_IN:
        return everything(query)
    starts = np.cumsum([1, *sizes]).tolist()
    total = float(starts[-1])
    seen = []
    for shift in (0.0, total):
        operands = [
            value
            if port in selectors
            else np.arange(start, start + size, dtype=np.float64).reshape(np.shape(value)) + shift
            for port, (value, start, size) in enumerate(
                zip(query.inputs, starts[:-1], sizes, strict=True)
            )
        ]
        output = _outputs(query.op, operands, query.attrs)[query.port]
        seen.append(float(_index(output, query.position)))
    reads = [_selector(query, p) for p in sorted(selectors)]
    reads = [read for read in reads if read.at.size]
    if seen[1] - seen[0] == total:
        place = int(seen[0])
        port = int(np.searchsorted(starts, place, side="right")) - 1
        reads.insert(0, Read(port, _at(place - starts[port])))
    exact = query.op.name != "index_set" or not query.inputs[2:]
    return ElementDependence(tuple(reads), exact)


def _selectors(query: OutputElement) -> set[int]:
    name, count = query.op.name, len(query.inputs)
    if name in ("getitem", "index_add"):
        return set(range(1, count))
    if name == "index_set":
        return set(range(2, count))
    return {1} if name in ("take_along_axis", "embedding") else set()


def _selector(query: OutputElement, port: int) -> Read:
    """The elements of an index array that select here."""
    selector = np.asarray(query.inputs[port])
    if query.op.name == "take_along_axis":
        position = stretched(selector.shape, query.shape, query.position)
        return Read(port, _all(selector) if position is None else _at(position), True)
    if query.op.name == "embedding":
        width = math.prod(query.shape[selector.ndim :])
        return Read(port, _at(query.position // max(width, 1)), True)
    if query.op.name == "getitem" and selector.dtype != bool:
        return Read(port, _at(_entry(query, port - 1)), True)
    return Read(port, _all(selector), True)


def _entry(query: OutputElement, index_port: int) -> int:
    """The element of the index array ``index_port`` for a place of a selection."""
    from nodescope.ops.index import Port

    arrays, index = query.inputs[1:], query.attrs["index"]
    ndim, known = np.ndim(query.inputs[0]), sum(item not in (None, ...) for item in index)
    axis, axes = 0, {}
    for item in index:
        if item is Ellipsis:
            axis += ndim - known
        elif item is not None:
            if isinstance(item, Port):
                axes[item.port] = axis
            axis += 1
    shape = list(np.shape(query.inputs[0]))
    for port, axis in axes.items():
        shape[axis] = np.size(arrays[port])
    line = np.arange(shape[axes[index_port]]).reshape(
        [-1 if i == axes[index_port] else 1 for i in range(ndim)]
    )
    places = tuple(
        np.arange(np.size(arrays[item.port])).reshape(np.shape(arrays[item.port]))
        if isinstance(item, Port)
        else item
        for item in index
    )
    return int(_index(np.broadcast_to(line, shape)[places], query.position))


def along(query: OutputElement) -> ElementDependence:
    """Reductions without a derivative: all elements of the reduced dimensions."""
    return ElementDependence((Read(0, _group(query)),), exact=False)


def _group(query: OutputElement) -> Array:
    """Input positions that are reduced to this one; the whole row, if the op keeps the shape."""
    x = np.asarray(query.inputs[0])
    places = np.arange(x.size).reshape(x.shape)
    axis = query.attrs.get("axis")
    if x.ndim == 0 or axis is None:
        return places.reshape(-1)
    axes = tuple(i % x.ndim for i in ((axis,) if isinstance(axis, int) else axis))
    rest = [i for i in range(x.ndim) if i not in axes]
    rows = places.transpose((*rest, *axes)).reshape(math.prod(x.shape[i] for i in rest), -1)
    position = query.position
    if query.shape == x.shape and x.size != rows.shape[0]:
        index = np.unravel_index(position, query.shape)
        position = 0
        for i in rest:
            position = position * x.shape[i] + int(index[i])
    group: Array = rows[position]
    return group


def extreme(query: OutputElement) -> ElementDependence:
    """``max`` and ``min``: the winning element; a NaN always wins."""
    group = _group(query)
    pick = np.argmax if query.op.name == "max" else np.argmin
    return ElementDependence((Read(0, group[[int(pick(flat(query.inputs[0], group)))]]),))


def ordered(query: OutputElement) -> ElementDependence:
    """``sort``: the element that sorting moves to this position."""
    group = _group(query)
    row = flat(query.inputs[0], group)
    out = _index(query.outputs[query.port], query.position)
    same = np.flatnonzero((row == out) | ((row != row) & (out != out)))
    if same.size != 1:
        return ElementDependence((Read(0, group[same] if same.size else group),), exact=False)
    return ElementDependence((Read(0, group[same]),))


def winner(query: OutputElement) -> ElementDependence:
    """Maxima of windows and running maxima: differentiated on ranks, so that there are no ties."""
    x = np.asarray(query.inputs[0])
    if x.size > MOST_STAND_IN:
        return everything(query)
    keys = x.reshape(-1).astype(np.float64)
    largest = query.op.name != "cummin"
    keys = np.where(keys != keys, np.inf if largest else -np.inf, keys)
    order = np.argsort(keys if not largest else -keys, kind="stable")
    ranks = np.empty(x.size)
    ranks[order] = np.arange(x.size) if not largest else x.size - np.arange(x.size)
    operands = (ranks.reshape(x.shape), *query.inputs[1:])
    grads = _pulled(query, operands)
    assert grads[0] is not None
    return ElementDependence((Read(0, np.flatnonzero(grads[0].reshape(-1))),))


def smooth(query: OutputElement) -> ElementDependence:
    """Elements with a nonzero derivative at generic values; integers and masks as a whole."""
    if sum(map(np.size, query.inputs)) > MOST_STAND_IN:
        return everything(query)
    operands = tuple(_generic(query.op, port, value) for port, value in enumerate(query.inputs))
    grads = _pulled(query, operands)
    reads = []
    other: list[Array | None] = [None] * len(operands)
    if query.outputs[query.port].dtype.kind == "c":
        other = _pulled(query, operands, 1j)
    for port, (value, grad) in enumerate(zip(query.inputs, grads, strict=True)):
        if grad is not None and operands[port] is not value:
            if (turned := other[port]) is not None:
                grad = np.abs(grad) + np.abs(turned)
            reads.append(Read(port, np.flatnonzero(grad.reshape(-1) != 0)))
        elif np.size(value):
            reads.append(Read(port, _all(value), True))
    return ElementDependence(tuple(read for read in reads if read.at.size))


def solved(query: OutputElement) -> ElementDependence:
    """Solutions of equations: `smooth`, but inexact, because rounding errors hide exact zeros."""
    return smooth(query)._replace(exact=False)


def local(query: OutputElement) -> ElementDependence:
    """Like `smooth`, but at the given values, because they select the branch of the op."""
    if sum(map(np.size, query.inputs)) > MOST_STAND_IN:
        return everything(query)
    operands = tuple(np.asarray(value, np.float64) for value in query.inputs)
    grads = _pulled(query, tuple(np.nan_to_num(operand, nan=1.0) for operand in operands))
    reads = (Read(i, np.flatnonzero(g.reshape(-1))) for i, g in enumerate(grads) if g is not None)
    return ElementDependence(tuple(read for read in reads if read.at.size))


def linear(query: OutputElement) -> ElementDependence:
    """Sums of terms with at most one element of each operand: `smooth`, with the terms."""
    dependence = smooth(query)
    arrays = [r for r in dependence.reads if not r.selects]
    if not dependence.exact or len(arrays) > 2 or not arrays:
        return dependence
    if len(arrays) == 1:
        return _weighted(query, dependence, arrays[0])
    return _paired(query, dependence, arrays[0], arrays[1])


def _weighted(query: OutputElement, dependence: ElementDependence, read: Read) -> ElementDependence:
    """Terms of an op with one operand: each element times its weight."""
    operands = list(query.inputs)
    operands[read.port] = np.ones(np.shape(operands[read.port]), _wide(operands[read.port]))
    grad = _pulled(query, tuple(operands))[read.port]
    if grad is None:
        return dependence
    weights = grad.reshape(-1)[read.at]
    terms = flat(query.inputs[read.port], read.at) * weights
    return dependence._replace(how="sum", terms=terms, paired=(read.port,))


def _paired(
    query: OutputElement, dependence: ElementDependence, first: Read, other: Read
) -> ElementDependence:
    """Terms of a product: differentiated with respect to one operand, the other gives the
    position.
    """
    shape = np.shape(query.inputs[other.port])
    operands = list(query.inputs)
    operands[first.port] = np.ones(np.shape(operands[first.port]))
    operands[other.port] = np.ones(shape)
    counts = _pulled(query, tuple(operands))[first.port]
    operands[other.port] = np.arange(1.0, math.prod(shape) + 1).reshape(shape)
    codes = _pulled(query, tuple(operands))[first.port]
    if counts is None or codes is None or not (counts.reshape(-1)[first.at].real == 1).all():
        return dependence
    at = np.rint(codes.reshape(-1)[first.at].real).astype(np.int64) - 1
    if not np.array_equal(np.unique(at), other.at):
        return dependence
    reads = tuple(Read(read.port, at) if read is other else read for read in dependence.reads)
    left, right = flat(query.inputs[first.port], first.at), flat(query.inputs[other.port], at)
    return dependence._replace(
        reads=reads, how="sum", terms=left * right, paired=(first.port, other.port)
    )


def product(query: OutputElement) -> ElementDependence:
    """``prod``: the factors."""
    group = _group(query)
    terms = flat(query.inputs[0], group)
    return ElementDependence((Read(0, group),) if group.size else (), True, "product", terms, (0,))


def given_linear(query: OutputElement) -> ElementDependence:
    """Derivatives of pooling: linear in their first input; the others select."""
    if sum(map(np.size, query.inputs)) > MOST_STAND_IN:
        return everything(query)
    operands = (_generic(query.op, 0, query.inputs[0]), *map(np.asarray, query.inputs[1:]))
    grad = _pulled(query, operands)[0]
    assert grad is not None
    reads = [Read(0, np.flatnonzero(grad.reshape(-1)))]
    reads += [Read(i, _all(x), True) for i, x in enumerate(query.inputs) if i]
    return ElementDependence(tuple(read for read in reads if read.at.size))


def matrices(query: OutputElement) -> ElementDependence:
    """Decompositions: all elements of the matrix at the same position in the stack."""
    x = query.inputs[0]
    leading = np.shape(x)[:-2]
    if len(query.inputs) != 1 or not leading or query.shape[: len(leading)] != leading:
        return everything(query)
    size = np.shape(x)[-2] * np.shape(x)[-1]
    stack = query.position // max(math.prod(query.shape[len(leading) :]), 1)
    return ElementDependence((Read(0, np.arange(stack * size, (stack + 1) * size)),), exact=False)


def drawn(query: OutputElement) -> ElementDependence:
    """Random numbers: the key, and the parameters that are broadcast to this element."""
    reads = []
    for port, value in enumerate(query.inputs):
        key = port == 0
        # Rejected numbers are drawn again, which depends on the parameters of earlier elements.
        again = query.op.name in ("random_integers", "random_gamma")
        position = None if key or again else stretched(np.shape(value), query.shape, query.position)
        reads.append(Read(port, _all(value) if position is None else _at(position), key))
    return ElementDependence(tuple(read for read in reads if read.at.size), exact=False)


KINDS: dict[str, Kind] = {
    "elementwise": elementwise, "chosen": chosen, "replaced": replaced, "moved": moved,
    "solved": solved, "along": along, "extreme": extreme, "ordered": ordered, "winner": winner,
    "smooth": smooth,
    "local": local, "linear": linear, "product": product, "given": given_linear,
    "matrices": matrices, "drawn": drawn, "everything": everything, "nothing": nothing,
}  # fmt: skip


# Running an op


def _outputs(op: Op, operands: Sequence[Any], attrs: dict[str, Any]) -> tuple[Any, ...]:
    data = op.impl(*operands, **attrs)
    return data if isinstance(data, tuple) else (data,)


def _wide(value: Any) -> Any:
    return np.complex128 if np.asarray(value).dtype.kind == "c" else np.float64


def _generic(op: Op, port: int, value: Any) -> Any:
    """Numbers at which no derivative vanishes by chance; integers and masks unchanged."""
    array = np.asarray(value)
    if array.dtype.kind in "biu" and (op.rule(port) is None or op.family != "matmul"):
        return value
    rng = np.random.default_rng(port + 1)
    low, high = op.domain
    # Positive where possible: a variance among the operands must be.
    stand_in = np.asarray(rng.uniform(max(low, 0.3) if high > 0.5 else low, high, array.shape))
    return (
        stand_in + 1j * rng.uniform(0.1, 0.7, array.shape) if array.dtype.kind == "c" else stand_in
    )


def _pulled(
    query: OutputElement, operands: tuple[Any, ...], cotangent: complex = 1
) -> list[Array | None]:
    """Derivatives of one element with respect to every input, by the op's rules.

    Raises:
        Exception: The op or a rule raised an error on the stand-ins.
    """
    from nodescope.ops import RAW

    op, attrs = query.op, query.attrs
    outs = tuple(map(np.asarray, _outputs(op, operands, attrs)))
    cts = [np.zeros_like(out, out.dtype if out.dtype.kind in "fc" else float) for out in outs]
    cts[query.port][np.unravel_index(query.position, outs[query.port].shape)] = cotangent
    ct: Any = tuple(cts) if op.outputs != 1 else cts[0]
    out: Any = outs if op.outputs != 1 else outs[0]
    if op.vjp is None:
        raise TypeError(f"{op.name} has no derivative")
    if op.joint:
        return _fitted(op.vjp[0](RAW, ct, out, *operands, **attrs), operands)  # type: ignore[misc]
    gradients: list[Any] = []
    for port in range(len(operands)):
        rule = op.rule(port) if op.variadic or port < len(op.vjp) else None
        if rule is None:
            gradients.append(None)
        elif op.variadic:
            gradients.append(rule(RAW, ct, out, *operands, **attrs, port=port))
        else:
            gradients.append(rule(RAW, ct, out, *operands, **attrs))
    return _fitted(gradients, operands)


def _fitted(gradients: Iterable[Any], operands: Sequence[Any]) -> list[Array | None]:
    from nodescope.ops import RAW

    fitted: list[Array | None] = []
    for ct, x in zip(gradients, operands, strict=True):
        if ct is None:
            fitted.append(None)
        else:
            ct = np.asarray(unbroadcast(RAW, np.asarray(ct), np.asarray(x)))
            fitted.append(ct if np.asarray(x).dtype.kind == "c" else ct.real)
    return fitted
