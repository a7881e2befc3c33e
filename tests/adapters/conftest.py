"""Fixtures: one adapter's programs, with that adapter as the only one."""

from __future__ import annotations

import pytest

from nodescope.adapters import attached
from tests.adapters.cases import CASES, DISTANT, Case


@pytest.fixture(params=CASES, ids=[f"{case.dialect}{case.tap and '-'}{case.tap}" for case in CASES])
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Case:
    """Each adapter in turn."""
    case: Case = request.param
    monkeypatch.setattr(attached, "_OWN", (case.adapter,))
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", case.tap or "auto")
    return case


@pytest.fixture
def distant(monkeypatch: pytest.MonkeyPatch) -> Case:
    """The foreign adapter."""
    monkeypatch.setattr(attached, "_OWN", (DISTANT.adapter,))
    return DISTANT
