"""Checkpointing: recompute instead of keeping intermediate results for the gradient.

`checkpoint(f)` runs ``f``, drops intermediate results, and leaves one link on the tape, from its
results to the outside tensors that they depend on. When a cotangent arrives there, ``f`` runs again
and its fresh history replaces the link, as if it had been there all along.

Invariant: gradients are bit-identical to those without checkpoints; the second run reads the same
values as the first, even if ``f`` changes state (generators, running means), and changes nothing.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from nodescope.emit.phases import recompute_phase
from nodescope.engine import dispatch_mode
from nodescope.engine.autodiff.reach import behind
from nodescope.engine.source import defined, where
from nodescope.engine.state import current
from nodescope.engine.symbolic import Abstract
from nodescope.engine.tensor import (
    LEAF,
    PICK,
    Bundle,
    Edge,
    Tensor,
    Written,
    alias,
    changed,
    next_seq,
    settled,
    written_at,
)
from nodescope.engine.trees import Structure, flatten, unflatten
from nodescope.errors import GradientError
from nodescope.ops.op import Op

Function = TypeVar("Function", bound=Callable[..., Any])


def checkpoint(f: Function) -> Function:
    """``f``, keeping only its inputs for the backward pass (``jax.checkpoint``). Also a decorator.

    Its operations run again in the backward pass, as nodes of phase ``recompute``. A chain of n
    operations, checkpointed in pieces of sqrt(n), needs memory for about 2 sqrt(n) of them.

    Args:
        f: Takes anything, returns a tree. Tensors that it captures get their gradients, too. It
            must do the same each time for the same values; random draws, including those from a
            `Generator`, are repeated.

    Raises:
        GradientError: In the backward pass, ``f`` behaved differently from the first time.
    """

    @functools.wraps(f)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        state = current()
        if not state.recording:
            return f(*args, **kwargs)
        begin = next_seq()
        writes = _Writes()
        with writes.noting():
            result = f(*args, **kwargs)
        leaves, form = flatten(result)
        leaves = [settled(leaf) for leaf in leaves]
        made_tensors = [
            leaf
            for leaf in leaves
            if isinstance(leaf, Tensor) and leaf.edge is not None and leaf.edge[0] > begin
        ]
        if not made_tensors:
            return result
        reached = behind(made_tensors, lambda tensor: tensor.edge[0] < begin)
        sources = tuple(tensor for tensor in reached.values() if tensor.edge[0] < begin)
        arguments = [tensor for tensor in flatten([args, kwargs])[0] if isinstance(tensor, Tensor)]
        writes.keep(tensor for tensor in (*sources, *arguments) if isinstance(tensor, Tensor))
        run = functools.partial(f, *args, **kwargs)
        again = _Again(run, f, state.scope, writes, form, leaves)
        edge: Edge = (next_seq(), CHECKPOINT, sources, {"unfold": again})
        bundle = Bundle(
            tuple(tensor.data for tensor in made_tensors), edge, tuple(map(_value_of, made_tensors))
        )
        linked_outputs: list[Any] = []
        for leaf in leaves:
            if isinstance(leaf, Tensor) and leaf.edge is not None and leaf.edge[0] > begin:
                link: Edge = (next_seq(), PICK, (bundle,), {"port": len(again.ports)})
                again.ports.append(len(linked_outputs))
                linked_outputs.append(alias(leaf, link))
            else:
                linked_outputs.append(leaf)
        return unflatten(form, linked_outputs)

    return checkpointed  # type: ignore[return-value]


class _Again:
    """Runs a function again when cotangents of its results arrive.

    Attributes:
        run: The function with its arguments.
        written: The user's function, for messages.
        scope: The scope that it ran in.
        writes: The tensors that it assigned or wrote to.
        form: Structure of its result.
        specs: Shape and dtype of each leaf, None if it is not a tensor.
        ports: The leaf at each port of the bundle.
    """

    def __init__(
        self, run: Callable[[], Any], written: Any, scope: str, writes: _Writes, form: Structure,
        leaves: list[Any],
    ) -> None:  # fmt: skip
        self.run = run
        self.written = written
        self.scope = scope
        self.writes = writes
        self.form = form
        self.specs = [_spec(leaf) for leaf in leaves]
        self.ports: list[int] = []

    def __call__(self, F: Any, bundle: Bundle, parts: list[Any]) -> list[tuple[Tensor, Any]]:
        """The results with their history, and the cotangents that arrived."""
        assert bundle.edge is not None
        then, _, sources, _ = bundle.edge
        for source in sources:
            if (
                isinstance(source, Tensor)
                and source.edge is LEAF
                and getattr(source, "_history", 0) > then
            ):
                raise GradientError(
                    f"checkpoint: the leaf {source.name!r} has changed since "
                    f"{getattr(self.written, '__name__', 'f')} used it, which has to run again",
                    source=where(),
                    hint="call backward before changing the leaf",
                )
        with (
            recompute_phase(current(), self.scope),
            dispatch_mode.recording(True),
            self.writes.undone(),
        ):
            result = self.run()
        leaves, form = flatten(result)
        leaves = [settled(leaf) for leaf in leaves]
        if form != self.form or [_spec(leaf) for leaf in leaves] != self.specs:
            raise self._other("different shapes or dtypes")
        pairs = []
        for port, ct in zip(self.ports, parts, strict=True):
            if ct is None:
                continue
            if leaves[port].edge is None:
                raise self._other("a result that requires no gradient")
            pairs.append((leaves[port], ct))
        return pairs

    def _other(self, reason: str) -> GradientError:
        name = getattr(self.written, "__name__", "f")
        return GradientError(
            f"checkpoint: {name} returned {reason} when it was rerun",
            source=defined(self.written),
            hint="it may depend only on its arguments and on tensors",
        )


class _Writes:
    """Tensors that a function assigned or wrote to, with their previous state.

    Attributes:
        before: The tensors with their states, by ``id``.
    """

    def __init__(self) -> None:
        self.before: dict[int, tuple[Tensor, Any]] = {}

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        """Note assignments and writes inside the block."""
        state = current()
        around = state.noted

        def noted(target: Tensor) -> None:
            if id(target) not in self.before:
                self.before[id(target)] = (target, _state_of(target))
            if around is not None:
                around(target)

        state.noted = noted
        try:
            yield
        finally:
            state.noted = around

    def keep(self, tensors: Iterable[Tensor]) -> None:
        """Note computed tensors and constants that the function reads; they may change later."""
        for tensor in tensors:
            if tensor.edge is not LEAF and id(tensor) not in self.before:
                self.before[id(tensor)] = (tensor, _state_of(tensor))

    @contextlib.contextmanager
    def undone(self) -> Iterator[None]:
        """Restore the earlier state of all tensors inside the block; afterwards, the current
        one.
        """
        later = _Writes()
        for key, (target, state) in self.before.items():
            now = _state_of(target)
            if not _same(now, state):
                later.before[key] = (target, now)
                _put(target, state)
        try:
            # A rerun that takes another branch may write to more tensors, which are restored as
            # well.
            with later.noting():
                yield
        finally:
            for target, state in later.before.values():
                _put(target, state)
                # Operations inside have read other elements than the current ones, as after any
                # write.
                written_at[0] = next_seq()
                if target.__class__ is Tensor:
                    changed(target)


_NOTHING: Any = None
_SLOTS = ("data", "edge", "_vid", "_history")


def _state_of(target: Tensor) -> Any:
    history = getattr(target, "_history", None)
    builder = dispatch_mode.builder()
    now = None if builder is None else builder.known(target)
    if target.__class__ is Written:
        return Written, {"_history": history}, now
    return Tensor, {slot: getattr(target, slot) for slot in _SLOTS if hasattr(target, slot)}, now


def _same(first: Any, other: Any) -> bool:
    slots = [tuple(state[1].get(slot) for slot in ("data", "edge")) for state in (first, other)]
    written = first[0] is Written and first[1]["_history"] is not other[1].get("_history")
    return (
        first[0] is other[0]
        and all(a is b for a, b in zip(*slots, strict=True))
        and not written
        and first[2] == other[2]
    )


def _put(target: Any, state: Any) -> None:
    kind, slots, now = state
    if kind is Tensor:
        target.__class__ = Tensor
        for slot in _SLOTS:
            if slot in slots:
                setattr(target, slot, slots[slot])
            elif hasattr(target, slot):
                delattr(target, slot)
    else:
        if target.__class__ is Tensor:
            target.data, target.edge = _NOTHING, None
            target.__class__ = Written
        target._history = slots["_history"]
    builder = dispatch_mode.builder()
    if builder is not None:
        builder.put_back(target, now)


def _spec(leaf: Any) -> Any:
    return (leaf.shape, leaf.dtype) if isinstance(leaf, Tensor) else None


def _value_of(tensor: Tensor) -> int:
    data: Any = tensor.data
    return data.value if data.__class__ is Abstract else getattr(tensor, "_vid", 0)


CHECKPOINT = Op(
    name="checkpoint",
    family="layout",
    infer=lambda specs, attrs: (),
    impl=lambda *arrays, **_: arrays,
    outputs=0,
)
"""The results of a checkpointed function, as a function of the tensors that it used. Not a node. It
has no rule: the tape continues with the result of ``unfold``.
"""
