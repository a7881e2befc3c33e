"""Each planted fault is detected by its detector; without a fault, nothing is reported."""

from __future__ import annotations

import pytest

from tests.conformance.planted import Planted, all_planted
from tests.conformance.planted.detectors import DETECTORS, usable

ALL = all_planted()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", [item for item in DETECTORS if usable(item)])
def test_nothing_is_found_without_a_fault(name: str) -> None:
    DETECTORS[name]()


FIRST = {item.found_by: item for item in reversed(ALL)}
"""One fault per detector, which `make test` plants too."""
FAULTS = [
    pytest.param(item, marks=() if FIRST[item.found_by] is item else pytest.mark.deep, id=item.name)
    for item in ALL
    if usable(item.found_by)
]


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_found(fault: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.plant(monkeypatch)
    with pytest.raises(Exception, match=r"[\s\S]"):
        DETECTORS[fault.found_by]()


def test_there_are_enough_faults() -> None:
    assert len(ALL) >= 20
    assert {item.found_by for item in ALL} >= {"passes", "c passes", "numpy", "tiles"}
