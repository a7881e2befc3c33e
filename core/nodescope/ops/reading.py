"""Reading: the kinds of ops, by where the elements of their outputs come from.

A kind is a function of one call and one element. Most ask the op itself: layout ops are run on an
array of positions, sums and products are differentiated with a cotangent of one element.

Invariant: never writes to what it is given; the stand-ins are the same each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from nodescope.ops.op import Array, Op
from nodescope.ops.rules import unbroadcast

MOST_STAND_IN = 1 << 22
"""Elements of the inputs up to which an op is asked; of larger ones everything is listed."""


class Read(NamedTuple):
    """Elements of one input.

    Attributes:
        port: Of the op, Python scalars included.
        at: Their positions in C order, in the order of the terms where there are any.
        selects: They only say what is taken: an index, a mask, a label, a key.
    """

    port: int
    at: Array
    selects: bool = False


class Made(NamedTuple):
    """What an element is made from.

    Attributes:
        reads: By port; a port without elements is left out.
        exact: Whether every element listed has an effect at generic values.
        how: ``sum`` or ``product`` of ``terms``; else ``""``.
        terms: The numbers that are added or multiplied.
        paired: With ``how``: ports whose i-th elements belong to the i-th term.
    """

    reads: tuple[Read, ...]
    exact: bool = True
    how: str = ""
    terms: Array | None = None
    paired: tuple[int, ...] = ()


class Asked(NamedTuple):
    """One element of one call."""

    op: Op
    inputs: tuple[Any, ...]
    attrs: dict[str, Any]
    outputs: tuple[Array, ...]
    port: int
    position: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the output."""
        return np.shape(self.outputs[self.port])


Kind = Callable[[Asked], Made]
_ONE = np.zeros(1, np.int64)


def _at(position: int) -> Array:
    return np.array([position], np.int64)


def _all(each: Any) -> Array:
    return np.arange(np.size(each), dtype=np.int64)


def _index(array: Any, *positions: int) -> Any:
    """The element of an array at a position in C order, whatever its layout."""
    return np.asarray(array)[np.unravel_index(positions[0], np.shape(array))]


def flat(array: Any, at: Array) -> Array:
    """The elements at positions in C order."""
    array = np.asarray(array)
    if array.ndim == 0:
        return np.broadcast_to(array, at.shape)
    found: Array = array[np.unravel_index(at, array.shape)]
    return found


def stretched(shape: tuple[int, ...], full: tuple[int, ...], position: int) -> int | None:
    """Which element of an array of ``shape`` is broadcast to a position of ``full``."""
    index = np.unravel_index(position, full) if full else ()
    cut = len(full) - len(shape)
    if cut < 0 or any(n not in (1, m) for n, m in zip(shape, full[cut:], strict=True)):
        return None
    found = 0
    for n, i in zip(shape, index[cut:], strict=True):
        found = found * n + (0 if n == 1 else int(i))
    return found


def everything(asked: Asked) -> Made:
    """All elements of all inputs."""
    reads = (Read(port, _all(value)) for port, value in enumerate(asked.inputs))
    return Made(tuple(each for each in reads if each.at.size), exact=False)


def nothing(asked: Asked) -> Made:
    """An output that only has the shape of its input."""
    return Made(())


def elementwise(asked: Asked) -> Made:
    """The elements that are broadcast to this place."""
    reads = []
    for port, value in enumerate(asked.inputs):
        found = stretched(np.shape(value), asked.shape, asked.position)
        if found is None:
            return everything(asked)
        reads.append(Read(port, _at(found), _selects(asked, port)))
    return Made(tuple(reads))


def _selects(asked: Asked, port: int) -> bool:
    ports = asked.op.ports
    return port < len(ports) and ports[port] in ("condition", "mask", "indices", "labels", "key")


def chosen(asked: Asked) -> Made:
    """``where``, ``choose`` and ``dropout``: what says which one, and the one that is taken."""
    which, *reads = elementwise(asked).reads
    if asked.op.name == "dropout":
        mask = reads[0]._replace(selects=True)
        taken = bool(flat(asked.inputs[1], mask.at)[0])
        return Made((which, mask) if taken else (mask,))
    says = flat(asked.inputs[0], which.at)[0]
    if asked.op.name == "where":
        return Made((which._replace(selects=True), reads[0 if bool(says) else 1]))
    return Made((which._replace(selects=True), reads[int(says) % len(reads)]))


def replaced(asked: Asked) -> Made:
    """``assign``: the new value; nothing is left of the old one."""
    found = elementwise(asked)
    return Made(tuple(each for each in found.reads if each.port == 1))


def moved(asked: Asked) -> Made:
    """Ops that only move elements: run on positions, twice, so that what they fill in is seen."""
    selectors = _selectors(asked)
    sizes = [np.size(value) for value in asked.inputs]
    if sum(sizes) + math.prod(asked.shape) > MOST_STAND_IN:
        return everything(asked)
    starts = np.cumsum([1, *sizes]).tolist()
    total = float(starts[-1])
    seen = []
    for shift in (0.0, total):
        given = [
            each
            if port in selectors
            else np.arange(start, start + size, dtype=np.float64).reshape(np.shape(each)) + shift
            for port, (each, start, size) in enumerate(
                zip(asked.inputs, starts[:-1], sizes, strict=True)
            )
        ]
        found = _outputs(asked.op, given, asked.attrs)[asked.port]
        seen.append(float(_index(found, asked.position)))
    reads = [_selector(asked, each) for each in sorted(selectors)]
    reads = [each for each in reads if each.at.size]
    if seen[1] - seen[0] == total:
        place = int(seen[0])
        port = int(np.searchsorted(starts, place, side="right")) - 1
        reads.insert(0, Read(port, _at(place - starts[port])))
    exact = asked.op.name != "index_set" or not asked.inputs[2:]
    return Made(tuple(reads), exact)


def _selectors(asked: Asked) -> set[int]:
    name, count = asked.op.name, len(asked.inputs)
    if name in ("getitem", "index_add"):
        return set(range(1, count))
    if name == "index_set":
        return set(range(2, count))
    return {1} if name in ("take_along_axis", "embedding") else set()


def _selector(asked: Asked, port: int) -> Read:
    """The elements of an index array that say what is taken here."""
    each = np.asarray(asked.inputs[port])
    if asked.op.name == "take_along_axis":
        found = stretched(each.shape, asked.shape, asked.position)
        return Read(port, _all(each) if found is None else _at(found), True)
    if asked.op.name == "embedding":
        width = math.prod(asked.shape[each.ndim :])
        return Read(port, _at(asked.position // max(width, 1)), True)
    if asked.op.name == "getitem" and each.dtype != bool:
        return Read(port, _at(_entry(asked, port - 1)), True)
    return Read(port, _all(each), True)


def _entry(asked: Asked, wanted: int) -> int:
    """Which element of the index array ``wanted`` a place of a selection belongs to."""
    from nodescope.ops.index import Port

    arrays, index = asked.inputs[1:], asked.attrs["index"]
    ndim, known = np.ndim(asked.inputs[0]), sum(each not in (None, ...) for each in index)
    axis, axes = 0, {}
    for item in index:
        if item is Ellipsis:
            axis += ndim - known
        elif item is not None:
            if isinstance(item, Port):
                axes[item.port] = axis
            axis += 1
    shape = list(np.shape(asked.inputs[0]))
    for port, axis in axes.items():
        shape[axis] = np.size(arrays[port])
    line = np.arange(shape[axes[wanted]]).reshape(
        [-1 if i == axes[wanted] else 1 for i in range(ndim)]
    )
    places = tuple(
        np.arange(np.size(arrays[each.port])).reshape(np.shape(arrays[each.port]))
        if isinstance(each, Port)
        else each
        for each in index
    )
    return int(_index(np.broadcast_to(line, shape)[places], asked.position))


def along(asked: Asked) -> Made:
    """Reductions without derivative: all elements of the reduced dimensions."""
    return Made((Read(0, _group(asked)),), exact=False)


def _group(asked: Asked) -> Array:
    """Positions that are reduced to this one; of an op that keeps the shape, its whole row."""
    x = np.asarray(asked.inputs[0])
    places = np.arange(x.size).reshape(x.shape)
    axis = asked.attrs.get("axis")
    if x.ndim == 0 or axis is None:
        return places.reshape(-1)
    axes = tuple(i % x.ndim for i in ((axis,) if isinstance(axis, int) else axis))
    rest = [i for i in range(x.ndim) if i not in axes]
    rows = places.transpose((*rest, *axes)).reshape(math.prod(x.shape[i] for i in rest), -1)
    position = asked.position
    if asked.shape == x.shape and x.size != rows.shape[0]:
        index = np.unravel_index(position, asked.shape)
        position = 0
        for i in rest:
            position = position * x.shape[i] + int(index[i])
    found: Array = rows[position]
    return found


def extreme(asked: Asked) -> Made:
    """``max`` and ``min``: the winner, which a NaN always is."""
    group = _group(asked)
    pick = np.argmax if asked.op.name == "max" else np.argmin
    return Made((Read(0, group[[int(pick(flat(asked.inputs[0], group)))]]),))


def ordered(asked: Asked) -> Made:
    """``sort``: the element that stands here now."""
    group = _group(asked)
    row = flat(asked.inputs[0], group)
    out = _index(asked.outputs[asked.port], asked.position)
    same = np.flatnonzero((row == out) | ((row != row) & (out != out)))
    if same.size != 1:
        return Made((Read(0, group[same] if same.size else group),), exact=False)
    return Made((Read(0, group[same]),))


def winner(asked: Asked) -> Made:
    """Maxima of windows and running ones: differentiated on ranks, among which no two are equal."""
    x = np.asarray(asked.inputs[0])
    if x.size > MOST_STAND_IN:
        return everything(asked)
    keys = x.reshape(-1).astype(np.float64)
    largest = asked.op.name != "cummin"
    keys = np.where(keys != keys, np.inf if largest else -np.inf, keys)
    order = np.argsort(keys if not largest else -keys, kind="stable")
    ranks = np.empty(x.size)
    ranks[order] = np.arange(x.size) if not largest else x.size - np.arange(x.size)
    given = (ranks.reshape(x.shape), *asked.inputs[1:])
    grads = _pulled(asked, given)
    assert grads[0] is not None
    return Made((Read(0, np.flatnonzero(grads[0].reshape(-1))),))


def smooth(asked: Asked) -> Made:
    """What the derivative says at generic values; integers and masks are listed as a whole."""
    if sum(map(np.size, asked.inputs)) > MOST_STAND_IN:
        return everything(asked)
    given = tuple(_generic(asked.op, port, value) for port, value in enumerate(asked.inputs))
    grads = _pulled(asked, given)
    reads = []
    other: list[Array | None] = [None] * len(given)
    if asked.outputs[asked.port].dtype.kind == "c":
        other = _pulled(asked, given, 1j)
    for port, (each, grad) in enumerate(zip(asked.inputs, grads, strict=True)):
        if grad is not None and given[port] is not each:
            if (turned := other[port]) is not None:
                grad = np.abs(grad) + np.abs(turned)
            reads.append(Read(port, np.flatnonzero(grad.reshape(-1) != 0)))
        elif np.size(each):
            reads.append(Read(port, _all(each), True))
    return Made(tuple(each for each in reads if each.at.size))


def solved(asked: Asked) -> Made:
    """Solutions of equations: `smooth`, where rounding leaves specks of what should be zero."""
    return smooth(asked)._replace(exact=False)


def local(asked: Asked) -> Made:
    """As `smooth`, but at the values themselves: which branch of the op they take matters."""
    if sum(map(np.size, asked.inputs)) > MOST_STAND_IN:
        return everything(asked)
    given = tuple(np.asarray(value, np.float64) for value in asked.inputs)
    grads = _pulled(asked, tuple(np.nan_to_num(each, nan=1.0) for each in given))
    reads = (Read(i, np.flatnonzero(g.reshape(-1))) for i, g in enumerate(grads) if g is not None)
    return Made(tuple(each for each in reads if each.at.size))


def linear(asked: Asked) -> Made:
    """Sums of terms that hold one element of each operand at most: `smooth`, with the terms."""
    found = smooth(asked)
    arrays = [r for r in found.reads if not r.selects]
    if not found.exact or len(arrays) > 2 or not arrays:
        return found
    if len(arrays) == 1:
        return _weighted(asked, found, arrays[0])
    return _paired(asked, found, arrays[0], arrays[1])


def _weighted(asked: Asked, found: Made, read: Read) -> Made:
    """Terms of an op with one operand: each element times its weight."""
    given = list(asked.inputs)
    given[read.port] = np.ones(np.shape(given[read.port]), _wide(given[read.port]))
    grad = _pulled(asked, tuple(given))[read.port]
    if grad is None:
        return found
    weights = grad.reshape(-1)[read.at]
    terms = flat(asked.inputs[read.port], read.at) * weights
    return found._replace(how="sum", terms=terms, paired=(read.port,))


def _paired(asked: Asked, found: Made, one: Read, other: Read) -> Made:
    """Terms of a product: differentiated by one operand, the other one says where it stands."""
    shape = np.shape(asked.inputs[other.port])
    given = list(asked.inputs)
    given[one.port] = np.ones(np.shape(given[one.port]))
    given[other.port] = np.ones(shape)
    counts = _pulled(asked, tuple(given))[one.port]
    given[other.port] = np.arange(1.0, math.prod(shape) + 1).reshape(shape)
    codes = _pulled(asked, tuple(given))[one.port]
    if counts is None or codes is None or not (counts.reshape(-1)[one.at].real == 1).all():
        return found
    at = np.rint(codes.reshape(-1)[one.at].real).astype(np.int64) - 1
    if not np.array_equal(np.unique(at), other.at):
        return found
    reads = tuple(Read(each.port, at) if each is other else each for each in found.reads)
    left, right = flat(asked.inputs[one.port], one.at), flat(asked.inputs[other.port], at)
    return found._replace(reads=reads, how="sum", terms=left * right, paired=(one.port, other.port))


def product(asked: Asked) -> Made:
    """``prod``: the factors."""
    group = _group(asked)
    terms = flat(asked.inputs[0], group)
    return Made((Read(0, group),) if group.size else (), True, "product", terms, (0,))


def given_linear(asked: Asked) -> Made:
    """Derivatives of poolings: linear in their first input; the others select."""
    if sum(map(np.size, asked.inputs)) > MOST_STAND_IN:
        return everything(asked)
    given = (_generic(asked.op, 0, asked.inputs[0]), *map(np.asarray, asked.inputs[1:]))
    grad = _pulled(asked, given)[0]
    assert grad is not None
    reads = [Read(0, np.flatnonzero(grad.reshape(-1)))]
    reads += [Read(i, _all(x), True) for i, x in enumerate(asked.inputs) if i]
    return Made(tuple(each for each in reads if each.at.size))


def matrices(asked: Asked) -> Made:
    """Decompositions: all elements of the matrix in the same place of a stack."""
    x = asked.inputs[0]
    leading = np.shape(x)[:-2]
    if len(asked.inputs) != 1 or not leading or asked.shape[: len(leading)] != leading:
        return everything(asked)
    size = np.shape(x)[-2] * np.shape(x)[-1]
    stack = asked.position // max(math.prod(asked.shape[len(leading) :]), 1)
    return Made((Read(0, np.arange(stack * size, (stack + 1) * size)),), exact=False)


def drawn(asked: Asked) -> Made:
    """Random numbers: the key, and the parameters that are broadcast here."""
    reads = []
    for port, value in enumerate(asked.inputs):
        key = port == 0
        # Numbers that are rejected and drawn again depend on the parameters of those before them.
        again = asked.op.name in ("random_integers", "random_gamma")
        found = None if key or again else stretched(np.shape(value), asked.shape, asked.position)
        reads.append(Read(port, _all(value) if found is None else _at(found), key))
    return Made(tuple(each for each in reads if each.at.size), exact=False)


KINDS: dict[str, Kind] = {
    "elementwise": elementwise, "chosen": chosen, "replaced": replaced, "moved": moved,
    "solved": solved, "along": along, "extreme": extreme, "ordered": ordered, "winner": winner,
    "smooth": smooth,
    "local": local, "linear": linear, "product": product, "given": given_linear,
    "matrices": matrices, "drawn": drawn, "everything": everything, "nothing": nothing,
}  # fmt: skip


# Asking an op


def _outputs(op: Op, given: Sequence[Any], attrs: dict[str, Any]) -> tuple[Any, ...]:
    data = op.impl(*given, **attrs)
    return data if isinstance(data, tuple) else (data,)


def _wide(each: Any) -> Any:
    return np.complex128 if np.asarray(each).dtype.kind == "c" else np.float64


def _generic(op: Op, port: int, each: Any) -> Any:
    """Numbers at which no derivative vanishes by chance; integers and masks as they are."""
    array = np.asarray(each)
    if array.dtype.kind in "biu" and (op.rule(port) is None or op.family != "matmul"):
        return each
    rng = np.random.default_rng(port + 1)
    low, high = op.domain
    # Positive where that will do: a variance among the operands is.
    found = np.asarray(rng.uniform(max(low, 0.3) if high > 0.5 else low, high, array.shape))
    return found + 1j * rng.uniform(0.1, 0.7, array.shape) if array.dtype.kind == "c" else found


def _pulled(asked: Asked, given: tuple[Any, ...], cotangent: complex = 1) -> list[Array | None]:
    """Derivatives of one element by every input, as the op's rules give them.

    Raises:
        Exception: What the op or a rule raises on the stand-ins.
    """
    from nodescope.ops import RAW

    op, attrs = asked.op, asked.attrs
    outs = tuple(map(np.asarray, _outputs(op, given, attrs)))
    cts = [np.zeros_like(out, out.dtype if out.dtype.kind in "fc" else float) for out in outs]
    cts[asked.port][np.unravel_index(asked.position, outs[asked.port].shape)] = cotangent
    ct: Any = tuple(cts) if op.outputs != 1 else cts[0]
    out: Any = outs if op.outputs != 1 else outs[0]
    if op.vjp is None:
        raise TypeError(f"{op.name} has no derivative")
    if op.joint:
        return _fitted(op.vjp[0](RAW, ct, out, *given, **attrs), given)  # type: ignore[misc]
    found: list[Any] = []
    for port in range(len(given)):
        rule = op.rule(port) if op.variadic or port < len(op.vjp) else None
        if rule is None:
            found.append(None)
        elif op.variadic:
            found.append(rule(RAW, ct, out, *given, **attrs, port=port))
        else:
            found.append(rule(RAW, ct, out, *given, **attrs))
    return _fitted(found, given)


def _fitted(found: Iterable[Any], given: Sequence[Any]) -> list[Array | None]:
    from nodescope.ops import RAW

    fitted: list[Array | None] = []
    for ct, x in zip(found, given, strict=True):
        if ct is None:
            fitted.append(None)
        else:
            ct = np.asarray(unbroadcast(RAW, np.asarray(ct), np.asarray(x)))
            fitted.append(ct if np.asarray(x).dtype.kind == "c" else ct.real)
    return fitted
