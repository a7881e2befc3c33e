"""The functions with which programs build graphs by hand.

Where an eager meaning exists (`constant`, `identity`, `assign`), they have it outside of graphs.

Invariant: each adds to the graph of the thread's ``as_default`` block, and to no other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.engine import grad, modes
from nodescope.engine.backward import start
from nodescope.engine.default_graph import get_default_graph
from nodescope.engine.functions import tensor_of
from nodescope.engine.graph import Graph, Variable, split_name
from nodescope.engine.numpy_functions.creation import identity as matrix
from nodescope.engine.operation import Operation
from nodescope.engine.run import apply
from nodescope.engine.scopes import name_scope
from nodescope.engine.source import where
from nodescope.engine.state import current
from nodescope.engine.tape import TRACED, pull_many
from nodescope.engine.tensor import (
    LEAF,
    NO_ATTRS,
    SMOOTH,
    Tensor,
    check_dtype,
    make,
    operand,
    spec_of,
)
from nodescope.errors import DtypeError, GradientError, ShapeError, UsageError
from nodescope.ir.graph import TensorSpec


class GraphKeys:
    """Names of collections that everybody knows."""

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
    """The graph built by hand that this thread records in, or None."""
    found = modes.builder()
    return found if isinstance(found, Graph) else None


def needed(what: str) -> Graph:
    """The graph that this thread records in. Raises `UsageError`."""
    found = building()
    if found is None:
        raise UsageError(
            f"{what}: no graph is being built here", source=where(),
            hint="write it inside `with nodescope.Graph().as_default():`",
        )  # fmt: skip
    return found


def _shape(shape: Any) -> tuple[int, ...]:
    found = (shape,) if isinstance(shape, int | np.integer) else shape
    if found is None or any(each is None for each in found):
        raise ShapeError(
            f"placeholder: the shape {shape} has unknown sizes; operations must know them",
            source=where(),
            hint="give the size of the batch, or use @nodescope.compile, which traces each size",
        )
    if any(not isinstance(each, int | np.integer) or each < 0 for each in found):
        raise ShapeError(f"placeholder: {shape} is no shape", source=where())
    return tuple(map(int, found))


def placeholder(dtype: Any, shape: Any = None, name: str = "placeholder") -> Tensor:
    """A value that each run is fed with.

    Args:
        dtype: NumPy dtype.
        shape: Its sizes, all of which must be known.
        name: What the operation is called, within the current scope.

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
    """A value that runs may be fed with, and that is ``input`` if they are not.

    Raises:
        ShapeError: ``shape`` is not that of ``input``.
    """
    needed("placeholder_with_default")
    found = tensor_of(input)
    if shape is not None and _shape(shape) != found.shape:
        raise ShapeError(
            f"placeholder_with_default: the default has shape {found.shape}, not {shape}",
            source=where(),
        )
    return identity(found, name=name)


def constant(data: Any, dtype: Any = None, *, name: str | None = None) -> Tensor:
    """Data as a tensor; in a graph, a node that gives it.

    Eagerly no gradient flows into it. In a graph `gradients` may be asked for it.
    """
    graph = building()
    if graph is None:
        return grad.constant(data, dtype, name=name)
    array = np.array(data.numpy() if isinstance(data, Tensor) else data, dtype=dtype)
    check_dtype(array.dtype)
    spec = TensorSpec(array.shape, array.dtype.name)
    return graph.named_leaf(ops.get("constant"), {}, spec, name or "constant", array)


def identity(x: Any, dtype: Any = None, *, name: str | None = None) -> Tensor:
    """The same value, as an operation of its own, which in a graph can have a name.

    For a number ``x``, as `numpy.identity`: the matrix of that many rows.
    """
    if dtype is not None or isinstance(x, int | np.integer):
        return matrix(x, dtype)
    graph, found = building(), tensor_of(x)
    op = ops.get("identity")
    if graph is None or name is None:
        return apply(op, (found,), NO_ATTRS)
    state = current()
    before = state.scope
    label, state.scope = split_name(name, before)
    try:
        return graph.labelled(op, (found,), label)
    finally:
        state.scope = before


def no_op(name: str = "no_op") -> Operation:
    """An operation that does nothing but wait for the control dependencies around it."""
    graph = needed("no_op")
    label, scope = split_name(name, current().scope)
    node = graph.add(ops.get("no_op"), (), {}, (), current(), label=label, scope=scope)
    return Operation(graph, node)


def group(*inputs: Any, name: str = "group") -> Operation:
    """An operation that has run when all of ``inputs`` (operations and tensors) have."""
    graph = needed("group")
    flat: list[Any] = []
    for each in inputs:
        flat.extend(each if isinstance(each, list | tuple) else [each])
    with graph.control_dependencies(flat):
        return no_op(name)


def control_dependencies(control_inputs: Any) -> contextlib.AbstractContextManager[None]:
    """`Graph.control_dependencies` of the graph that is being built.

    Eagerly everything has run already when the next line is reached: nothing happens.
    """
    graph = building()
    return contextlib.nullcontext() if graph is None else graph.control_dependencies(control_inputs)


def device(name: Any) -> contextlib.AbstractContextManager[None]:
    """A block whose operations run on a device.

    Args:
        name: ``cpu:0``, ``worker:1`` or ``worker:1/cpu:0``; inner blocks complete and overrule
            outer ones. A function from an op's name to one of these. None forgets outer blocks.

    Raises:
        UsageError: Eagerly, for any device but the CPU: there is no other here.
    """
    graph = building()
    if graph is not None:
        if name is not None and not callable(name) and not isinstance(name, str):
            raise UsageError(f"device: {name!r} is no device", source=where(),
                             hint="such as 'cpu:0'")  # fmt: skip
        return graph.within_device(name)
    if name is not None and not callable(name) and str(name).split(":")[0] != "cpu":
        raise UsageError(f"device: eagerly everything runs on the cpu, not {name!r}",
                         source=where(), hint="build a Graph")  # fmt: skip
    return contextlib.nullcontext()


# Variables


def variable(
    initial: Any,
    name: str = "variable",
    *,
    trainable: bool = True,
    collections: Sequence[str] | None = None,
    dtype: Any = None,
) -> Tensor:
    """What a session keeps a value of between runs. Eagerly, a `parameter`.

    Args:
        initial: Its first value: an array, a number, a tensor of the graph, or a function that
            gives one. A session holds it only after the initializer has run.
        trainable: Whether it is in the collection ``TRAINABLE_VARIABLES``, too, if it has a
            floating-point dtype.
        collections: Names of the collections that it goes into; ``GLOBAL_VARIABLES`` if None.
    """
    graph = building()
    given = initial() if callable(initial) else initial
    if graph is None:
        return grad.parameter(given, dtype, name=name)
    label, scope = split_name(name, current().scope)
    if isinstance(given, Tensor):
        first = given
    else:
        array = np.array(given, dtype=dtype)
        check_dtype(array.dtype)
        first = make(array, kind="constant")
    spec = spec_of(first)
    with graph.lock, graph.control_dependencies(None):
        state = current()
        node = graph.add(ops.get("parameter"), (), {}, (spec,), state, label=label, scope=scope)
        value = node.outputs[0]
        first_value = graph.initial_value(first, node.name)
        inputs = (value, first_value)
        setter = graph.add(ops.get("assign"), inputs, {}, (spec,), state, label="assign",
                           scope=node.name)  # fmt: skip
        found = graph.keep(node, spec, trainable=trainable, initializer=setter)
    keys = [GraphKeys.GLOBAL_VARIABLES] if collections is None else list(collections)
    if trainable and found.dtype.kind in SMOOTH:
        keys.append(GraphKeys.TRAINABLE_VARIABLES)
    graph.add_to_collections(keys, found)
    return found


def parameter(data: Any, dtype: Any = None, *, name: str) -> Tensor:
    """A tensor that training changes. It wants a gradient; optimizers replace its array.

    In a graph it is a trainable `variable`.

    Raises:
        DtypeError: The data are not floating point.
    """
    if building() is None:
        return grad.parameter(data, dtype, name=name)
    found = variable(data, name.strip("/"), dtype=dtype)
    if found.edge is not LEAF:
        raise DtypeError(f"a tensor of {found.dtype} cannot want a gradient", source=where(),
                         hint="convert it to a floating-point dtype")  # fmt: skip
    return found


def _variable(tensor: Tensor) -> Variable:
    graph = needed("variable")
    found = graph.variables.get(graph.value_here(tensor))
    if found is None:
        raise UsageError(f"{tensor.name or 'a tensor'} is not a variable of this graph",
                         source=where())  # fmt: skip
    return found


def _update(op: str, target: Tensor, value: Any) -> Any:
    new = value if isinstance(value, Tensor) else operand(np.asarray(value))
    assert new is not None
    if building() is None:
        old = target.data
        found: Any = new.data
        infer = ops.get(op).infer
        try:
            infer((spec_of(target), spec_of(new)), {})
        except (ShapeError, DtypeError) as error:
            error.source = where()
            raise
        return grad.assign(target, ops.get(op).impl(old, found))
    with modes.recording(False):
        return apply(ops.get(op), (target, new.detach()), NO_ATTRS)


def assign(target: Tensor, value: Any) -> Any:
    """Give a variable or parameter a new value.

    Returns:
        In a graph, the tensor that has the new value once it ran. Eagerly None: it is done.

    Raises:
        ShapeError: The shapes differ.
        UsageError: ``target`` was computed, so it cannot be given a value.
    """
    return grad.assign(target, value) if building() is None else _update("assign", target, value)


def assign_add(target: Tensor, value: Any) -> Any:
    """Add to a variable or parameter; see `assign`. No addition gets lost between threads."""
    return _update("assign_add", target, value)


def assign_sub(target: Tensor, value: Any) -> Any:
    """Subtract from a variable or parameter; see `assign_add`."""
    return _update("assign_sub", target, value)


def variables_initializer(variables: Iterable[Tensor], name: str = "init") -> Operation:
    """An operation that gives these variables their first values."""
    graph = needed("variables_initializer")
    setters = [
        Operation(graph, graph.nodes[found.initializer - 1])
        for found in map(_variable, variables)
        if found.initializer
    ]
    return group(*setters, name=name)


def global_variables() -> list[Tensor]:
    """The variables in ``GLOBAL_VARIABLES`` of the default graph."""
    return get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES)


def trainable_variables() -> list[Tensor]:
    """The variables in ``TRAINABLE_VARIABLES`` of the default graph."""
    return get_default_graph().get_collection(GraphKeys.TRAINABLE_VARIABLES)


def global_variables_initializer() -> Operation:
    """An operation that gives every variable so far its first value."""
    return variables_initializer(needed("global_variables_initializer").get_collection(
        GraphKeys.GLOBAL_VARIABLES))  # fmt: skip


# Gradients


def gradients(ys: Any, xs: Any, grad_ys: Any = None) -> list[Tensor | None]:
    """Add nodes that compute the gradients of the sum of ``ys`` by each of ``xs``.

    Args:
        ys: A tensor or several.
        xs: A tensor or several: variables, placeholders, constants or values in between.
        grad_ys: What to start from, for each of ``ys``; ones if None.

    Returns:
        A gradient for each of ``xs``; None where ``ys`` do not depend on it.

    Raises:
        GradientError: One of ``ys`` has no gradient.
    """
    graph = needed("gradients")
    outputs = [ys] if isinstance(ys, Tensor) else list(ys)
    inputs = [xs] if isinstance(xs, Tensor) else list(xs)
    starts: list[Any] = [None] * len(outputs)
    if grad_ys is not None:
        starts = [grad_ys] if not isinstance(grad_ys, list | tuple) else list(grad_ys)
    for y in outputs:
        if y.dtype.kind not in "fV":
            raise GradientError(f"gradients: {y.dtype} has no gradient to sum", source=where())
    leaves = {id(each): each for each in inputs if each.edge is LEAF}
    between = {id(each): each for each in inputs if each.edge not in (None, LEAF)}
    with modes.recording(False), graph.backward() as differentiate:
        cts = []
        for y, given in zip(outputs, starts, strict=True):
            differentiate(y)
            cts.append(TRACED.ones_like(y) if given is None else start(y, given, True, "gradients"))
    ends = pull_many(
        outputs, cts, traced=True, create_graph=True, keep=True, targets=leaves, passed=between
    )
    found = {key: ct for key, (_, ct) in ends.items()}
    for each in inputs:
        if id(each) in found:
            graph.pair(each, found[id(each)])
    return [found.get(id(each)) for each in inputs]


def slot_variable(parameter: Tensor, path: str, dtype: Any, slot: str) -> Tensor:
    """A variable of the parameter's graph for an optimizer's state; it begins at 0."""
    data: Any = parameter.data
    with data.graph.as_default(), name_scope(f"optimizer/{path}/"):
        return variable(np.zeros(parameter.shape, dtype), slot, trainable=False)


def minimize(optimizer: Any, loss: Tensor, name: str = "train") -> Operation | None:
    """Compute gradients of ``loss`` and let ``optimizer`` use them.

    Returns:
        In a graph, the operation that does it, which is in the collection ``TRAIN_OP``, too.
        Eagerly None: it is done.
    """
    graph = building()
    if graph is None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return None
    found = gradients(loss, optimizer.parameters)
    if all(each is None for each in found):
        raise GradientError("minimize: the loss does not depend on any of the parameters",
                            source=where())  # fmt: skip
    for parameter_, gradient in zip(optimizer.parameters, found, strict=True):
        graph.write_grad(parameter_, gradient)
    with graph.updates() as nodes:
        optimizer.step()
    train = group(*(Operation(graph, node) for node in nodes), name=name)
    graph.add_to_collection(GraphKeys.TRAIN_OP, train)
    return train
