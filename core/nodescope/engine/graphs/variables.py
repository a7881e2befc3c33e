"""Variables of graphs built by hand: creating, initialising and changing them.

Invariant: in a graph, nothing is changed immediately; nodes are added that change a session's
values.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.emit.scopes import name_scope
from nodescope.engine import dispatch_mode
from nodescope.engine.autodiff import grad
from nodescope.engine.graphs.api import GraphKeys, building, group, needed
from nodescope.engine.graphs.graph import get_default_graph
from nodescope.engine.graphs.names import Variable, split_name
from nodescope.engine.graphs.operation import Operation
from nodescope.engine.run import apply
from nodescope.engine.source import assigned_to, where
from nodescope.engine.state import current
from nodescope.engine.tensor import (
    LEAF,
    NO_ATTRS,
    SMOOTH,
    Tensor,
    alias,
    check_dtype,
    make,
    operand,
    spec_of,
)
from nodescope.errors import DtypeError, ShapeError, UsageError


def variable(
    initial: Any,
    name: str = "variable",
    *,
    trainable: bool = True,
    collections: Sequence[str] | None = None,
    dtype: Any = None,
) -> Tensor:
    """A variable, whose value a session keeps between runs. Eagerly, a `parameter`.

    Args:
        initial: The initial value: an array, a number, a tensor of the graph, or a function that
            returns one. A session has it only after the initializer has run.
        trainable: Whether it is also in the collection ``TRAINABLE_VARIABLES``, if it has a
            floating-point dtype.
        collections: Names of the collections that it is added to; ``GLOBAL_VARIABLES`` if None.
    """
    graph = building()
    start_value = initial() if callable(initial) else initial
    if graph is None:
        return grad.parameter(start_value, dtype, name=name)
    label, scope = split_name(name, current().scope)
    if isinstance(start_value, Tensor):
        first = start_value
    else:
        array = np.array(start_value, dtype=dtype)
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
        tensor = graph.keep(node, spec, trainable=trainable, initializer=setter)
    keys = [GraphKeys.GLOBAL_VARIABLES] if collections is None else list(collections)
    if trainable and tensor.dtype.kind in SMOOTH:
        keys.append(GraphKeys.TRAINABLE_VARIABLES)
    graph.add_to_collections(keys, tensor)
    return tensor


def parameter(data: Any, dtype: Any = None, *, name: str | None = None) -> Tensor:
    """A trainable tensor. It requires a gradient; optimizers replace its array.

    In a graph it is a trainable `variable`.

    Args:
        data: An array, a number or nested lists.
        dtype: A floating-point dtype; that of the data if None.
        name: Its name in the graph; None for the name of the variable that it is assigned to
            (``w`` for ``self.w = nodescope.parameter(...)``), or else ``parameter``. Later ones of
            the same name are ``w_1``, ``w_2`` and so on.

    Raises:
        DtypeError: The data are not floating point.
    """
    if name is None:
        name = assigned_to(sys._getframe(1)) or "parameter"
        if building() is None:  # a graph has its own counter
            count = next(_unnamed.setdefault(name, itertools.count()))
            name = f"{name}_{count}" if count else name
    if building() is None:
        return grad.parameter(data, dtype, name=name)
    tensor = variable(data, name.strip("/"), dtype=dtype)
    if tensor.edge is not LEAF:
        raise DtypeError(f"a tensor of {tensor.dtype} cannot require a gradient", source=where(),
                         hint="convert it to a floating-point dtype")  # fmt: skip
    return tensor


_unnamed: dict[str, Iterator[int]] = {}
"""Number of unnamed parameters by the name that they were given."""


def _variable(tensor: Tensor) -> Variable:
    graph = needed("variable")
    variable_ = graph.variables.get(graph.value_here(tensor))
    if variable_ is None:
        raise UsageError(f"{tensor.name or 'a tensor'} is not a variable of this graph",
                         source=where())  # fmt: skip
    return variable_


def _update(op: str, target: Tensor, value: Any) -> Any:
    new = value if isinstance(value, Tensor) else operand(np.asarray(value))
    assert new is not None
    if building() is None:
        infer = ops.get(op).infer
        try:
            infer((spec_of(target), spec_of(new)), {})
        except (ShapeError, DtypeError) as error:
            error.source = where()
            raise
        # As two nodes, so that a compiled function records what happens on each call.
        with dispatch_mode.recording(False):
            change: Any = alias(new)
            if change.dtype != target.dtype:
                change = change.astype(target.dtype)
            ufunc = ops.get("add" if op == "assign_add" else "subtract")
            changed = apply(ufunc, (target, change), NO_ATTRS)
        return grad.assign(target, changed)
    with dispatch_mode.recording(False):
        return apply(ops.get(op), (target, alias(new)), NO_ATTRS)


def assign(target: Tensor, value: Any) -> Any:
    """Assign a new value to a variable or parameter.

    Returns:
        In a graph, a tensor that has the new value once it has run. Eagerly, None, after the
        change.

    Raises:
        ShapeError: The shapes differ.
        UsageError: ``target`` is a computed tensor, which cannot be assigned to.
    """
    return grad.assign(target, value) if building() is None else _update("assign", target, value)


def assign_add(target: Tensor, value: Any) -> Any:
    """Add to a variable or parameter; see `assign`. Atomic across threads."""
    return _update("assign_add", target, value)


def assign_sub(target: Tensor, value: Any) -> Any:
    """Subtract from a variable or parameter; see `assign_add`."""
    return _update("assign_sub", target, value)


def variables_initializer(variables: Iterable[Tensor], name: str = "init") -> Operation:
    """An operation that assigns their initial values to these variables."""
    graph = needed("variables_initializer")
    setters = [
        Operation(graph, graph.nodes[variable_.initializer - 1])
        for variable_ in map(_variable, variables)
        if variable_.initializer
    ]
    return group(*setters, name=name)


def global_variables() -> list[Tensor]:
    """The variables in ``GLOBAL_VARIABLES`` of the default graph."""
    return get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES)


def trainable_variables() -> list[Tensor]:
    """The variables in ``TRAINABLE_VARIABLES`` of the default graph."""
    return get_default_graph().get_collection(GraphKeys.TRAINABLE_VARIABLES)


def global_variables_initializer() -> Operation:
    """An operation that assigns their initial values to all variables defined so far."""
    return variables_initializer(needed("global_variables_initializer").get_collection(
        GraphKeys.GLOBAL_VARIABLES))  # fmt: skip


def slot_variable(parameter: Tensor, path: str, dtype: Any, slot: str) -> Tensor:
    """A variable in the parameter's graph for an optimizer's state, initially 0."""
    data: Any = parameter.data
    with data.graph.as_default(), name_scope(f"optimizer/{path}/"):
        return variable(np.zeros(parameter.shape, dtype), slot, trainable=False)
