"""Functions with custom gradients: `custom_vjp` in JAX's form, `custom_gradient` in TensorFlow's.

The forward function runs as any other code does, so its operations are nodes. Its results get one
link to the function's arguments on the tape, in place of their history.

Invariant: no cotangent is lost silently: a tensor that the function uses without taking it as an
argument must not require a gradient, and the backward function's results match the arguments.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.engine import dispatch_mode
from nodescope.engine.autodiff.reach import behind
from nodescope.engine.autodiff.tape import alias_of
from nodescope.engine.source import defined, where
from nodescope.engine.state import current
from nodescope.engine.symbolic import Abstract
from nodescope.engine.tensor import (
    PICK,
    SMOOTH,
    Bundle,
    Edge,
    Tensor,
    alias,
    make,
    next_seq,
    operand,
    origin,
    settled,
)
from nodescope.engine.trees import Structure, difference, flatten, unflatten
from nodescope.errors import DtypeError, GradientError, ShapeError, UsageError
from nodescope.ops.op import Op


class custom_vjp:
    """A decorator for a function with a custom gradient (``jax.custom_vjp``).

        @ns.custom_vjp
        def clipped(x, limit):
            return x

        @clipped.defvjp
        def gradient(ct, x, limit):
            return np.clip(ct, -limit, limit), None

    Or with two functions, ``clipped.defvjp(forward, backward)``: ``forward`` takes the arguments
    and returns ``(output, residuals)``; ``backward`` takes ``(residuals, ct)``, preceded by the
    arguments of ``nondiff_argnums``. It returns a tuple with a tree like each other argument, or
    None for an argument that no gradient flows to. A single function takes the cotangent of the
    output and all arguments, and returns the same as ``backward``.

    Arguments are trees of tensors, arrays and numbers; cotangents of complex tensors follow
    `Tensor.backward`. Higher derivatives differentiate both functions as written.

    Args:
        f: The function. It is called directly where no gradient is required.
        nondiff_argnums: Positions of arguments that are not numbers, such as functions.

    Raises:
        UsageError: When called: no gradient has been defined yet.
        GradientError: When called: the function uses a tensor that requires a gradient and is not
            an argument. In the backward pass: the backward function's result does not match.
    """

    def __init__(self, f: Callable[..., Any], nondiff_argnums: tuple[int, ...] = ()) -> None:
        functools.update_wrapper(self, f)
        self._f = f
        self._fixed = tuple(nondiff_argnums)
        self._forward: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None

    def defvjp(
        self, forward: Callable[..., Any], backward: Callable[..., Any] | None = None
    ) -> Any:
        """Set the gradient, as one function or two; see the class.

        Returns:
            ``forward``, so that this can be used as a decorator.
        """
        if backward is not None:
            self._forward, self._backward = forward, backward
            return forward

        def kept(*args: Any) -> Any:
            return self._f(*args), args

        @functools.wraps(forward)
        def pulled(*arguments: Any) -> Any:
            *_, args, ct = arguments
            return forward(ct, *args)

        self._forward, self._backward = kept, pulled
        return forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        name = getattr(self._f, "__name__", "f")
        if self._forward is None or self._backward is None:
            raise UsageError(
                f"custom_vjp: {name} has no gradient yet",
                source=where(),
                hint="define it with f.defvjp(forward, backward)",
            )
        if kwargs:
            args = _positional(self._f, args, kwargs)
        fixed = {number % len(args) for number in self._fixed} if args else set()
        numbers = [number for number in range(len(args)) if number not in fixed]
        leaves, form = flatten([args[number] for number in numbers])
        leaves = [settled(leaf) for leaf in leaves]
        if not current().recording or not any(map(_wants, leaves)):
            return self._f(*args)
        begin = next_seq()
        own = [alias_of(leaf) if _wants(leaf) else leaf for leaf in leaves]
        filled_args = list(args)
        for number, tree in zip(numbers, unflatten(form, own), strict=True):
            filled_args[number] = tree
        answer = self._forward(*filled_args)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise GradientError(
                f"custom_vjp: the forward function of {name} must return (output, residuals)",
                source=defined(self._forward),
            )
        outputs, output = flatten(answer[0])
        outputs = [settled(value) for value in outputs]
        _check_closed(outputs, own, begin, name)
        call = functools.partial(self._backward, *(args[n] for n in sorted(fixed)), answer[1])
        backward = _Backward(call, self._backward, name, form, leaves, output, outputs)
        return unflatten(output, _linked(outputs, leaves, backward))


def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator for a function with a custom gradient (``tf.custom_gradient``).

    Args:
        f: Takes trees of tensors and returns ``(output, gradient)``, where ``gradient`` takes one
            cotangent per tensor of the output and returns the cotangent of the only argument, or a
            tuple with one per argument; None where no gradient flows.

    Raises:
        GradientError: As for `custom_vjp`.
    """

    @functools.wraps(f)
    def value(*args: Any) -> Any:
        return f(*args)[0]

    def forward(*args: Any) -> Any:
        output, gradient = f(*args)
        return output, (gradient, len(args))

    @functools.wraps(f)
    def backward(residuals: Any, ct: Any) -> Any:
        gradient, count = residuals
        answer = gradient(*flatten(ct)[0])
        return (answer,) if count == 1 and not isinstance(answer, tuple) else answer

    custom = custom_vjp(value)
    custom.defvjp(forward, backward)
    return functools.wraps(f)(lambda *args, **kwargs: custom(*args, **kwargs))


def _positional(f: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> tuple[Any, ...]:
    bound = inspect.signature(f).bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise UsageError(
            f"custom_vjp: {sorted(bound.kwargs)} can only be given by keyword",
            source=where(),
            hint="make them positional, named in nondiff_argnums if they are not numbers",
        )
    return bound.args


def _wants(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.edge is not None


def _check_closed(outputs: list[Any], own: list[Any], begin: int, name: str) -> None:
    """Refuse outputs that depend on another tensor that requires a gradient, which would get
    none.
    """
    inside = {id(origin(root)) for root in own}
    roots = [output for output in outputs if isinstance(output, Tensor)]
    reached = behind(roots, lambda tensor: id(tensor) in inside or tensor.edge[0] < begin)
    for key, tensor in reached.items():
        if key not in inside and tensor.edge[0] < begin:
            name_of_tensor = getattr(tensor, "name", "") or "a tensor"
            raise GradientError(
                f"custom_vjp: {name} uses {name_of_tensor}, which wants a gradient and is not "
                "one of its arguments",
                source=where(),
                hint="make it an argument, or use nodescope.stop_gradient(it) inside",
            )


def _linked(outputs: list[Any], leaves: list[Any], backward: _Backward) -> list[Any]:
    """The outputs, with an edge to the arguments in place of their history."""
    linked = [output for output in outputs if isinstance(output, Tensor)]
    inputs = tuple(filter(_wants, leaves))
    edge: Edge = (next_seq(), CUSTOM, inputs, {"backward": backward})
    ids = tuple(_value_of(tensor) for tensor in linked)
    bundle = Bundle(tuple(tensor.data for tensor in linked), edge, ids)
    ports = iter(range(len(linked)))
    results = []
    for value in outputs:
        if not isinstance(value, Tensor):
            results.append(value)
            continue
        link: Edge = (next_seq(), PICK, (bundle,), {"port": next(ports)})
        results.append(alias(value, link if value.data.dtype.kind in SMOOTH else None))
    return results


def _value_of(tensor: Tensor) -> int:
    data: Any = tensor.data
    return data.value if data.__class__ is Abstract else getattr(tensor, "_vid", 0)


class _Backward:
    """Pulls cotangents of a custom function's outputs back to its arguments.

    Attributes:
        call: The backward function, which takes the cotangent as a tree like the output.
        written: The user's function, for messages.
        name: Its name in messages.
        arguments: Structure of the list of arguments.
        likes: Shape and dtype of each leaf of the arguments that is a tensor.
        requires: Whether each leaf requires a gradient.
        output: Structure of the output.
        places: For each leaf of the output, whether a cotangent arrives; 0 stands for the others.
    """

    def __init__(
        self, call: Callable[..., Any], written: Any, name: str, arguments: Structure,
        leaves: list[Any], output: Structure, outputs: list[Any],
    ) -> None:  # fmt: skip
        self.call = call
        self.written = written
        self.name = f"custom_vjp: the backward function of {name}"
        self.arguments = arguments
        self.likes = [
            (leaf.shape, leaf.dtype) if isinstance(leaf, Tensor) else None for leaf in leaves
        ]
        self.requires = [_wants(leaf) for leaf in leaves]
        self.output = output
        self.places = [isinstance(value, Tensor) for value in outputs]

    def __call__(self, F: Any, cts: Any) -> list[Any]:
        """The cotangents of the argument tensors that require one."""
        raw = F is ops.RAW
        following = iter([make(np.asarray(ct)) if raw else ct for ct in cts])
        with dispatch_mode.recording(False) if raw else contextlib.nullcontext():
            cotangents = [_turned(next(following)) if place else 0.0 for place in self.places]
            leaves = self._leaves(self.call(unflatten(self.output, cotangents)))
            gradients = [
                _turned(self._fitting(ct, *like)) if like and ct is not None else None
                for ct, like, required in zip(leaves, self.likes, self.requires, strict=True)
                if required
            ]
        return [
            gradient.data if raw and gradient is not None else gradient for gradient in gradients
        ]

    def _leaves(self, answer: Any) -> list[Any]:
        """One cotangent per leaf of the arguments, or None."""
        trees = self.arguments.children
        if isinstance(answer, list):
            answer = tuple(answer)
        if not isinstance(answer, tuple) or len(answer) != len(trees):
            answered = str(len(answer)) if isinstance(answer, tuple) else type(answer).__name__
            raise GradientError(
                f"{self.name} must return a tuple of {len(trees)}, one per argument, "
                f"not {answered}",
                source=defined(self.written),
                hint="return None for an argument that no gradient flows to",
            )
        leaves: list[Any] = []
        for number, (tree, form) in enumerate(zip(answer, trees, strict=True)):
            if tree is None:
                leaves.extend([None] * form.size)
                continue
            part_leaves, structure = flatten(tree)
            if structure != form:
                raise GradientError(
                    f"{self.name}: what it returned for argument {number} is not "
                    "a tree of the same structure: "
                    f"{difference(form, structure)}",
                    source=defined(self.written),
                )
            leaves.extend(part_leaves)
        return leaves

    def _fitting(self, ct: Any, shape: tuple[int, ...], dtype: Any) -> Tensor:
        cotangent = operand(ct)
        if cotangent is None:
            raise GradientError(
                f"{self.name} returned a {type(ct).__name__} as a cotangent",
                source=defined(self.written),
            )
        if cotangent.__class__ is not Tensor:
            cotangent = make(np.asarray(cotangent))
        if cotangent.shape != shape:
            raise ShapeError(
                f"{self.name} returned a cotangent of shape {cotangent.shape} for an argument of "
                f"{shape}",
                source=defined(self.written),
                hint="sum over the broadcast axes",
            )
        if cotangent.dtype.kind == "c" and dtype.kind != "c":
            raise DtypeError(
                f"{self.name} returned a {cotangent.dtype} cotangent for a {dtype} argument",
                source=defined(self.written),
                hint="take its real part",
            )
        return cotangent if cotangent.dtype == dtype else cotangent.astype(dtype)


def _turned(ct: Any) -> Any:
    """A cotangent converted between the tape's and the user's convention for complex numbers."""
    return np.conjugate(ct) if ct.dtype.kind == "c" else ct


CUSTOM = Op(
    name="custom",
    family="layout",
    infer=lambda specs, attrs: (),
    impl=lambda *arrays, **_: arrays,
    vjp=(lambda F, ct, out, *inputs, backward: backward(F, ct),),
    variadic=True,
    joint=True,
    outputs=0,
)
"""Outputs of a function with a custom gradient, as a function of its arguments. Not a node."""
