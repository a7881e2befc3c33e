"""The back-end interface and registry.

Invariant: an unavailable back end gives the reason; a different one never runs without a message.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from nodescope.ir.provenance import MemoryReport
from nodescope.ops.op import Array
from nodescope.passes.pipeline import Lowered
from nodescope.plugins import plugins
from nodescope.registry import Once, Registry

Kernel = Callable[..., tuple[Array, ...]]
"""From the inputs of one node to its outputs, in fresh memory."""


class _Took(threading.local):
    """The time of a kernel's own code, without the call from Python.

    Attributes:
        span: Begin and end in nanoseconds of `time.perf_counter_ns`, set by kernels whose call is
            expensive compared to their work. A reader sets it to None before the call.
    """

    span: tuple[int, int] | None = None


took = _Took()


class Runner(Protocol):
    """A lowered graph, ready to run. Thread-safe.

    Attributes:
        memory: Memory of intermediate results, if planned.
        kernels: Kernels of single nodes, by id of each non-leaf node of the lowered graph.
            Bit-identical to what `run` computes there.
    """

    memory: MemoryReport | None
    kernels: Mapping[int, Kernel]

    @property
    def source(self) -> str:
        """The generated source, or ``""``."""

    def run(self, feeds: Sequence[Any]) -> list[Array]:
        """Run the graph; return its outputs.

        Args:
            feeds: For each input of the graph an array of its shape and dtype, of any strides, or
                a Python float for a scalar that promotes weakly.
        """

    def run_timed(self, feeds: Sequence[Any], stamps: Array) -> list[Array]:
        """`run`, noting when nodes begin and end.

        Args:
            feeds: As for `run`.
            stamps: int64 of shape (2 n,) for n non-leaf nodes in the graph's order: begin and end
                of each, in nanoseconds of `time.perf_counter_ns`.
        """


class Backend(Protocol):
    """A way to run lowered graphs. ``exact``: results are bit-equal to the traced graph's."""

    name: str
    exact: bool

    def missing(self) -> str:
        """Why the back end is unavailable here, in one sentence, or ``""``."""

    def build(self, lowered: Lowered) -> Runner:
        """Prepare a lowered graph for running."""


_registry: Registry[Backend] = Registry("back end")
_OURS = ("interpret", "numpy_backend", "c_backend")


def backend(backend_: Backend) -> Backend:
    """Register a back end. Raises `RegistryError` if its name is taken."""
    return _registry.add(backend_.name, backend_)


def get(name: str) -> Backend:
    """The back end with a name. Raises `RegistryError` with similar names."""
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
    for entry in plugins("nodescope.backend"):
        entry.load()
