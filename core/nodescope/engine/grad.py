"""Making tensors, and derivatives of functions.

Invariant: what `grad` returns can be differentiated again wherever it depends on something that
wants a gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.engine import modes
from nodescope.engine.backward import start
from nodescope.engine.run import apply
from nodescope.engine.source import where
from nodescope.engine.state import current
from nodescope.engine.tape import TRACED, alias_of, pull
from nodescope.engine.tensor import LEAF, NO_ATTRS, SMOOTH, Bundle, Tensor, alias, make, spec_of
from nodescope.errors import DtypeError, GradientError, ShapeError, UsageError
from nodescope.ir.scopes import join
from nodescope.ops.lowprecision import as_dtype

Tree = Any
"""A tensor, array or number, or lists, tuples and dicts of trees."""


def _array(data: Any, dtype: Any) -> np.ndarray[Any, Any]:
    if isinstance(data, Tensor):
        data = data.data
    return np.array(data, dtype=None if dtype is None else as_dtype(dtype))


def _name(name: str | None) -> str:
    if name is None:
        return ""
    if not isinstance(name, str) or not name.strip("/ "):
        raise UsageError(f"{name!r} is not a name", source=where(), hint="use a word such as 'w'")
    return join(current().scope, name.strip("/"))


def tensor(
    data: Any, dtype: Any = None, *, name: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Data as a tensor; a copy, so that later writes to ``data`` change nothing.

    Args:
        data: An array, number, or nested lists of numbers.
        dtype: NumPy dtype; what NumPy would choose if None.
        name: What the graph calls it, within the current scope.
        requires_grad: Whether `Tensor.backward` fills its ``.grad``.

    Raises:
        DtypeError: The data are not numbers, or want a gradient without being floating point.
    """
    found = make(_array(data, dtype), name=_name(name))
    if requires_grad:
        found.edge = _leaf(found)
    tracer = modes.observer()
    if tracer is not None:
        tracer.leaf(found)
    return found


def parameter(data: Any, dtype: Any = None, *, name: str) -> Tensor:
    """A tensor that training changes. It wants a gradient; optimizers replace its array.

    Raises:
        DtypeError: The data are not floating point.
    """
    found = make(_array(data, dtype), kind="parameter", name=_name(name))
    found.edge = _leaf(found)
    return found


def constant(data: Any, dtype: Any = None, *, name: str | None = None) -> Tensor:
    """Data as a tensor that no gradient flows into."""
    found = make(_array(data, dtype), kind="constant", name=_name(name))
    tracer = modes.observer()
    if tracer is not None:
        tracer.leaf(found)
    return found


def _leaf(tensor: Tensor) -> Any:
    if tensor.data.dtype.kind not in SMOOTH:
        raise DtypeError(
            f"a tensor of {tensor.dtype} cannot want a gradient",
            source=where(),
            hint="convert it to a floating-point dtype",
        )
    return LEAF


def stop_gradient(x: Any) -> Any:
    """The same value, through which no gradient flows."""
    return x.detach() if isinstance(x, Tensor) else x


def value_and_grad(
    f: Callable[..., Any], argnums: int | tuple[int, ...] = 0, *, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns ``(f(...), gradients)``.

    Args:
        f: Returns a scalar, or with ``has_aux`` a pair of a scalar and anything else.
        argnums: Which positional arguments to differentiate by. Each may be a tree of lists,
            tuples and dicts; its gradient has the same form.
        has_aux: ``f`` returns more than the scalar.

    Raises:
        GradientError: ``f`` does not return a scalar, or an argument is not floating point.
    """
    several = not isinstance(argnums, int)
    numbers: tuple[int, ...] = argnums if isinstance(argnums, tuple) else (argnums,)

    def differentiated(*args: Any, **kwargs: Any) -> Any:
        outer = current().recording
        given = list(args)
        leaves: list[Tensor] = []
        for number in numbers:
            if not -len(args) <= number < len(args):
                raise GradientError(
                    f"grad: no argument {number}: called with {len(args)}", source=where()
                )
            given[number] = _map(lambda leaf: _watched(leaf, leaves), args[number])
        with modes.recording(True):
            result = f(*given, **kwargs)
        value = result[0] if has_aux else result
        _check_scalar(value, has_aux)
        found = _gradients(value, leaves, outer)
        following = iter(found)
        trees = tuple(_map(lambda _: next(following), given[number]) for number in numbers)
        grads = trees if several else trees[0]
        return result, grads

    return differentiated


def grad(
    f: Callable[..., Any], argnums: int | tuple[int, ...] = 0, *, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns the gradient of ``f``; see `value_and_grad`.

    With ``has_aux`` it returns ``(gradient, aux)``.
    """
    both = value_and_grad(f, argnums, has_aux=has_aux)

    def differentiated(*args: Any, **kwargs: Any) -> Any:
        result, grads = both(*args, **kwargs)
        return (grads, result[1]) if has_aux else grads

    return differentiated


def _watched(leaf: Any, leaves: list[Tensor]) -> Tensor:
    if isinstance(leaf, Tensor):
        _check_float(leaf.data.dtype)
        found = alias_of(leaf)
    else:
        data = np.array(leaf)
        _check_float(data.dtype)
        found = make(data)
        found.edge = LEAF
    leaves.append(found)
    return found


def _check_float(dtype: np.dtype[Any]) -> None:
    if dtype.kind not in SMOOTH:
        raise GradientError(
            f"grad: cannot differentiate by an argument of {dtype}",
            source=where(),
            hint="convert it to floating point, or name the others with argnums",
        )


def _check_scalar(value: Any, has_aux: bool) -> None:
    if not isinstance(value, Tensor) or value.ndim:
        what = f"shape {value.shape}" if isinstance(value, Tensor) else type(value).__name__
        raise GradientError(
            f"grad: the function must return a scalar tensor, not {what}",
            source=where(),
            hint="reduce it, as with .sum()" if not has_aux else "return (scalar, aux)",
        )


def _gradients(value: Tensor, leaves: list[Tensor], outer: bool) -> list[Tensor]:
    targets = {id(leaf): leaf for leaf in leaves}
    reached: dict[int, tuple[Tensor, Any]] = {}
    tracer = modes.observer()
    again = outer and _wanted_elsewhere(value, targets)
    if value.edge is not None:
        traced = again or tracer is not None
        reached = pull(
            value, start(value, None, traced), traced=traced, create_graph=again, keep=again,
            targets=targets,
        )  # fmt: skip
    found = []
    for leaf in leaves:
        if id(leaf) in reached:
            ct = reached[id(leaf)][1]
            gradient = ct if isinstance(ct, Tensor) else make(np.asarray(ct))
        else:
            gradient = (
                TRACED.zeros_like(leaf) if modes.builder() else make(np.zeros_like(leaf.data))
            )
        if tracer is not None:
            tracer.pair(leaf, gradient)
        found.append(gradient)
    return found


_LINKS = (Tensor, Bundle)  # what an edge leads to


def _wanted_elsewhere(value: Tensor, targets: dict[int, Tensor]) -> bool:
    """Whether anything beside or behind the targets wants a gradient."""
    seen = {id(value)}
    todo: list[Any] = [value]
    while todo:
        edge = todo.pop().edge
        if edge is None:
            continue
        for each in edge[2]:
            if each.__class__ in _LINKS and each.edge is not None and id(each) not in seen:
                if id(each) in targets:
                    if each.edge is not LEAF:
                        return True  # an alias of something that wants a gradient
                    continue
                if each.edge is LEAF:
                    return True
                seen.add(id(each))
                todo.append(each)
    return False


def _map(f: Callable[[Any], Any], tree: Tree) -> Tree:
    """``f`` over the leaves of a tree, in order."""
    if isinstance(tree, dict):
        return {key: _map(f, each) for key, each in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(_map(f, each) for each in tree))
    if isinstance(tree, list | tuple):
        return type(tree)(_map(f, each) for each in tree)
    return f(tree)


def tree_leaves(tree: Tree) -> Iterable[Any]:
    """The leaves of a tree, in order."""
    found: list[Any] = []
    _map(found.append, tree)
    return found


def store(target: Tensor, assigned: Tensor) -> None:
    """Give ``target`` the array that an ``assign`` node made. A graph being built notes it."""
    if modes.builder() is None:
        target.data = assigned.data
        if modes.observer() is not None:
            target._vid = assigned._vid


def assign(target: Tensor, value: Any) -> None:
    """Give a parameter a new array. Old tensors made from it keep the old numbers.

    Raises:
        ShapeError: The shapes differ.
        UsageError: ``target`` was computed, so it cannot be given a value.
    """
    if target.edge is not LEAF and getattr(target, "_kind", "") != "parameter":
        raise UsageError(
            "assign: only parameters can be assigned to", source=where(), hint="make a new tensor"
        )
    # A copy, so that later writes to an array that the user gave change nothing.
    new = alias(value) if isinstance(value, Tensor) else make(np.array(value), kind="constant")
    op = ops.get("assign")
    try:
        op.infer((spec_of(target), spec_of(new)), NO_ATTRS)
    except ShapeError as error:
        raise ShapeError(error.message, source=where()) from None
    with modes.recording(False):
        store(target, apply(op, (target, new), NO_ATTRS))
