"""Fixtures: one adapter's programs, with that adapter as the only one.

A test runs with each adapter that declares the capabilities that the test ``needs``:
``@pytest.mark.needs("gradients")``, or ``@pytest.mark.needs(immutable=False)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from nodescope.adapters import attached
from nodescope.ir.capabilities import has
from tests.adapters.cases import CASES, DISTANT, Case


def _declares(case: Case, marker: pytest.Mark) -> bool:
    declared = case.capabilities
    exactly = all(getattr(declared, name) == value for name, value in marker.kwargs.items())
    return exactly and all(has(declared, feature) for feature in marker.args)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" not in metafunc.fixturenames:
        return
    markers = list(metafunc.definition.iter_markers("needs"))
    cases = [case for case in CASES if all(_declares(case, marker) for marker in markers)]
    params = [pytest.param(case, id=case.name, marks=case.marks) for case in cases]
    metafunc.parametrize("case", params, indirect=True)


@pytest.fixture(scope="session")
def surroundings() -> Iterator[Callable[[Case], None]]:
    """Enter the context that a case's programs need; it is left after the last test."""
    entered: set[str] = set()
    with ExitStack() as stack:

        def enter(case: Case) -> None:
            if case.name not in entered:
                entered.add(case.name)
                stack.enter_context(case.around())

        yield enter


@pytest.fixture
def case(
    request: pytest.FixtureRequest,
    surroundings: Callable[[Case], None],
    monkeypatch: pytest.MonkeyPatch,
) -> Case:
    """Each adapter in turn."""
    case: Case = request.param
    surroundings(case)
    monkeypatch.setattr(attached, "_OWN", (case.adapter,))
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", case.tap or "auto")
    return case


@pytest.fixture
def distant(monkeypatch: pytest.MonkeyPatch) -> Case:
    """The foreign adapter."""
    monkeypatch.setattr(attached, "_OWN", (DISTANT.adapter,))
    return DISTANT
