"""The back-end interface and registry.

Invariant: a back end that cannot be used here says why; a different one never runs without a
message.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from nodescope.ir.provenance import MemoryReport
from nodescope.ops.op import Array
from nodescope.passes.pipeline import Lowered
from nodescope.registry import Once, Registry

Kernel = Callable[..., tuple[Array, ...]]
"""Inputs of one node to its outputs, in fresh memory."""


class _Took(threading.local):
    """When a kernel's own code ran, without what it takes to call it from Python.

    Attributes:
        span: Begin and end in nanoseconds of `time.perf_counter_ns`, set by kernels whose call
            costs much beside what they do. Who wants to know sets it to None before the call.
    """

    span: tuple[int, int] | None = None


took = _Took()


class Runner(Protocol):
    """A lowered graph, ready to run. Thread-safe.

    Attributes:
        memory: What intermediate results take, if it was planned.
        kernels: By id of each node of the lowered graph that is no leaf: the node alone. Gives
            bit for bit what `run` computes there.
    """

    memory: MemoryReport | None
    kernels: Mapping[int, Kernel]

    @property
    def source(self) -> str:
        """The text that was generated, or ``""``."""

    def run(self, feeds: Sequence[Any]) -> list[Array]:
        """The graph's outputs.

        Args:
            feeds: For each input of the graph an array of its shape and dtype, of any strides, or
                a Python float for a scalar that promotes weakly.
        """

    def run_timed(self, feeds: Sequence[Any], stamps: Array) -> list[Array]:
        """`run`, noting when nodes begin and end.

        Args:
            feeds: As for `run`.
            stamps: int64 of shape (2 n,) for n nodes that are no leaves, in the graph's order:
                begin and end of each, in nanoseconds of `time.perf_counter_ns`.
        """


class Backend(Protocol):
    """A way to run lowered graphs. ``exact``: results are bit-equal to the traced graph's."""

    name: str
    exact: bool

    def missing(self) -> str:
        """Why it cannot be used here, in one sentence; ``""`` if it can."""

    def build(self, lowered: Lowered) -> Runner:
        """Make a lowered graph ready to run."""


_registry: Registry[Backend] = Registry("back end")
_OURS = ("interpret", "numpy_backend", "c_backend")


def backend(backend_: Backend) -> Backend:
    """Register a back end. Raises `RegistryError` if its name is taken."""
    return _registry.add(backend_.name, backend_)


def get(name: str) -> Backend:
    """The back end of that name. Raises `RegistryError`, with near names."""
    _load()
    return _registry.get(name)


def all_backends() -> tuple[Backend, ...]:
    """Every back end."""
    _load()
    return tuple(backend_ for _, backend_ in _registry.items())


@Once
def _load() -> None:
    for name in _OURS:
        importlib.import_module(f"nodescope.engine.codegen.{name}")
    for entry in importlib.metadata.entry_points(group="nodescope.backend"):
        entry.load()
