"""Compiled functions: the objects that `compile` makes.

A call looks for a trace that has its signature and whose guards hold, runs the trace's graph, and
writes back the state that the graph changes. If no trace fits, the function is traced.

Invariant: a compiled function returns what the plain function returns, or raises; entries are found
without a lock and made under one.
"""

from __future__ import annotations

import functools
import inspect
import pickle
import threading
import time
import types
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope.emit.frames import user_source, where
from nodescope.engine import dispatch_mode, mode
from nodescope.engine.state import current
from nodescope.engine.static.dynamic import Dynamic, DynamicSetting
from nodescope.engine.static.entry import Entry, Stale
from nodescope.engine.static.explain import Explanation, Record
from nodescope.engine.static.guards import Guards
from nodescope.engine.static.lowering import Wish
from nodescope.engine.static.program import program_of
from nodescope.engine.static.signature import (
    Form,
    Key,
    differences,
    form_of,
    key_of,
    required_key,
)
from nodescope.engine.static.tracing import trace
from nodescope.errors import TraceError
from nodescope.interactive import cell_name
from nodescope.ir.graph import SourceLocation

_WARN_AFTER = 12  # traces of one function
_MOST_SIZES = 64  # limit of graphs kept for sizes of dynamic dimensions
_MOST_VARIANTS = 8  # limit of traces with the same arguments but different captures


class CompiledFunction:
    """A function that runs as static graphs; `compile` makes it.

    Attributes:
        __wrapped__: The user's function.
    """

    __wrapped__: Callable[..., Any]

    def __init__(
        self,
        function: Callable[..., Any],
        static: tuple[str, ...],
        donate: tuple[str, ...],
        dynamic: DynamicSetting,
        name: str | None,
        wish: Wish,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self.__wrapped__ = function
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        self._static, self._donate, self._wanted = frozenset(static), donate, dynamic
        self._wish = wish
        self._names = parameters_of(function)
        self._lock = threading.RLock()
        self._entries: dict[Key, tuple[Entry, ...]] = {}
        self._records: list[Record] = []
        self._dynamic = Dynamic(dynamic)
        self._calls = 0
        self._many: OrderedDict[Key, None] = OrderedDict()  # keys of graphs of dynamic size
        self._bound: dict[int, tuple[Any, CompiledFunction]] = {}

    def __repr__(self) -> str:
        return f"<compiled {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function: as a graph, or plainly while another graph is built or the mode is
        plain.
        """
        return self._call(None, args, kwargs)

    def _call(self, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        state = current()
        if state.builder is not None or mode.plain():
            tracer = dispatch_mode.tracer()
            if tracer is None or tracer.emitter.marked:
                return self._plain(owner, args, kwargs)
            with tracer.emitter.apart(state):
                return self._plain(owner, args, kwargs)
        leaves: list[Any] = []
        key = self._key(args, kwargs, leaves, state.recording)
        self._calls += 1
        entry = None
        for candidate in self._entries.get(key, ()):
            if not candidate.stale(leaves):
                entry = candidate
                break
        while True:
            if entry is None:
                entry = self._entry(owner, key, args, kwargs, leaves)
            try:
                return entry.run(leaves)
            except Stale as stale:
                with self._lock:
                    self._forget(key, entry)
                entry = self._traced(owner, key, args, kwargs, str(stale))

    def _plain(self, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if owner is None:
            return self.__wrapped__(*args, **kwargs)
        return self.__wrapped__(owner, *args, **kwargs)

    def _key(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any], recording: bool
    ) -> Key:
        static = self._static
        if static or kwargs:
            names = self._names
            called = [names[i] if i < len(names) else "" for i in range(len(args))]
            pairs = [*zip(called, args, strict=True), *sorted(kwargs.items())]
            parts = [
                required_key(name, value) if name in static else key_of(value, leaves)
                for name, value in pairs
            ]
            key: Key = (recording, len(args), tuple(sorted(kwargs)), *parts)
        else:
            key = (recording, *[key_of(arg, leaves) for arg in args])
        count = len(leaves)
        if count > 1:
            ids = [*map(id, leaves)]
            if len(set(ids)) != count:  # the same tensor twice
                return (key, tuple(map(ids.index, ids)))
        return key

    # Entries

    def _entry(
        self, owner: Any, key: Key, args: tuple[Any, ...], kwargs: dict[str, Any],
        leaves: list[Any],
    ) -> Entry:  # fmt: skip
        with self._lock:
            for existing in self._entries.get(key, ()):  # another thread was first
                if not existing.stale(leaves):
                    return existing
            form = form_of(self._names, self._static, args, kwargs)
            known = self._entries.get(key, ())
            reason = known[-1].stale(leaves) if known else self._new(form)
            ready = None if known else self._sized(owner, form, leaves, reason)
            if ready is not None:
                self._entries[key] = (ready,)
                self._many[key] = None
                if len(self._many) > _MOST_SIZES:
                    self._entries.pop(self._many.popitem(last=False)[0], None)
                return ready
            return self._traced(owner, key, args, kwargs, reason)

    def _sized(self, owner: Any, form: Form, leaves: list[Any], reason: str) -> Entry | None:
        """A graph with a dynamic dimension, resized to the current size."""
        dynamic, recording = self._dynamic, current().recording
        sized = dynamic.find(form, recording, leaves)
        if sized is not None:
            return sized[0]
        start = time.perf_counter()
        all_entries = [record.entry for record in self._records if record.entry is not None]
        entries = [entry for entry in all_entries if not entry.stale(leaves)]
        if not dynamic.grow(self._weak(owner), entries, form, recording):
            return None
        sized = dynamic.find(form, recording, leaves)
        if sized is not None:
            took = (time.perf_counter() - start) * 1e3
            self._records.append(Record(sized[0], reason, self._calls, where(), took, sized[1]))
            return sized[0]
        return None

    def _new(self, form: Form) -> str:
        """Why a call with these arguments needs a trace."""
        if not self._records:
            return "the first call"
        reasons = [differences(record.form, form) for record in reversed(self._records)]
        fewest = min(reasons, key=len)
        recorded = self._records[-1].recording
        if not fewest and recorded is not current().recording:
            return "gradients are now recorded" if not recorded else "gradients are not recorded"
        return "; ".join(fewest) or "the same tensor appears at different places in the arguments"

    def _traced(
        self, owner: Any, key: Key, args: tuple[Any, ...], kwargs: dict[str, Any],
        reason: str,
    ) -> Entry:  # fmt: skip
        with self._lock:
            began, start = time.perf_counter_ns(), time.perf_counter()
            form = form_of(self._names, self._static, args, kwargs)
            function = self._function(owner)
            static_values = [
                (argument.path, argument.value)
                for argument in form.arguments
                if argument.spec is None
            ]
            guards = Guards(self.__wrapped__, owner, static_values)
            recording = current().recording
            before = pickle.dumps(np.random.get_state())
            traced = trace(function, form, recording)
            self._check_draws(guards, before)
            donated = self._given_away(form)
            entry = Entry(traced, guards, self.name, donated, wish=self._wish)
            note = self._dynamic.begin(self._weak(owner), entry) if not self._records else ""
            took = (time.perf_counter() - start) * 1e3
            self._keep(key, (*self._entries.get(key, ()), entry)[-_MOST_VARIANTS:])
            self._records.append(Record(entry, reason, self._calls, where(), took, note))
            self._warn()
            place = entry.lowering.place = defined_at(self.__wrapped__)
            report = getattr(dispatch_mode.attending(), "compiled", None)
            if report is not None and place is not None:
                report(self.name, place.file, place.line, began)
            return entry

    def _check_draws(self, guards: Guards, before: bytes) -> None:
        """Raise `TraceError` if a captured NumPy generator was used while tracing, and warn if
        ``np.random`` was: the numbers would be the same on each call.
        """
        drawn = guards.drawn()
        if drawn:
            raise TraceError(
                f"{self.name} drew random numbers from {drawn} while it was traced: they would be "
                "the same on every call",
                source=where(),
                hint="use nodescope.random, or draw outside and pass the numbers in",
            )
        if pickle.dumps(np.random.get_state()) != before:  # perhaps by another thread
            self._say(
                f"{self.name}: np.random was used while it was traced; if this function "
                "drew the numbers, they are the same on every call: use nodescope.random, or draw "
                "outside and pass the numbers in"
            )

    def _function(self, owner: Any) -> Callable[..., Any]:
        return self.__wrapped__ if owner is None else types.MethodType(self.__wrapped__, owner)

    def _weak(self, owner: Any) -> Callable[[], Callable[..., Any]]:
        """A function that returns the function later, without keeping its instance alive."""
        function = self.__wrapped__
        if owner is None:
            return lambda: function
        try:
            reference = weakref.ref(owner)
        except TypeError:
            return lambda: types.MethodType(function, owner)
        return lambda: types.MethodType(function, reference())

    def _keep(self, key: Key, entries: tuple[Entry, ...]) -> None:
        """Set the entries of a key; release its other entries, keeping only their descriptions."""
        evicted = {id(entry) for entry in self._entries.get(key, ())} - {
            id(entry) for entry in entries
        }
        self._entries[key] = entries
        for i, record in enumerate(self._records):
            if record.entry is not None and id(record.entry) in evicted:
                record.let_go(i + 1)

    def _forget(self, key: Key, entry: Entry) -> None:
        self._keep(key, tuple(entry_ for entry_ in self._entries[key] if entry_ is not entry))

    def _given_away(self, form: Form) -> tuple[int, ...]:
        positions = []
        for position in form.dynamic:
            path = form.arguments[position].path
            if any(path == name or path.startswith((f"{name}[", f"{name}."))
                   for name in self._donate):  # fmt: skip
                positions.append(position)
        return tuple(positions)

    def _warn(self) -> None:
        if len(self._records) != _WARN_AFTER:
            return
        message = (
            f"{self.name} was traced {_WARN_AFTER} times, last because of: "
            f"{self._records[-1].reason}. Each trace takes time and memory; "
            f"print({self.name}.explain()) tells all"
        )
        self._say(message)

    @staticmethod
    def _say(message: str) -> None:
        """Issue a warning at the user's line."""
        at = user_source()
        if at is None:
            warnings.warn(message, UserWarning, stacklevel=2)
        else:
            warnings.warn_explicit(message, UserWarning, at.file, at.line)

    # User interface

    def graph(self, *args: Any, **kwargs: Any) -> Any:
        """The graph of a call with these arguments, traced if necessary, without running it.

        Returns:
            A graph that prints, and can be saved, loaded and run again.
        """
        return self._graph(None, args, kwargs)

    def _graph(self, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves: list[Any] = []
        key = self._key(args, kwargs, leaves, current().recording)
        for entry in self._entries.get(key, ()):
            if not entry.stale(leaves):
                return program_of(entry)
        return program_of(self._entry(owner, key, args, kwargs, leaves))

    def explain(self) -> Explanation:
        """A description of what was traced, and why; print it."""
        with self._lock:
            records = tuple(self._records)
        return Explanation(
            self.name,
            self._calls,
            tuple(record.description(i + 1) for i, record in enumerate(records)),
            self._dynamic.notes(),
        )

    # Methods

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        """The compiled method of an instance, which has its own traces."""
        if owner is None:
            return self
        key = id(owner)
        bound = self._bound.get(key)
        if bound is None:
            with self._lock:
                bound = self._bound.get(key)
                if bound is None:
                    own = CompiledFunction(
                        self.__wrapped__, tuple(self._static), self._donate, self._wanted,
                        self.name, self._wish,
                    )  # fmt: skip
                    own._names = self._names[1:]
                    bound = self._bound[key] = (self._weakly(owner, key), own)
        return Method(bound[1], owner)

    def _weakly(self, owner: Any, key: int) -> Any:
        """Forget the instance's traces when it is freed; keep alive an instance that cannot be
        weakly referenced.
        """
        bound = self._bound
        try:
            return weakref.ref(owner, lambda _: bound.pop(key, None))
        except TypeError:
            return owner


class Method:
    """A compiled method of one instance."""

    __slots__ = ("__self__", "_compiled")

    def __init__(self, compiled: CompiledFunction, owner: Any) -> None:
        self._compiled = compiled
        self.__self__ = owner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """See `CompiledFunction.__call__`."""
        return self._compiled._call(self.__self__, args, kwargs)

    def __repr__(self) -> str:
        return f"<compiled {self._compiled.name} of {self.__self__!r}>"

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return types.MethodType(self._compiled.__wrapped__, self.__self__)

    def graph(self, *args: Any, **kwargs: Any) -> Any:
        """See `CompiledFunction.graph`."""
        return self._compiled._graph(self.__self__, args, kwargs)

    def explain(self) -> Explanation:
        """See `CompiledFunction.explain`."""
        return self._compiled.explain()


def defined_at(function: Callable[..., Any]) -> SourceLocation | None:
    """The place where a function is defined; None if it is not a Python function."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if not isinstance(code, types.CodeType):
        return None
    return SourceLocation(cell_name(code.co_filename), code.co_firstlineno, code.co_qualname)


def parameters_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Names of the parameters except ``*args`` and ``**kwargs``; empty if they are unknown."""
    try:
        signature_parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return tuple(
        parameter.name for parameter in signature_parameters if parameter.kind not in several
    )
