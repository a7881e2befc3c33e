"""Do the suites find faults? Each planted fault is found by its detector; without one, none is."""

from __future__ import annotations

import pytest

from tests.conformance.planted import Planted, all_planted
from tests.conformance.planted.detectors import DETECTORS, usable

ALL = all_planted()


@pytest.mark.parametrize("name", [each for each in DETECTORS if usable(each)])
def test_nothing_is_found_without_a_fault(name: str) -> None:
    DETECTORS[name]()


FIRST = {each.found_by: each for each in reversed(ALL)}
"""One fault of each detector, which is planted by `make test` too."""
FAULTS = [
    pytest.param(each, marks=() if FIRST[each.found_by] is each else pytest.mark.deep, id=each.name)
    for each in ALL
    if usable(each.found_by)
]


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_found(fault: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.plant(monkeypatch)
    with pytest.raises(Exception, match=r"[\s\S]"):
        DETECTORS[fault.found_by]()


def test_there_are_enough_faults() -> None:
    assert len(ALL) >= 20
    assert {each.found_by for each in ALL} >= {"passes", "c passes", "numpy", "tiles"}
