"""Functions for building graphs by hand.

Functions with an eager meaning (`constant`, `identity`, `assign`) have it outside of graphs.

Invariant: each function adds to the graph of the thread's ``as_default`` block, and to no other.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.engine import dispatch_mode, mode
from nodescope.engine.autodiff import grad
from nodescope.engine.building import Builder
from nodescope.engine.functions import tensor_of
from nodescope.engine.graphs.graph import Graph
from nodescope.engine.graphs.names import split_name
from nodescope.engine.graphs.operation import Operation
from nodescope.engine.numpy_functions.creation import identity as matrix
from nodescope.engine.run import apply
from nodescope.engine.source import where
from nodescope.engine.state import current
from nodescope.engine.tensor import (
    NO_ATTRS,
    Tensor,
    check_dtype,
)
from nodescope.errors import ShapeError, UsageError
from nodescope.ir.graph import TensorSpec


class GraphKeys:
    """Names of the standard collections."""

    GLOBAL_VARIABLES = "variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    LOCAL_VARIABLES = "local_variables"
    MODEL_VARIABLES = "model_variables"
    LOSSES = "losses"
    REGULARIZATION_LOSSES = "regularization_losses"
    SUMMARIES = "summaries"
    UPDATE_OPS = "update_ops"
    TRAIN_OP = "train_op"
    GLOBAL_STEP = "global_step"
    ACTIVATIONS = "activations"
    WEIGHTS = "weights"
    BIASES = "biases"
    INIT_OP = "init_op"
    LOCAL_INIT_OP = "local_init_op"
    SAVEABLE_OBJECTS = "saveable_objects"


def building() -> Graph | None:
    """The hand-built graph in which this thread records, or None."""
    builder = dispatch_mode.builder()
    return builder if isinstance(builder, Graph) else None


def needed(subject: str) -> Graph:
    """The graph in which this thread records. Raises `UsageError` if there is none."""
    graph = building()
    if graph is None:
        raise UsageError(
            f"{subject}: no graph is being built here", source=where(),
            hint="write it inside `with nodescope.Graph().as_default():`",
        )  # fmt: skip
    return graph


def _shape(shape: Any) -> tuple[int, ...]:
    shape_ = (shape,) if isinstance(shape, int | np.integer) else shape
    if shape_ is None or any(size is None for size in shape_):
        raise ShapeError(
            f"placeholder: the shape {shape} has unknown sizes; operations must know them",
            source=where(),
            hint="give the size of the batch, or use @nodescope.compile, which traces each size",
        )
    if any(not isinstance(size, int | np.integer) or size < 0 for size in shape_):
        raise ShapeError(f"placeholder: {shape} is not a shape", source=where())
    return tuple(map(int, shape_))


def placeholder(dtype: Any, shape: Any = None, name: str = "placeholder") -> Tensor:
    """A value that each run must be fed.

    Args:
        dtype: NumPy dtype.
        shape: Its sizes, all of which must be known.
        name: The name of the operation, within the current scope.

    Raises:
        ShapeError: The shape is missing, or has unknown sizes.
        UsageError: No graph is being built.
    """
    graph = needed("placeholder")
    spec = TensorSpec(_shape(shape), check_dtype(np.dtype(dtype)).name)
    return graph.named_leaf(ops.get("placeholder"), {}, spec, name)


def placeholder_with_default(
    input: Any, shape: Any = None, name: str = "placeholder_with_default"
) -> Tensor:
    """A value that a run may be fed; otherwise, it is ``input``.

    Raises:
        ShapeError: ``shape`` is not that of ``input``.
    """
    needed("placeholder_with_default")
    default = tensor_of(input)
    if shape is not None and _shape(shape) != default.shape:
        raise ShapeError(
            f"placeholder_with_default: the default has shape {default.shape}, not {shape}",
            source=where(),
        )
    return identity(default, name=name)


def constant(data: Any, dtype: Any = None, *, name: str | None = None) -> Tensor:
    """Data as a tensor; in a graph, a constant node.

    Eagerly, no gradient flows into it. In a graph, `gradients` can be taken with respect to it.
    """
    graph = building()
    if graph is None:
        return grad.constant(data, dtype, name=name)
    array = np.array(data.numpy() if isinstance(data, Tensor) else data, dtype=dtype)
    check_dtype(array.dtype)
    spec = TensorSpec(array.shape, array.dtype.name)
    return graph.named_leaf(ops.get("constant"), {}, spec, name or "constant", array)


def identity(x: Any, dtype: Any = None, *, name: str | None = None) -> Tensor:
    """The same value, as a separate operation, which can have a name in a graph.

    For a number ``x``, as `numpy.identity`: the identity matrix with that many rows.
    """
    if dtype is not None or isinstance(x, int | np.integer):
        return matrix(x, dtype)
    graph, tensor = building(), tensor_of(x)
    op = ops.get("identity")
    if graph is None or name is None:
        return apply(op, (tensor,), NO_ATTRS)
    state = current()
    before = state.scope
    label, state.scope = split_name(name, before)
    try:
        return graph.labelled(op, (tensor,), label)
    finally:
        state.scope = before


def no_op(name: str = "no_op") -> Operation:
    """An operation that does nothing but wait for the control dependencies around it."""
    graph = needed("no_op")
    label, scope = split_name(name, current().scope)
    node = graph.add(ops.get("no_op"), (), {}, (), current(), label=label, scope=scope)
    return Operation(graph, node)


def group(*inputs: Any, name: str = "group") -> Operation:
    """An operation that is complete when all ``inputs`` (operations and tensors) have run."""
    graph = needed("group")
    flat: list[Any] = []
    for operand in inputs:
        flat.extend(operand if isinstance(operand, list | tuple) else [operand])
    with graph.control_dependencies(flat):
        return no_op(name)


def control_dependencies(control_inputs: Any) -> contextlib.AbstractContextManager[None]:
    """`Graph.control_dependencies` of the graph that is being built.

    Does nothing in eager mode, where everything has already run when the next line is reached.
    """
    graph = building()
    return contextlib.nullcontext() if graph is None else graph.control_dependencies(control_inputs)


def device(name: Any) -> contextlib.AbstractContextManager[None]:
    """A block whose operations run on a device.

    It applies in hand-built graphs and in compiled functions. A compiled function that runs plainly
    (``set_mode("eager")``) ignores it.

    Args:
        name: ``cpu:0``, ``worker:1`` or ``worker:1/cpu:0``; inner blocks complete and override
            outer ones. Or a function from an op's name to one of these. None clears outer blocks.

    Raises:
        UsageError: Eagerly, for any device but the CPU, which is the only one there.
    """
    builder: Builder | None = dispatch_mode.builder()
    if builder is not None:
        if name is not None and not callable(name) and not isinstance(name, str):
            raise UsageError(f"device: {name!r} is not a device", source=where(),
                             hint="such as 'cpu:0'")  # fmt: skip
        return builder.devices.within(name)
    if name is not None and not callable(name) and str(name).split(":")[0] != "cpu":
        if mode.plain():
            return contextlib.nullcontext()
        raise UsageError(f"device: eagerly everything runs on the cpu, not {name!r}",
                         source=where(), hint="build a Graph, or compile the function")  # fmt: skip
    return contextlib.nullcontext()
