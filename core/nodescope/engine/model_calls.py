"""Model calls: outside of steps, all calls of a model from one line execute the same nodes.

A program that evaluates a model, or writes text with it, calls it again and again. Each call is
counted like a step: from zero, with cursors of its own. Calls on a tape are not, because a backward
pass may go through several of them; nor are those of programs with several threads, whose calls
would depend on each other's order.

Invariant: a value of an earlier call is not taken for that of a later one, although both have the
same id: whoever uses it reads it as a leaf.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

from nodescope.emit.emitter import Emitter
from nodescope.emit.state import ThreadState
from nodescope.engine.state import State, current
from nodescope.engine.tensor import Tensor
from nodescope.ir.identity import Cursor

_MOST_LINES: Final = 256  # a program may make its code as it runs


class _Line:
    """The calls from one line.

    Attributes:
        cursors: The cursors of these calls.
        varied: Whether a value changed its shape in the latest one.
        loops: Whether a call has a loop that is too long to be unrolled.
        values: The arguments and results of the latest one, as far as they still exist.
    """

    __slots__ = ("cursors", "loops", "values", "varied")

    def __init__(self) -> None:
        self.cursors: dict[Any, Cursor] = {}
        self.varied = self.loops = False
        self.values: list[weakref.ref[Tensor]] = []


class ModelCalls:
    """The outermost calls of models in a run.

    Args:
        emitter: The run's emitter.
    """

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._lines: dict[int, _Line] = {}

    def run(self, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call a model that no other model owns."""
        state = current()
        if state.recording:
            return forward(*args, **kwargs)
        call = functools.partial(self._run, state, forward, args, kwargs)
        return self._emitter.outermost_call(call)

    def _run(self, state: State, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        line = self._line(state)
        if line is None:
            return forward(*args, **kwargs)
        outside, cursor = self._emitter.begin_call(varied=line.varied), state.cursor
        state.home, state.cursors, state.cursor = state.cursors, line.cursors, None
        try:
            result = forward(*args, **kwargs)
        finally:
            state.cursors, state.cursor, state.call = state.home, cursor, 0
            line.varied = self._emitter.end_call(outside)
        self._replace(line, [*_tensors((args, kwargs))], [*_tensors(result)])
        return result

    def unrolled(self, state: ThreadState) -> None:
        """Note that a loop in the call under way has had as many nodes as a loop may have."""
        if state.call:
            self._lines[state.call].loops = True

    def _line(self, state: State) -> _Line | None:
        """The line of a call that is counted, after noting it in the state; else None."""
        emitter = self._emitter
        if state.call or state.builder is not None or state.phase != "forward":
            return None
        if emitter.step_open or emitter.between_steps or emitter.resting:
            return None
        if not emitter.is_alone(state):
            return None
        number = 1 + emitter.place()
        line = self._lines.get(number)
        if line is None and len(self._lines) < _MOST_LINES:
            line = self._lines[number] = _Line()
        if line is None or line.loops:
            return None
        state.call = number
        return line

    def _replace(self, line: _Line, taken: list[Tensor], given: list[Tensor]) -> None:
        """Remember the values of a call: leaves that it took, and what it gave. Values of the call
        before are no longer what their nodes computed or read last.
        """
        by_value = self._emitter.identity.by_value
        latest: dict[int, Tensor] = {}
        for tensor in taken:
            entry = by_value.get(getattr(tensor, "_vid", 0))
            if entry is not None and entry.node.family == "leaf":
                latest[tensor._vid] = tensor
        latest.update((getattr(tensor, "_vid", 0), tensor) for tensor in given)
        for reference in line.values:
            before = reference()
            if before is not None and latest.get(getattr(before, "_vid", 0)) is not before:
                before._vid = 0
        line.values = [weakref.ref(tensor) for tensor in latest.values()]


def _tensors(value: Any) -> Iterator[Tensor]:
    """The tensors in nested tuples, lists and dicts."""
    if value.__class__ is Tensor:
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
