"""Runner: one program per layout of the feeds, and sets of buffers for concurrent calls.

Invariant: a set of buffers belongs to one call at a time.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nodescope.engine.codegen.backend import Kernel
from nodescope.engine.codegen.interpret import PlainRunner, kernels_of
from nodescope.engine.codegen.numpy_backend.observe import ObservedProgram, ProgramRecorder
from nodescope.engine.codegen.numpy_backend.place import MemoryPlacement, place
from nodescope.engine.codegen.numpy_backend.text import compiled, text_of
from nodescope.engine.codegen.numpy_backend.writer import OtherLayout
from nodescope.ir.provenance import MemoryReport
from nodescope.ops.op import Array
from nodescope.ops.plan import Plan
from nodescope.passes.memory import MemoryPlan
from nodescope.passes.pipeline import Lowered

LAYOUTS = 4
"""Limit of layouts of feeds that get a program; others run node by node."""

KEPT_SETS = 4
"""Limit of sets of buffers kept between calls, for threads."""

KEPT_BYTES = 256 << 20
"""Arenas beyond this size are released after the call."""

_Key = tuple[Any, ...]


class Variant:
    """The program for one layout of the feeds."""

    def __init__(self, program: ObservedProgram, name: str) -> None:
        self._program, self._name = program, name
        self.placed: MemoryPlacement = place(program)
        self.memory: MemoryPlan = self.placed.memory
        self._unsure = any(step.unsure for group in program.groups for step in group.steps)
        self._most = KEPT_SETS if self.memory.arena_bytes <= KEPT_BYTES else 0
        self.source, space = text_of(program, self.placed)
        self._bind = compiled(self.source, space, name)
        self._free: list[Callable[..., list[Array]]] = []
        self._timed: Callable[[Any], Callable[..., list[Array]]] | None = None
        self._timed_free: list[Callable[..., list[Array]]] = []

    def run(self, feeds: list[Any]) -> list[Array]:
        """Run on feeds; return the outputs. Empties the list of feeds, unless the program may raise
        `OtherLayout`.
        """
        free = self._free
        try:
            run = free.pop()
        except IndexError:
            run = self._bind(self._arena())
        results = run(feeds.copy() if self._unsure else feeds)
        if len(free) < self._most:
            free.append(run)
        return results

    def run_timed(self, feeds: list[Any], stamps: Array, at: Sequence[int]) -> list[Array]:
        """Run; note begin and end of each node that runs at its position in ``stamps``, from
        ``at``.
        """
        if self._timed is None:
            text, space = text_of(self._program, self.placed, at)
            self._timed = compiled(text, space, f"{self._name} timed")
        try:
            run = self._timed_free.pop()
        except IndexError:
            run = self._timed(self._arena())
        results = run(feeds.copy() if self._unsure else feeds, stamps)
        if len(self._timed_free) < min(self._most, 1):
            self._timed_free.append(run)
        return results

    def _arena(self) -> Array:
        # Aligned to 64 bytes, so that values begin at cache lines.
        size = self.memory.arena_bytes
        whole = np.empty(size + 64, np.uint8)
        skip = -whole.ctypes.data % 64
        return whole[skip : skip + size]


class NumpyRunner:
    """See `nodescope.engine.codegen.backend.Runner`.

    The first call with a layout is observed, and a program for it is generated at its end.
    """

    def __init__(self, lowered: Lowered) -> None:
        self._lowered = lowered
        self._plan = Plan(lowered.graph, dict(lowered.arrays))
        self.kernels: Mapping[int, Kernel] = kernels_of(lowered)
        self._variants: dict[_Key, Variant] = {}
        self._last: tuple[list[Any], Variant] | None = None
        self._lock = threading.Lock()
        self.source = ""  # of the latest new layout
        self.memory: MemoryReport | None = None

    @functools.cached_property
    def _plain(self) -> PlainRunner:
        return PlainRunner(self._lowered)

    @functools.cached_property
    def _at(self) -> list[int]:
        number = {node: i for i, node in enumerate(self.kernels)}
        return [number[call.node.id] for call in self._plan.calls]

    def run(self, feeds: Iterable[Any]) -> list[Array]:
        """See `Runner.run`. ``feeds`` may be an iterator that releases what it yields."""
        feeds = list(feeds)
        key = [getattr(feed, "strides", None) for feed in feeds]
        last = self._last
        if last is not None and last[0] == key:
            variant = last[1]
        else:
            known_variant = self._variants.get(tuple(key))
            if known_variant is None:
                return self._first(key, feeds)
            variant = known_variant
            self._last = (key, variant)
        try:
            return variant.run(feeds)
        except OtherLayout:
            return self._plain.run(feeds)

    def run_timed(self, feeds: Iterable[Any], stamps: Array) -> list[Array]:
        """See `Runner.run_timed`."""
        feeds = list(feeds)
        variant = self._variants.get(tuple([getattr(feed, "strides", None) for feed in feeds]))
        if variant is not None:
            stamps[:] = time.perf_counter_ns()
            try:
                return variant.run_timed(feeds, stamps, self._at)
            except OtherLayout:
                pass
        return self._plain.run_timed(feeds, stamps)

    def _first(self, strides: list[Any], feeds: list[Any]) -> list[Array]:
        key = tuple(strides)
        if len(self._variants) >= LAYOUTS:
            return self._plain.run(feeds)
        recorder = ProgramRecorder(self._once)
        results = recorder.run(self._plan, feeds)
        with self._lock:
            if key not in self._variants and len(self._variants) < LAYOUTS:
                number = len(self._variants)
                name = f"graph {self._lowered.graph.id} layout {number}"
                variant = self._variants[key] = Variant(recorder.program, name)
                self._last = (strides, variant)
                plan = variant.memory
                self.source, self.memory = variant.source, MemoryReport(
                    plan.arena_bytes, plan.unplanned_peak, plan.total_bytes, len(plan.in_place)
                )  # fmt: skip
        return results

    def _once(self, program: ObservedProgram, feeds: list[Any]) -> list[Array]:
        """Run a part of a program that is still observed."""
        return Variant(program, f"graph {self._lowered.graph.id} loop").run(feeds)
