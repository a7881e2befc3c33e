"""Detectors of faults: the suites' checks, on the directed graphs and on some random ones.

Invariant: without a fault, no detector reports one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nodescope.engine.codegen.backend import get
from nodescope.engine.codegen.numpy_backend import place
from nodescope.passes import fuse
from nodescope.passes.pipeline import LoweringOptions
from tests.conformance.graphs.backend_checks import check_backend, check_threads
from tests.conformance.graphs.checks import check_lowered
from tests.conformance.graphs.making import Case
from tests.conformance.graphs.random_graph import random_case
from tests.conformance.graphs.running import Traced
from tests.conformance.graphs.suite import seeds
from tests.conformance.planted import Patch
from tests.conformance.planted.directed import directed

RANDOM = 30


def cases(count: int = RANDOM) -> Iterator[Case]:
    """The directed graphs, then random ones."""
    yield from directed()
    yield from seeds(0, count)


def case_of(name: str) -> Case:
    """A directed graph, or the random one named ``seed N``."""
    seed = name.removeprefix("seed ")
    if seed != name:
        return random_case(int(seed))
    return next(case for case in directed() if case.name == name)


def passes() -> None:
    """All passes, as for NumPy."""
    for case in cases():
        check_lowered(case, Traced(case))


def c_passes() -> None:
    """All passes, as for C."""
    for case in cases():
        check_lowered(case, Traced(case), options=LoweringOptions(backend="c"))


def numpy_backend() -> None:
    """The back end ``numpy``."""
    for case in cases():
        check_backend(case, get("numpy"))


def small_tiles(patch: Patch) -> None:
    """Make arrays of any size use loops over tiles of a few elements."""
    patch.setattr(fuse, "TILED", 1)
    patch.setattr(place, "TILED_FROM", 0)
    patch.setattr(place, "TILE_BYTES", 64)


def tiles() -> None:
    """The back end ``numpy`` with small tiles."""
    import pytest

    with pytest.MonkeyPatch.context() as patch:
        small_tiles(patch)
        numpy_backend()


def threads() -> None:
    """The back end ``numpy`` from several threads."""
    for case in directed():
        check_threads(case, get("numpy"))


def c_backend() -> None:
    """The back end ``c``."""
    for case in cases(4):
        check_backend(case, get("c"))


DETECTORS: dict[str, Callable[[], None]] = {
    "passes": passes, "c passes": c_passes, "numpy": numpy_backend, "tiles": tiles,
    "threads": threads, "c": c_backend,
}  # fmt: skip


BACKENDS = {
    "passes": "numpy", "c passes": "c", "numpy": "numpy", "tiles": "numpy", "threads": "numpy",
    "c": "c",
}  # fmt: skip
"""The back end of each detector."""


def usable(name: str) -> bool:
    """Whether a detector can be used on this machine."""
    return name != "c" or not get("c").missing()
