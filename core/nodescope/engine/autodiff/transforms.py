"""Transforms: calls a function with differentiable arguments, and pulls cotangents of results back.

Invariant: the function receives the transformation's own tensors as arguments, so that derivatives
nest; results can be differentiated again if they depend on a tensor that requires a gradient.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from nodescope.engine import dispatch_mode
from nodescope.engine.autodiff.backward import start
from nodescope.engine.autodiff.reach import aside, behind, leads_elsewhere
from nodescope.engine.autodiff.tape import TRACED, alias_of, held, pull, pull_many, separate
from nodescope.engine.losses import began
from nodescope.engine.source import where
from nodescope.engine.state import current
from nodescope.engine.tensor import LEAF, SMOOTH, Tensor, make, origin
from nodescope.engine.trees import Tree, flatten, map_leaves
from nodescope.errors import GradientError

Argnums = int | tuple[int, ...]


class DifferentiatedCall:
    """A function called with differentiable arguments.

    Attributes:
        result: The function's result.
        trees: The differentiable arguments as the function received them.
        leaves: Their tensors, in order.
        outer: Whether operations around the call are recorded.
    """

    __slots__ = ("leaves", "outer", "result", "trees")

    def __init__(
        self,
        f: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        argnums: Sequence[int] | None = None,
        *,
        name: str,
    ) -> None:
        self.outer = current().recording
        call_args = list(args)
        numbers = range(len(args)) if argnums is None else argnums
        self.leaves: list[Tensor] = []
        for number in numbers:
            if not -len(args) <= number < len(args):
                raise GradientError(
                    f"{name}: no argument {number}: called with {len(args)}", source=where()
                )
            call_args[number] = map_leaves(lambda leaf: self._own(leaf, name), args[number])
        self.trees = [call_args[number] for number in numbers]
        with dispatch_mode.recording(True), transforming():
            self.result = f(*call_args, **kwargs)
        self.leaves = [origin(leaf) for leaf in self.leaves]  # before `f` wrote to them

    def _own(self, leaf: Any, name: str) -> Tensor:
        if isinstance(leaf, Tensor):
            _check_smooth(leaf.data.dtype, name)
            owned = alias_of(leaf)
        else:
            data = np.array(leaf)
            _check_smooth(data.dtype, name)
            owned = make(data, LEAF)
        self.leaves.append(owned)
        return owned

    def pull(self, roots: Sequence[Tensor], cotangents: Sequence[Any], *, name: str,
             conjugate: bool = True, keep: bool = True) -> list[Tensor]:  # fmt: skip
        """The gradients with respect to the leaves; zeros for a leaf without influence.

        Args:
            roots: Tensors of the result.
            cotangents: One per root, in the user's convention if ``conjugate``; None means 1, for a
                scalar root.
            name: The name in messages.
            conjugate: Whether to convert between the user's convention for complex numbers and the
                tape's.
            keep: Whether the tape can be used again.
        """
        targets = {id(leaf): leaf for leaf in self.leaves}
        reached = behind(roots, lambda tensor: id(tensor) in targets)
        elsewhere = leads_elsewhere(reached, targets)
        follows = any(isinstance(ct, Tensor) and ct.edge is not None for ct in cotangents)
        again = self.outer and (elsewhere or follows)
        tracer = dispatch_mode.observer()
        traced = again or tracer is not None
        ends: dict[int, tuple[Tensor, Any]] = {}
        pairs = [pair for pair in zip(roots, cotangents, strict=True) if pair[0].edge is not None]
        if pairs:
            for root, ct in pairs:
                if ct is None:
                    began(root)
            with dispatch_mode.recording(again):
                cts = [start(root, ct, traced, name, conjugate) for root, ct in pairs]
            how: dict[str, Any] = {
                "traced": traced, "create_graph": again, "keep": keep or again,
                "targets": targets, "conjugate": conjugate,
                "skip": aside(reached, targets) if elsewhere else None,
            }  # fmt: skip
            if len(pairs) == 1:
                ends = pull(pairs[0][0], cts[0], **how)
            else:
                ends = pull_many([root for root, _ in pairs], cts, **how)
        seen = held(cts) if pairs else {}
        gradients = [
            separate(_tensor(ends[id(leaf)][1]), seen) if id(leaf) in ends else zeros_for(leaf)
            for leaf in self.leaves
        ]
        if tracer is not None:
            for leaf, gradient in zip(self.leaves, gradients, strict=True):
                tracer.pair(leaf, gradient)
        return gradients

    def like_arguments(self, gradients: Sequence[Any]) -> list[Tree]:
        """One value per leaf, in the structure of the arguments."""
        following = iter(gradients)
        return [map_leaves(lambda _: next(following), tree) for tree in self.trees]


@contextlib.contextmanager
def transforming() -> Iterator[None]:
    """A block that runs a function whose derivative is taken outside the block."""
    state = current()
    state.transforms += 1
    try:
        yield
    finally:
        state.transforms -= 1


def numbers_of(argnums: Argnums) -> tuple[int, ...]:
    """``argnums`` as a tuple."""
    return argnums if isinstance(argnums, tuple) else (argnums,)


def outputs_of(result: Tree, name: str) -> list[Tensor]:
    """The tensors in a function's result.

    Raises:
        GradientError: The result contains something else.
    """
    leaves, _ = flatten(result)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise GradientError(
                f"{name}: the function must return tensors, not {type(leaf).__name__}",
                source=where(),
            )
    return leaves


def zeros_for(leaf: Tensor) -> Tensor:
    """The gradient with respect to a leaf without influence."""
    return TRACED.zeros_like(leaf) if dispatch_mode.builder() else make(np.zeros_like(leaf.data))


def _tensor(ct: Any) -> Tensor:
    return ct if isinstance(ct, Tensor) else make(np.asarray(ct))


def _check_smooth(dtype: np.dtype[Any], name: str) -> None:
    if dtype.kind not in SMOOTH:
        raise GradientError(
            f"{name}: cannot differentiate with respect to an argument of {dtype}",
            source=where(),
            hint="convert it to floating point, or select the other arguments with argnums",
        )
