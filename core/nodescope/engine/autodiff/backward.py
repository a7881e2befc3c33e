"""`Tensor.backward`: gradients of one tensor, added to the leaves' ``.grad``.

Invariant: no array that the user holds is written to, or becomes a gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.engine import dispatch_mode
from nodescope.engine.autodiff.tape import Ends, held, pull, separate, store_all
from nodescope.engine.losses import began
from nodescope.engine.source import where
from nodescope.engine.tensor import SMOOTH, Tensor, make, operand
from nodescope.errors import DtypeError, GradientError, ShapeError


def backward(root: Tensor, gradient: Any, *, retain_graph: bool, create_graph: bool) -> None:
    """`Tensor.backward`."""
    if root.edge is None:
        raise GradientError(
            "backward: this tensor was not computed from one that requires a gradient",
            source=where(),
            hint="make parameters with nodescope.parameter or tensor(..., requires_grad=True), "
            "and compute outside no_grad",
        )
    traced = create_graph or dispatch_mode.observer() is not None
    ct = start(root, gradient, traced)
    if gradient is None:
        began(root, 3)
    seen = held([ct]) if gradient is not None else {}

    def add(ends: Ends, observed: Any, calls: Any) -> None:
        # Adding to the gradient of an earlier backward pass is part of this one.
        if observed is not None and dispatch_mode.observer() is not observed[0]:
            observed = calls = None  # a hook has ended the observation

        def store(leaf: Tensor, ct: Any) -> None:
            if observed is not None:
                observed[1](leaf)
            before = leaf.grad
            total = separate(ct, seen) if before is None else before + ct
            leaf.grad = total
            if observed is not None:
                observed[0].pair(leaf, total)

        store_all(ends, seen, calls, store)

    gradients = pull(
        root,
        ct,
        traced=traced,
        create_graph=create_graph,
        keep=retain_graph or create_graph,
        then=add,
    )
    if not traced:
        for leaf, ct in gradients.values():
            before = leaf.grad
            array = separate(np.asarray(ct), seen) if before is None else np.add(before.data, ct)
            leaf.grad = make(np.asarray(array))


def start(
    root: Tensor, gradient: Any, traced: bool, name: str = "backward", conjugate: bool = True
) -> Any:
    """The cotangent of ``root``: ones for a scalar, else what the user gave.

    Args:
        root: The tensor at which a pull starts.
        gradient: The user's gradient, or None.
        traced: Whether to return a tensor, or None for ones, instead of an array.
        name: Its name in messages.
        conjugate: Whether ``gradient`` is in the user's convention for complex numbers.
    """
    if root.data.dtype.kind not in SMOOTH:
        raise GradientError(f"{name}: {root.dtype} has no gradient", source=where())
    if gradient is None:
        if root.data.dtype.kind == "c":
            raise GradientError(
                f"{name}: a {root.dtype} tensor needs an initial gradient",
                source=where(),
                hint="make it real, as with np.abs or .real, or pass gradient=",
            )
        if root.data.ndim:
            raise GradientError(
                f"{name}: a tensor of shape {root.shape} needs an initial gradient",
                source=where(),
                hint="reduce it to a scalar, or pass gradient=",
            )
        return None if traced else np.array(1, root.dtype)
    seed = operand(gradient)
    if seed.__class__ is not Tensor:
        seed = make(np.array(gradient, root.dtype))
    elif not isinstance(gradient, Tensor):
        seed = make(np.array(seed.data))  # the caller may write to its array later
    if seed.shape != root.shape:
        raise ShapeError(
            f"{name}: gradient {seed.shape} does not have the tensor's shape {root.shape}",
            source=where(),
            hint="give one number per element of the tensor",
        )
    if seed.dtype.kind == "c" and root.dtype.kind != "c":
        raise DtypeError(
            f"{name}: a {seed.dtype} gradient for a {root.dtype} tensor",
            source=where(),
            hint="give its real part",
        )
    if seed.dtype != root.dtype:
        seed = seed.astype(root.dtype)
    if conjugate and root.dtype.kind == "c":
        seed = np.conjugate(seed)
    return seed if traced else seed.data
