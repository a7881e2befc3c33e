"""The cross-check: no alarm without a fault, and each planted fault is named."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from nodescope.engine.crosscheck.checker import CrossCheck
from nodescope.engine.static.lowering import Lowering, Wish
from nodescope.ir.differences import FunctionCheck
from nodescope.ops.plan import Plan
from tests.conformance.graphs.making import Case
from tests.conformance.planted import all_planted
from tests.conformance.planted.detectors import BACKENDS, cases, small_tiles, usable
from tests.conformance.planted.named import NAMED
from tests.parts import in_parts

RANDOM = 30
LATER = ("one_layout", "shared_buffers")
"""Faults that show only in the second call."""
FAULTS = {item.name: item for item in all_planted() if usable(item.found_by)}


def checked(case: Case, backend: str, feeds: Sequence[Sequence[Any]] = ()) -> FunctionCheck:
    """The findings in some calls of a case, by default in two calls with its own feeds."""
    lowering = Lowering(
        Plan(case.graph, case.arrays), case.graph, case.arrays, Wish(backend), case.name
    )
    check = CrossCheck()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if lowering.ready() is None:
            check.failed(lowering, 1)
        else:
            for step, given in enumerate(feeds or [case.feeds] * 2, 1):
                check.call(lowering, 1, step, given)
    return check.report().functions[0]


def in_fortran_order(case: Case) -> list[Any]:
    return [np.array(feed, order="F") if isinstance(feed, np.ndarray) else feed
            for feed in case.feeds]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("backend", [name for name in ("numpy", "c") if usable(name)])
def test_no_alarm_without_a_fault(backend: str) -> None:
    count = RANDOM if backend == "numpy" else 3
    for case in cases(count):
        check = checked(case, backend, [case.feeds, in_fortran_order(case), case.feeds])
        assert check.difference is None, case.name
        assert check.calls == 3
        assert check.exact is (backend == "numpy")


@in_parts(8)
@pytest.mark.parametrize("name", list(FAULTS))
def test_a_planted_fault_is_named(name: str) -> None:
    fault = FAULTS[name]
    case_name, kind, culprit = NAMED[name]
    with pytest.MonkeyPatch.context() as patch:
        if fault.found_by == "tiles":
            small_tiles(patch)
        fault.plant(patch)
        case = next(case for case in cases(RANDOM) if case.name == case_name)
        feeds = [case.feeds, in_fortran_order(case)] if name == "one_layout" else ()
        difference = checked(case, BACKENDS[fault.found_by], feeds).difference
    assert difference is not None
    assert difference.kind == kind
    named = {*difference.rules, difference.kernel_name} - {""}
    assert culprit in named if culprit else not named
    assert difference.step == (2 if name in LATER else 1)


def test_every_planted_fault_has_a_name() -> None:
    assert {item.name for item in all_planted()} == NAMED.keys()


def test_a_fault_that_bites_late_is_found_where_it_bites() -> None:
    """The values decide in which call the fault has an effect: NaN appears in the third."""
    case = next(case for case in cases(0) if case.name == "rows")
    sound = [np.nan_to_num(feed, nan=1.0, neginf=-3.0) for feed in case.feeds]
    with pytest.MonkeyPatch.context() as patch:
        FAULTS["nan_lost"].plant(patch)
        check = checked(case, "numpy", [sound, sound, case.feeds, sound])
    assert check.calls == 4
    assert check.difference is not None
    assert (check.difference.step, check.difference.call) == (3, 3)
    assert check.difference.op == "max"
    assert check.difference.amount is not None
    assert check.difference.amount.expected == "nan"


def test_a_fault_of_the_check_ends_the_check_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> Any:
        raise RuntimeError("no")

    monkeypatch.setattr("nodescope.engine.crosscheck.checker.every_value", broken)
    check = checked(next(iter(cases(0))), "numpy")
    assert check.calls == 2
    assert check.difference is None
    assert check.fault == "RuntimeError: no"
