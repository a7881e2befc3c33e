"""Model calls: outside of steps, calls of a model from one line execute the same nodes again.

A program that evaluates a model, or writes text with it, calls it again and again. Each call is
counted like a step: from zero, with cursors of its own. Calls of other models, or on other values,
have other nodes, up to a limit. Calls on a tape are not counted so, because a backward pass may go
through several of them; nor are those of programs with several threads, whose nodes would depend on
which thread came first.

Invariant: a result of an earlier call is not taken for that of a later one, although both have the
same id: whoever uses it reads it as a leaf.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, Final

from nodescope.emit.emitter import Emitter
from nodescope.emit.state import ThreadState
from nodescope.engine.stale_values import (
    Read,
    forget_reads,
    forget_results,
    forget_rounds,
    tensors_in,
)
from nodescope.engine.state import State, current
from nodescope.engine.tensor import Tensor
from nodescope.ir.identity import LOOPED, Cursor

_MOST_PLACES: Final = 256  # a program may make its code, or its models, as it runs
_OWN: Final = -2  # in place of the id of an argument that an earlier call here has made or read

_Place = tuple[int, int]
"""A line of the program, and a model."""


class _Calls:
    """Calls of a model from one line on certain values, which execute the same nodes.

    Attributes:
        place: The line and the model.
        number: Their number among all such calls, from 1 on.
        cursors: The cursors of these calls.
        varied: Whether a value changed its shape in the latest one.
        has_long_loop: Whether one has a loop with more rounds than are unrolled.
        reads: The leaves that the next one reads anew.
        results: The results of the latest one.
    """

    __slots__ = ("cursors", "has_long_loop", "number", "place", "reads", "results", "varied")

    def __init__(self, place: _Place, number: int) -> None:
        self.place, self.number = place, number
        self.cursors: dict[Any, Cursor] = {}
        self.varied = self.has_long_loop = False
        self.reads: list[Read] = []
        self.results: list[weakref.ref[Tensor]] = []


class ModelCalls:
    """The outermost calls of models in a run.

    Args:
        emitter: The run's emitter.
        used: The leaves to be read anew in the next step; those that a call reads are taken out,
            since the next such call reads them anew.
    """

    def __init__(self, emitter: Emitter, used: list[Read]) -> None:
        self._emitter, self._used = emitter, used
        self._places: dict[_Place, dict[tuple[int, ...], _Calls]] = {}
        self._calls: list[_Calls] = []

    def run(self, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call a model that no other model owns."""
        state = current()
        if state.recording:
            return forward(*args, **kwargs)
        call = functools.partial(self._run, state, forward, args, kwargs)
        return self._emitter.outermost_call(call)

    def note_long_loop(self, state: ThreadState) -> None:
        """Note that a loop in the call under way has had as many nodes as a loop may have."""
        if 0 < state.call <= len(self._calls):
            self._calls[state.call - 1].has_long_loop = True

    def _run(self, state: State, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        calls = self._calls_like(state, forward, (*args, *kwargs.values()))
        if calls is None:
            return forward(*args, **kwargs)
        forget_reads(calls.reads)
        read_before, results = len(self._used), {}
        home, cursor, outside = state.cursors, state.cursor, None
        try:
            outside = self._emitter.begin_call(varied=calls.varied)
            state.home, state.cursors, state.cursor = home, calls.cursors, None
            state.call = calls.number
            result = forward(*args, **kwargs)
            results = self._results_of(calls, result)
        finally:
            state.cursors, state.cursor, state.call = home, cursor, 0
            if outside is not None:
                calls.varied = self._emitter.end_call(outside)
            read = self._used[read_before:]
            calls.reads = [item for item in read if item[1].node.role != "parameter"]
            self._used[read_before:] = [item for item in read if item[1].node.role == "parameter"]
            forget_results(calls.results, results)
            calls.results = [*map(weakref.ref, results.values())]
        return result

    def _calls_like(
        self, state: State, forward: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> _Calls | None:
        """The calls that this one is counted with; None if it is not counted like a step."""
        emitter = self._emitter
        self._recover(state)
        if state.call or state.builder is not None or state.phase != "forward":
            return None
        if emitter.step_open or emitter.between_steps or emitter.resting:
            return None
        if len(emitter.attachments) > 1:  # other libraries' values belong to a step
            return None
        place = emitter.place(), id(getattr(forward, "__self__", forward))
        known = self._places.get(place)
        if known is None and len(self._places) < _MOST_PLACES:
            known = self._places[place] = {}
        if known is None or not emitter.is_alone(state):
            return None
        by_value, taken = emitter.identity.by_value, []
        forget_rounds(arguments, emitter.base, by_value)
        for argument in arguments:
            value = getattr(argument, "_vid", 0) if argument.__class__ is Tensor else 0
            entry = by_value.get(value)
            is_own = entry is not None and entry.call and self._calls[entry.call - 1].place == place
            taken.append(_OWN if is_own else value if value > emitter.base else 0)
        calls = known.get(tuple(taken))
        if calls is None and len(known) < LOOPED:
            calls = known[tuple(taken)] = _Calls(place, len(self._calls) + 1)
            self._calls.append(calls)
        return None if calls is None or calls.has_long_loop else calls

    def _recover(self, state: State) -> None:
        """End a call that an interrupt has left as it was, or that is of an earlier run."""
        emitter = self._emitter
        if emitter.step_open:
            return
        if state.call and emitter.outside is None:
            state.cursors, state.cursor, state.call = state.home, None, 0
        elif emitter.outside is not None and not state.call and emitter.is_alone(state):
            emitter.end_call(emitter.outside)

    def _results_of(self, calls: _Calls, result: Any) -> dict[int, Tensor]:
        """By value id, the results that a call has computed itself."""
        results: dict[int, Tensor] = {}
        by_value = self._emitter.identity.by_value
        for tensor in tensors_in(result):
            entry = by_value.get(getattr(tensor, "_vid", 0))
            if entry is not None and entry.call == calls.number:
                results[tensor._vid] = tensor
        return results
