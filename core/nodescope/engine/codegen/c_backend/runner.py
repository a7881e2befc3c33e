"""Runner: a plan in C, ready to run.

A call takes a set of buffers from a pool (the arena, a table of addresses, numbers), lets C read
the addresses of its arrays, and runs one function per segment, without the interpreter's lock.

Invariant: results are the caller's own; two calls never share buffers.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nodescope.engine.codegen.backend import Kernel, took
from nodescope.engine.codegen.c_backend import blas, pool, spare, toolchain
from nodescope.engine.codegen.c_backend.generate import Spot, Step
from nodescope.engine.codegen.c_backend.remembered import plan_for
from nodescope.engine.codegen.interpret import kernel_of
from nodescope.errors import CompilerError
from nodescope.ir.graph import TensorSpec
from nodescope.ir.provenance import MemoryReport
from nodescope.ops.op import Array
from nodescope.passes.pipeline import Lowered

_ALIGN = 64
_BEFORE = 2
_SMALL = 1 << 14  # total bytes of all values up to which a call keeps the interpreter lock
_POINTER = ctypes.c_void_p


class _State:
    """The buffers of one call."""

    __slots__ = ("address", "arena", "numbers", "table")

    def __init__(self, runner: CRunner) -> None:
        plan = runner.plan
        self.arena = _aligned(plan.memory.arena_bytes)
        # The required types of arrays precede the addresses that C sees as ``t``.
        self.table = (_POINTER * (_BEFORE + 1 + len(plan.slots)))(*runner.fixed)
        self.numbers = (ctypes.c_double * max(len(runner.loose), 1))()
        self.put(0, self.arena.ctypes.data)
        for root, array in runner.constants.items():
            self.put(plan.slots[root], array.ctypes.data)
        for i, feed in enumerate(runner.loose):
            self.put(1 + feed, ctypes.addressof(self.numbers) + 8 * i)
        self.address = ctypes.addressof(self.table) + 8 * _BEFORE

    def put(self, slot: int, address: int) -> None:
        """Store an address."""
        self.table[_BEFORE + slot] = address


def _aligned(size: int) -> Array:
    memory = np.empty(size + _ALIGN, np.uint8)
    start = -memory.ctypes.data % _ALIGN
    return memory[start : start + size]


class CRunner:
    """See `nodescope.engine.codegen.backend.Runner`.

    Attributes:
        plan: The execution plan.
        python: Why nodes run in Python, by id; empty if everything runs in C.
        libraries: The compiled libraries of the plan's texts.
        threads: The number of threads that may share a large loop.
    """

    def __init__(self, lowered: Lowered) -> None:
        self.plan = plan = plan_for(lowered)
        self.threads = pool.threads(os.environ)
        more = [pool.source()] if self.threads > 1 and "ns_share(" in "".join(plan.texts) else []
        self.libraries = toolchain.build_all((*plan.texts, *more))[: len(plan.texts)]
        graph = lowered.graph
        specs = {value.id: value.tensor for value in graph.values}
        self.constants = {
            root: np.require(constant, None, ("C", "A"))
            for root, constant in plan.constants.items()
        }
        # A view has the root of its base, and another shape.
        compiled_steps = (step for step in plan.steps if step.function is not None)
        spots = {spot.root: spot for step in compiled_steps for spot in step.outputs}
        made_specs = [spots[root].spec for root in plan.results]
        self._makers = [spare.maker(made_spec) for made_spec in made_specs]
        self._feeds = tuple(specs[value] for value in graph.inputs)
        self.loose = [
            i for i, spec in enumerate(self._feeds)
            if spec.shape == () and spec.dtype in ("float32", "float64")
        ]  # fmt: skip
        loose = set(self.loose)
        kinds = [0 if i in loose else id(np.dtype(spec.dtype)) if _plain(spec.dtype) else 0
                 for i, spec in enumerate(self._feeds)]  # fmt: skip
        kinds += [id(np.dtype(made_spec.dtype)) for made_spec in made_specs]
        self._held = [np.dtype(spec.dtype) for spec in (*self._feeds, *made_specs)
                      if _plain(spec.dtype)]  # fmt: skip
        self._kinds = (_POINTER * max(len(kinds), 1))(*kinds)
        self.fixed = (ctypes.addressof(self._kinds), id(np.ndarray))
        self._pool: list[_State] = []
        memory = plan.memory
        self.memory: MemoryReport | None = MemoryReport(
            memory.arena_bytes, memory.unplanned_peak, memory.total_bytes, len(memory.in_place)
        )
        self._outputs = self._sources(graph.inputs)
        self._results = [result for kind, result in self._outputs if kind == "list"]
        self._plain = len(self._results) == len(self._outputs) and min(
            self._results, default=0
        ) >= len(self._feeds)  # fmt: skip
        self._open()
        self.kernels: Mapping[int, Kernel] = _Kernels(self)
        self.python = {step.node.id: step.reason for step in plan.steps
                       if step.node is not None and step.reason}  # fmt: skip

    @functools.cached_property
    def source(self) -> str:
        """The C text for reading."""
        return self.plan.source

    def _open(self) -> None:
        build, address = self.libraries[0].function, ctypes.c_void_p
        for text, library in zip(self.plan.texts, self.libraries, strict=True):
            if "ns_bind(" in text:
                symbols = [blas.gemm(dtype) for dtype in ("float32", "float64")]
                if any(symbol is None or symbol.bits != 64 for symbol in symbols):
                    raise CompilerError(blas.missing() or "the BLAS of NumPy has 32-bit integers")
                bind = library.function("ns_bind", address, address)
                bind(*(symbol.address for symbol in symbols if symbol))
            if "ns_share(" in text and self.threads > 1:
                shared = pool.library().address("ns_pool")
                library.function("ns_share", address, ctypes.c_int64)(shared, self.threads)
        self.home = {
            name: library
            for names, library in zip(self.plan.linked, self.libraries[1:], strict=True)
            for name in names
        }
        if self.home:
            known = [library.address(name) for name, library in self.home.items()]
            table = (_POINTER * len(known))(*known)
            build("ns_link", address)(ctypes.addressof(table))
        self._take = build("ns_take", ctypes.py_object, address, ctypes.c_int64,
                           result=ctypes.c_int64, locked=True)  # fmt: skip
        self._segments = [
            build(f"ns_run{k}", address, address, result=ctypes.c_int64)
            for k in range(len(self.plan.segments))
        ]
        whole = self.plan.segments == [(0, len(self.plan.steps))]
        self._whole = self._segments[0] if whole else None
        small = self.plan.memory.arena_bytes + sum(map(_bytes, self._feeds)) <= _SMALL
        self._quick = None
        if whole and small and self._plain and len(self._makers) == len(self._results):
            self._quick = build("ns_call", ctypes.py_object, address, result=ctypes.c_int64,
                                locked=True)  # fmt: skip

    def _sources(self, fed: Sequence[int]) -> list[tuple[str, Any]]:
        """The source of each output: a feed, a constant, a result, or a Python node."""
        sources: list[tuple[str, Any]] = []
        for spot in self.plan.outputs:
            root = spot.root
            if root in self.plan.results:
                sources.append(("list", len(fed) + self.plan.results.index(root)))
            elif root in fed:
                sources.append(("list", list(fed).index(root)))
            elif root in self.plan.constants:
                sources.append(("constant", self.plan.constants[root]))
            else:
                sources.append(("python", root))
        return sources

    # Running

    def run(self, feeds: Sequence[Any]) -> list[Array]:
        """See `Runner.run`."""
        if self._quick is not None:
            objects = [*feeds, *[make() for make in self._makers]]
            try:
                state = self._pool.pop()
            except IndexError:
                state = _State(self)
            for number, place in enumerate(self.loose):
                state.numbers[number] = objects[place]
            if not self._quick(objects, state.address):
                self._pool.append(state)
                return [objects[result] for result in self._results]
            feeds = objects[: len(self._feeds)]
        return self._run(feeds, 0)

    def run_timed(self, feeds: Sequence[Any], stamps: Array) -> list[Array]:
        """See `Runner.run_timed`."""
        return self._run(feeds, stamps.ctypes.data, stamps)

    def _run(self, feeds: Sequence[Any], at: int, stamps: Array | None = None) -> list[Array]:
        objects = [*feeds, *[make() for make in self._makers]]
        try:
            state = self._pool.pop()
        except IndexError:
            state = _State(self)
        given_feeds = None if self._plain else [*objects]
        i = self._take(objects, state.address, 0)
        while i >= 0:
            objects[i] = native = self._native(objects[i], i)
            state.put(1 + i, native.ctypes.data)
            i = self._take(objects, state.address, i + 1)
        for number, place in enumerate(self.loose):
            state.numbers[number] = objects[place]
        python_results: dict[int, Array] = {}
        if self._whole is not None:
            failed = self._whole(state.address, at)
        else:
            failed = self._piecewise(state, objects, python_results, at, stamps)
        self._pool.append(state)
        if failed:
            raise IndexError("an index is out of range")
        if given_feeds is None:
            return [objects[result] for result in self._results]
        return [
            given_feeds[item]
            if kind == "list"
            else python_results[item]
            if kind == "python"
            else item
            for kind, item in self._outputs
        ]

    def _native(self, feed: Any, i: int) -> Array:
        """A feed in C order and of this machine's byte order."""
        native: Array = np.require(feed, np.dtype(self._feeds[i].dtype), ("C", "A"))
        return native.view(np.ndarray)

    def _piecewise(
        self,
        state: _State,
        objects: list[Any],
        python_results: dict[int, Array],
        at: int,
        stamps: Array | None,
    ) -> int:
        """Run the C segments and the Python nodes between them; return 0, or the number of a failed
        node.
        """
        steps = self.plan.steps
        begins = {first: (k, last) for k, (first, last) in enumerate(self.plan.segments)}
        i = place = 0
        while i < len(steps):
            if i in begins:
                k, last = begins[i]
                failed: int = self._segments[k](state.address, at)
                if failed:
                    return failed
                place += sum(s.node is not None for s in steps[i:last])
                i = last
                continue
            step = steps[i]
            operands = [self._array(spot, state, objects, python_results) for spot in step.inputs]
            if stamps is not None:
                stamps[2 * place] = time.perf_counter_ns()
            results = in_python(step, operands)
            if stamps is not None:
                stamps[2 * place + 1] = time.perf_counter_ns()
            for spot, result in zip(step.outputs, results, strict=True):
                python_results[spot.root] = result
                state.put(self.plan.slots[spot.root], result.ctypes.data)
            i, place = i + 1, place + 1
        return 0

    def _array(
        self, spot: Spot, state: _State, objects: list[Any], python_results: dict[int, Array]
    ) -> Any:
        """A value of the plan for a Python node, in C order."""
        root, slots = spot.root, self.plan.slots
        inputs = self.plan.lowered.graph.inputs
        if root in python_results:
            whole: Any = python_results[root]
        elif root in self.constants:
            whole = self.constants[root]
        elif root in slots:
            whole = objects[slots[root] - 1]
            if spot.loose or (spot.whole and whole.shape == spot.spec.shape and root in inputs):
                return whole
        else:
            offset = self.plan.memory.offsets[root]
            dtype = np.dtype(spot.spec.dtype)
            whole = state.arena[offset:].view(np.uint8)
            whole = np.frombuffer(whole.data, np.uint8)
            usable = len(whole) // dtype.itemsize * dtype.itemsize
            whole = whole[:usable].view(dtype)
        if spot.whole and whole.shape == spot.spec.shape:
            return whole
        flat = whole.reshape(-1)
        size = flat.dtype.itemsize
        view = np.lib.stride_tricks.as_strided(
            flat[spot.offset :], spot.spec.shape, tuple(s * size for s in spot.strides)
        )
        return np.array(view, order="C")


def _bytes(spec: TensorSpec) -> int:
    size = np.dtype(spec.dtype).itemsize if _plain(spec.dtype) else 16
    return math.prod(spec.shape) * size


def _plain(dtype: str) -> bool:
    """Whether NumPy knows a dtype by this name."""
    try:
        np.dtype(dtype)
    except TypeError:
        return False
    return True


def in_python(step: Step, operands: Sequence[Any]) -> list[Array]:
    """The results of a node computed in Python, in C order, in their own memory."""
    assert step.call is not None
    kernel = kernel_of(step.call)
    outputs = []
    for output in kernel(*(_dense(x) for x in operands)):
        own = (
            output.flags.owndata
            and output.flags.c_contiguous
            and all(output is not x for x in operands)
        )
        outputs.append(output if own else np.array(output, order="C"))
    return outputs


def _dense(x: Any) -> Any:
    return np.require(x, None, ("C", "A")) if isinstance(x, np.ndarray) else x


class _Kernels(Mapping[int, Kernel]):
    """The kernels of a runner, created on demand."""

    def __init__(self, runner: CRunner) -> None:
        self._runner = runner
        self._steps = {step.node.id: step for step in runner.plan.steps if step.node is not None}
        self._made: dict[int, Kernel] = {}

    def __getitem__(self, node: int) -> Kernel:
        if node not in self._made:
            self._made[node] = _kernel(self._runner, self._steps[node])
        return self._made[node]

    def __iter__(self) -> Iterator[int]:
        return iter(self._steps)

    def __len__(self) -> int:
        return len(self._steps)


def _kernel(runner: CRunner, step: Step) -> Kernel:
    if step.function is None:
        return _alone(step)
    name = step.function.name
    library = runner.home.get(name, runner.libraries[0])
    function: Callable[..., int] = library.function(name, _POINTER, _POINTER, result=ctypes.c_int)
    count = len(step.inputs) + len(step.outputs)
    scratch, elements = step.function.scratch, step.function.count

    def kernel(*inputs: Any) -> tuple[Array, ...]:
        arrays = [laid_out(x, spot) for x, spot in zip(inputs, step.inputs, strict=True)]
        outputs = [np.empty(value.spec.shape, np.dtype(value.spec.dtype)) for value in step.outputs]
        pointers = (_POINTER * count)(*(array.ctypes.data for array in (*arrays, *outputs)))
        work = _aligned(scratch)
        where, room = ctypes.addressof(pointers), elements or work.ctypes.data
        start = time.perf_counter_ns()
        failed = function(where, room)
        took.span = (start, time.perf_counter_ns())
        if failed:
            raise IndexError("an index is out of range")
        return tuple(outputs)

    return kernel


def _alone(step: Step) -> Kernel:
    """A node without a C function: one that C cannot compute, or a view, which takes no time."""

    def kernel(*inputs: Any) -> tuple[Array, ...]:
        start = time.perf_counter_ns()
        outputs = tuple(in_python(step, inputs))
        took.span = (start, time.perf_counter_ns() if step.reason else start)
        return outputs

    return kernel


def laid_out(x: Any, spot: Spot) -> Array:
    """An operand with the strides for which a kernel was made."""
    if spot.loose:
        return np.array(float(x))
    dtype = np.dtype(spot.spec.dtype)
    array = np.asarray(x, dtype)
    strides = tuple(s * dtype.itemsize for s in spot.strides)
    same = all(
        n == 1 or a == b for n, a, b in zip(array.shape, array.strides, strides, strict=True)
    )
    if same and array.flags.aligned:
        return array
    reach = [(n - 1) * s for n, s in zip(spot.spec.shape, spot.strides, strict=True)]
    low, high = sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach)
    memory = np.empty(max(high - low + 1, 1), dtype)
    view: Array = np.lib.stride_tricks.as_strided(memory[-low:], spot.spec.shape, strides)
    view[...] = array
    return view
