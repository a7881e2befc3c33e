"""Every usable back end, on random graphs, gradients and training steps.

`tests.conformance.graphs.backend_checks` has the requirements. A new back end is covered as soon as
it is registered.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nodescope.engine.codegen.backend import Backend, all_backends
from tests.conformance.graphs import Case
from tests.conformance.graphs.backend_checks import check_backend, check_threads
from tests.conformance.graphs.loops import control_cases, control_gradients
from tests.conformance.graphs.networks import NETWORKS, gradient_cases, network
from tests.conformance.graphs.single import every_op
from tests.conformance.graphs.suite import holds, seeds
from tests.conformance.planted.detectors import small_tiles
from tests.depth import count

USABLE = [all_backend for all_backend in all_backends() if not all_backend.missing()]
QUICK = [item for item in USABLE if item.exact]
PART = 20  # seeds per test
GRAPHS, SLOW_GRAPHS = count(300, PART), count(40)


def name(item: Backend) -> str:
    return item.name


def count_of(backend: Backend) -> int:
    return GRAPHS if backend.exact else SLOW_GRAPHS


PARTS = [(item, first) for item in USABLE for first in range(0, count_of(item), PART)]


@pytest.mark.parametrize(("backend", "first"), PARTS, ids=lambda item: getattr(item, "name", item))
def test_random_graphs(backend: Backend, first: int) -> None:
    holds(lambda case: check_backend(case, backend), seeds(first, min(PART, count_of(backend))))


@pytest.mark.parametrize("backend", USABLE, ids=name)
def test_loops_and_branches(backend: Backend) -> None:
    holds(
        lambda case: check_backend(case, backend),
        control_cases(0, max(SLOW_GRAPHS, count_of(backend) // 2)),
    )


@pytest.mark.parametrize("backend", USABLE, ids=name)
def test_gradients_of_loops(backend: Backend) -> None:
    first = max(2, count_of(backend) // 4)
    holds(lambda case: check_backend(case, backend), control_gradients(0, first))


@pytest.mark.parametrize("backend", QUICK, ids=name)
def test_kernels_of_any_size(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of any size use loops over tiles here."""
    small_tiles(monkeypatch)
    holds(lambda case: check_backend(case, backend), seeds(0, count_of(backend)))


@pytest.mark.parametrize("backend", USABLE, ids=name)
def test_forward_and_backward(backend: Backend) -> None:
    holds(lambda case: check_backend(case, backend), gradient_cases(0, count_of(backend) // 2))


@pytest.mark.parametrize("backend", USABLE, ids=name)
@pytest.mark.parametrize("make_case", NETWORKS, ids=lambda item: item.__name__)
def test_training_steps(make_case: Callable[[], Case], backend: Backend) -> None:
    holds(lambda case: check_backend(case, backend), [network(make_case)])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("backend", QUICK, ids=name)
def test_every_op_alone(backend: Backend) -> None:
    holds(lambda case: check_backend(case, backend), every_op())


@pytest.mark.one_in(3)
@pytest.mark.parametrize("backend", USABLE, ids=name)
def test_threads(backend: Backend) -> None:
    for case in (*seeds(0, max(2, count_of(backend) // 10)), *map(network, NETWORKS)):
        check_threads(case, backend)


@pytest.mark.parametrize("backend", USABLE, ids=name)
def test_without_other_passes(backend: Backend) -> None:
    holds(lambda case: check_backend(case, backend, ("dce",)), seeds(0, count(PART)))
