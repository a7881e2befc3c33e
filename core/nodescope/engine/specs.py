"""Shapes and dtypes of an observed op's results, before and after it has run.

Invariant: never raises, whatever the operands, because the node is needed in any case.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np

from nodescope.engine.tensor import NO_ATTRS, Attrs, Tensor
from nodescope.ir.attrs import GraphRef
from nodescope.ir.graph import Graph, TensorSpec
from nodescope.ops.op import Op, port_name

# Families with ops whose results have value-dependent shapes.
_BY_VALUES = frozenset({"index", "reduction", "layout"})
_NOTHING_GIVEN: Final[tuple[Attrs, tuple[Any, ...]]] = (NO_ATTRS, ())


def specs_of(
    op: Op, inputs: tuple[Any, ...], attrs: Attrs, data: tuple[Any, ...]
) -> tuple[TensorSpec, ...]:
    """Shapes and dtypes of an op's results: of ``data`` if given, otherwise according to
    `infer`.
    """
    if data:
        return tuple([_spec(datum.shape, datum.dtype) for datum in data])
    try:
        inferred = op.infer(_specified(inputs), attrs)
        return inferred if isinstance(inferred, tuple) else (inferred,)
    except (
        Exception
    ):  # the op will fail, or its shape depends on values; the node is needed in any case
        first = inputs[0] if inputs and inputs[0].__class__ is Tensor else None
        dtype = "float64" if first is None else first.data.dtype.name
        return (TensorSpec((), dtype),) * max(op.outputs, 1)


@lru_cache(maxsize=256)
def dtype_name(dtype: np.dtype[Any]) -> str:
    """The name of a dtype."""
    return dtype.name  # cached, because NumPy builds the name each time


@lru_cache(maxsize=1024)
def _spec(shape: tuple[int, ...], dtype: np.dtype[Any]) -> TensorSpec:
    """The spec of an array: one object for all layers that are alike."""
    return TensorSpec(shape, dtype_name(dtype))


def _specified(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs in the form that `infer` expects."""
    return tuple(
        [
            _spec(operand.data.shape, operand.data.dtype)
            if operand.__class__ is Tensor
            else operand
            for operand in inputs
        ]
    )


def is_loose(op: Op, inputs: tuple[Any, ...], attrs: Attrs) -> bool:
    """Whether the shape of the result depends on the inputs' values."""
    if op.elementwise or op.family not in _BY_VALUES:
        return False
    given = _specified(inputs)
    try:
        return _known_loose(op, given, tuple(attrs.items()))
    except TypeError:  # an operand or an attribute has no hash
        return _cannot_infer(op, given, attrs)


def _cannot_infer(op: Op, given: tuple[Any, ...], attrs: Attrs) -> bool:
    try:
        op.infer(given, attrs)
    except Exception:  # infer failed although the op ran, so the shape depends on values
        return True
    return False


@lru_cache(maxsize=1024, typed=True)
def _known_loose(op: Op, given: tuple[Any, ...], attrs: tuple[tuple[str, Any], ...]) -> bool:
    """`_cannot_infer`, for layers that are alike; to infer takes 5 to 10 µs."""
    return _cannot_infer(op, given, dict(attrs))


def given(inputs: tuple[Any, ...], attrs: Attrs) -> tuple[Attrs, tuple[Any, ...]]:
    """Attributes, and operands that are not tensors, each with its class: 1 is not 1.0."""
    scalars = [(value.__class__, value) for value in inputs if value.__class__ is not Tensor]
    return (attrs, tuple(scalars)) if attrs or scalars else _NOTHING_GIVEN


def attributes_of(op: Op, inputs: tuple[Any, ...], attrs: Attrs) -> dict[str, Any]:
    """An op's attributes and scalar operands, with bodies of loops as references (`GraphRef`)."""
    plain = {
        port_name(op, port): value
        for port, value in enumerate(inputs)
        if value.__class__ is not Tensor
    }
    for name, value in attrs.items():
        plain[name] = GraphRef(value.id) if isinstance(value, Graph) else value
    if "derivative" in plain:
        plain["derivative"] = None  # only a vjp needs it
    return plain
