"""Functions as linear maps: vjp pulls cotangents back, jvp pushes tangents forward.

A rule is linear in its cotangent, so the derivative of a pulled cotangent by the cotangent is the
pushed tangent: jvp is exact, needs no rules of its own, and works for every op whose gradient can
itself be differentiated. It costs two backward passes, the second through the first.

Invariant: a tangent has the shape and dtype of its primal, a cotangent those of its output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nodescope.engine import dispatch_mode
from nodescope.engine.autodiff.backward import start
from nodescope.engine.autodiff.reach import aside, behind, leads_elsewhere
from nodescope.engine.autodiff.tape import TRACED, pull_many
from nodescope.engine.autodiff.transforms import DifferentiatedCall, outputs_of, zeros_for
from nodescope.engine.source import where
from nodescope.engine.tensor import LEAF, SMOOTH, Tensor, alias, make, operand
from nodescope.engine.trees import Tree, difference, flatten, unflatten
from nodescope.errors import DtypeError, GradientError, ShapeError


def vjp(f: Callable[..., Any], *primals: Tree, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of a function, and a function that pulls cotangents back through it (``jax.vjp``).

    Args:
        f: Takes the primals, returns a tree of tensors; with ``has_aux``, a pair of that and
            anything else.
        primals: Trees of floating-point tensors, arrays or numbers.
        has_aux: ``f`` also returns auxiliary data.

    Returns:
        ``(value, pull)`` or ``(value, pull, aux)``. ``pull`` takes a tree like ``value`` and
        returns a tuple with a tree like each primal. It can be called any number of times. For
        complex tensors, it follows `Tensor.backward`: ``J^H ct``.

    Raises:
        GradientError: A primal is not floating point, ``f`` returns something other than tensors,
            or a cotangent does not match.
    """
    call = DifferentiatedCall(f, primals, {}, name="vjp")
    value = call.result[0] if has_aux else call.result
    outputs = outputs_of(value, "vjp")
    form = flatten(value)[1]

    def pullback(cotangent: Tree) -> tuple[Any, ...]:
        cotangents, structure = flatten(cotangent)
        if structure != form:
            raise GradientError(
                f"vjp: the cotangent does not have the structure of the value: "
                f"{difference(form, structure)}",
                source=where(),
            )
        pairs = [
            (root, ct)
            for root, ct in zip(outputs, cotangents, strict=True)
            if root.data.dtype.kind in SMOOTH
        ]
        gradients = call.pull([root for root, _ in pairs], [ct for _, ct in pairs], name="vjp")
        return tuple(call.like_arguments(gradients))

    shown = _shown(value)
    return (shown, pullback, call.result[1]) if has_aux else (shown, pullback)


def linearize(f: Callable[..., Any], *primals: Tree) -> tuple[Any, Callable[..., Any]]:
    """The value of a function, and its derivative at that point as a function (``jax.linearize``).

    Returns:
        ``(value, push)``; ``push`` takes one tangent per primal and returns a tree like ``value``.
        It can be called any number of times.

    Raises:
        GradientError: As for `vjp`.
        ShapeError, DtypeError: A tangent does not match its primal.
    """
    call = DifferentiatedCall(f, primals, {}, name="jvp")
    outputs = outputs_of(call.result, "jvp")
    form = flatten(call.result)[1]
    targets = {id(leaf): leaf for leaf in call.leaves}
    moving = [output for output in outputs if output.edge is not None]
    elsewhere = leads_elsewhere(behind(moving, lambda tensor: id(tensor) in targets), targets)
    # Any cotangents will do: the pulled ones are linear in them, and only their history matters.
    dummies = [TRACED.ones_like(tensor) for tensor in moving]
    for dummy in dummies:
        dummy.edge = LEAF
    pulled_back = {}
    if moving:
        with np.errstate(all="ignore"):
            pulled_back = pull_many(
                moving, dummies, traced=True, create_graph=True, keep=True, targets=targets,
                conjugate=False,
            )  # fmt: skip
    pulled = [pulled_back[id(leaf)][1] if id(leaf) in pulled_back else None for leaf in call.leaves]

    def push(*tangents: Tree) -> Any:
        tangent_leaves = _tangents(call, tangents)
        pairs = [
            (root, tangent)
            for root, tangent in zip(pulled, tangent_leaves, strict=True)
            if root is not None and root.edge is not None
        ]
        again = call.outer and (elsewhere or any(tensor.edge is not None for _, tensor in pairs))
        traced = again or dispatch_mode.observer() is not None
        by_id = {id(dummy): dummy for dummy in dummies}
        reached = {}
        if pairs:
            with dispatch_mode.recording(again):
                cts = [
                    start(root, tangent, traced, "jvp", conjugate=False) for root, tangent in pairs
                ]
            roots = [root for root, _ in pairs]
            reached = pull_many(
                roots, cts, traced=traced, create_graph=again, keep=True, targets=by_id,
                skip=aside(behind(roots, lambda tensor: id(tensor) in by_id), by_id),
                conjugate=False,
            )  # fmt: skip
        of = {
            id(tensor): reached[id(dummy)][1]
            for tensor, dummy in zip(moving, dummies, strict=True)
            if id(dummy) in reached
        }
        results = [of.get(id(output)) for output in outputs]
        return unflatten(
            form,
            [
                zeros_for(output) if result is None
                else result if isinstance(result, Tensor) else make(np.asarray(result))
                for output, result in zip(outputs, results, strict=True)
            ],
        )  # fmt: skip

    return _shown(call.result), push


def jvp(f: Callable[..., Any], primals: Sequence[Tree], tangents: Sequence[Tree]) -> Any:
    """The value of a function and its derivative in a direction (``jax.jvp``).

    It is exact: two backward passes, see the module's note.

    Args:
        f: Takes the primals, returns a tree of tensors.
        primals: The arguments, a tuple or list.
        tangents: The direction: a tree like each primal.

    Returns:
        ``(value, tangent)``, trees of the same structure. The tangent of an output that is not
        floating point is zero.

    Raises:
        GradientError, ShapeError, DtypeError: As for `linearize`.
    """
    for name, values in (("primals", primals), ("tangents", tangents)):
        if not isinstance(values, tuple | list):
            raise GradientError(
                f"jvp: {name} must be a tuple, one per argument, not {type(values).__name__}",
                source=where(),
                hint=f"write ({name[:-1]},)",
            )
    value, push = linearize(f, *primals)
    return value, push(*tangents)


def _tangents(call: DifferentiatedCall, tangents: tuple[Tree, ...]) -> list[Tensor]:
    tangent_leaves, form = flatten(list(tangents))
    primal_form = flatten(call.trees)[1]
    if form != primal_form:
        raise GradientError(
            f"jvp: the tangents do not have the structure of the primals: "
            f"{difference(primal_form, form)}",
            source=where(),
        )
    checked = []
    for leaf, value in zip(call.leaves, tangent_leaves, strict=True):
        tangent = operand(value)
        if tangent.__class__ is not Tensor:
            tangent = make(np.asarray(value, None if tangent is None else leaf.dtype))
        if tangent.shape != leaf.shape:
            raise ShapeError(
                f"jvp: a tangent of shape {tangent.shape} for a primal of {leaf.shape}",
                source=where(),
            )
        if tangent.dtype.kind == "c" and leaf.dtype.kind != "c":
            raise DtypeError(
                f"jvp: a {tangent.dtype} tangent for a {leaf.dtype} primal", source=where()
            )
        checked.append(tangent if tangent.dtype == leaf.dtype else tangent.astype(leaf.dtype))
    return checked


def _shown(result: Tree) -> Tree:
    """Aliases of the result's tensors for the caller, who may change them without breaking the
    map.
    """
    leaves, form = flatten(result)
    return unflatten(form, [alias(leaf, leaf.edge) for leaf in leaves])
