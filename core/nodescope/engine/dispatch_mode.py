"""The path that ops take: the fast one, or the checked one if anything observes or a tape is off.

Invariant: ops take the fast path only if no thread needs the checked one.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

from nodescope import ops
from nodescope.engine import run
from nodescope.engine.state import current
from nodescope.engine.tensor import NO_ATTRS, Attrs, Tensor, alias, set_detached
from nodescope.ops.op import Op

_lock = threading.RLock()  # reentrant: a signal handler may come while it is held
_tapes_off = 0
_builders = 0
_observer: Any = None
_resting: Any = None
_unrolled = False  # whether operators between tensors are the observer's own


def set_observer(observer: Any) -> None:
    """Send every op through ``observer.run``, or none with None.

    Operators between tensors are replaced by the observer's own, if it has any.
    """
    global _observer, _resting
    with _lock:
        _observer, _resting = observer, None
        run.set_on_raise(None)
        _choose()
        _operators(observer)


def rest() -> None:
    """Take the observer out of the engine for a while, so that ops run as if unobserved.

    From then on the observer uses the plain operators as well, at a small cost: each change of a
    method makes Python discard its caches for all of them.
    """
    global _observer, _resting
    with _lock:
        if _observer is None:
            return
        _observer, _resting = None, _observer
        run.set_on_raise(_resting.raised)
        _choose()
        if _unrolled:
            _operators(None)


def wake() -> None:
    """Let the resting observer see every op again."""
    global _observer, _resting
    if _resting is None:
        return
    with _lock:
        if _resting is not None:
            _observer, _resting = _resting, None
            run.set_on_raise(None)
            _choose()


def attending() -> Any:
    """The object that counts this thread's steps: like `observer`, or the resting tracer."""
    observer_now = observer()
    return _resting if observer_now is None else observer_now


def move(tensor: Tensor, array: Any) -> None:
    """Move the elements of a tensor, unchanged, to another array.

    The observer is informed, because it identifies the inputs of an operation by their arrays.
    """
    before, tensor.data = tensor.data, array
    observer_now = _resting if _observer is None else _observer
    if observer_now is not None and array is not before:
        observer_now.moved(tensor, before)


def tracer() -> Any:
    """The active tracer of this process, if not resting; None as well while a graph is built."""
    return None if _builders and current().builder is not None else _observer


def _operators(observer: Any) -> None:
    """Give tensors the observer's own operators, or the plain ones, if they have the others."""
    global _unrolled
    operator = None if observer is None else observer.operator
    if operator is None and not _unrolled:
        return
    _unrolled = operator is not None
    for method, op in run.operators.items():
        setattr(Tensor, method, (operator or run.operator_of)(op))


def observer() -> Any:
    """The object that sees every op of this thread: the builder of a graph, else the tracer, or
    None.
    """
    if _builders:
        graph_builder = current().builder
        if graph_builder is not None:
            return graph_builder
    return _observer


def builder() -> Any:
    """The builder that records this thread's operations in a graph instead of running them, or
    None.
    """
    return current().builder if _builders else None


def _choose() -> None:
    set_detached(_detached if _observer is not None or _builders else None)
    if _observer is not None:
        run.set_slow(_observer.run)
    else:
        run.set_slow(_checked if _tapes_off or _builders else None)


def _checked(op: Op, inputs: tuple[Any, ...], attrs: Attrs) -> Tensor:
    state = current()
    if state.builder is not None:
        return state.builder.run(op, inputs, attrs)  # type: ignore[no-any-return]
    return run.run(op, inputs, attrs, state.recording)


def _detached(tensor: Tensor) -> Tensor:
    """The value of a tensor without its history, by a node of the observer that sees every op."""
    seen_by = observer()
    if seen_by is None:  # another thread builds a graph
        return alias(tensor)
    result: Tensor = seen_by.run(ops.get("detach"), (tensor,), NO_ATTRS)
    for slot in ("_kind", "_name"):
        if hasattr(tensor, slot):
            setattr(result, slot, getattr(tensor, slot))
    return result


@contextlib.contextmanager
def building(builder: Any, *, scope: str | None = "") -> Iterator[None]:
    """Record this thread's operations with ``builder`` for a while; None runs them again.

    Args:
        builder: An object with `run`, `leaf`, `pair`, `backward` and `optimizer`, like a tracer.
        scope: The scope to begin in; None stays in the current one.
    """
    global _builders
    state = current()
    saved = (state.builder, state.scope, state.phase, state.cursor, state.forward, state.recording)
    with _lock:
        _builders += 1
        _choose()
    state.builder, state.cursor = builder, None
    if scope is not None:
        state.scope, state.phase, state.forward, state.recording = scope, "forward", None, True
    try:
        yield
    finally:
        (state.builder, state.scope, state.phase, state.cursor, state.forward,
         state.recording) = saved  # fmt: skip
        with _lock:
            _builders -= 1
            _choose()


class recording(contextlib.ContextDecorator):
    """Switch this thread's tape on or off for a while."""

    __slots__ = ("_before", "_on", "_state")

    def __init__(self, on: bool) -> None:
        self._on = on

    def __enter__(self) -> None:
        self._state = current()
        self._before = self._state.recording
        if not self._on:
            _switch_tapes_off(1)
        self._state.recording = self._on

    def __exit__(self, *raised: object) -> None:
        self._state.recording = self._before
        if not self._on:
            _switch_tapes_off(-1)

    def _recreate_cm(self) -> recording:  # decorated functions may call themselves
        return recording(self._on)


def _switch_tapes_off(more: int) -> None:
    """Note that one more tape is switched off, or one less."""
    global _tapes_off
    with _lock:
        _tapes_off += more
        if _observer is None:  # an observer sees every op anyway
            _choose()


def no_grad() -> contextlib.AbstractContextManager[None]:
    """Operations inside are not taped, and their results have no gradient. Also a decorator."""
    return recording(False)


def _renew() -> None:
    """Renew the lock in a forked child: its holder does not exist there."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
