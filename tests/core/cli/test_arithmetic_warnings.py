"""Warnings from the program's arithmetic name the program's own lines."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.cli.arithmetic_warnings import at_user_lines
from nodescope.engine import tracer
from nodescope.events import Bus
from nodescope.origins import is_ours

LINES = Path(__file__).read_text().splitlines()
LOG, DIVIDE = (
    next(i for i, line in enumerate(LINES, 1) if line.endswith(f"# {mark}"))
    for mark in ("log", "divide")
)
Shown = list[tuple[str, int, str]]


def program() -> None:
    x = ns.tensor(np.array([-1.0, 0.0]))
    for _ in range(2):
        np.log(x)  # log
        1.0 / x  # divide


@pytest.fixture(params=["free", "observed"])
def shown(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Shown:
    results: Shown = []

    def show(message, category, filename, lineno, file=None, line=None):
        results.append((Path(filename).name, lineno, str(message)))

    with warnings.catch_warnings():
        monkeypatch.setattr(warnings, "showwarning", show)
        if request.param == "observed":
            tracer.observe(Bus())
        yield results
        if request.param == "observed":
            tracer.unobserve()
        assert warnings.showwarning is show


HERE = r"nodescope\.engine|.*test_arithmetic_warnings"
"""The modules where NumPy warns: a call in the native core has no frame of nodescope's."""

WANTED = [
    (LOG, "divide by zero encountered in log"),
    (LOG, "invalid value encountered in log"),
    (DIVIDE, "divide by zero encountered in divide"),
]


@pytest.mark.parametrize(("action", "times"), [("default", 1), ("always", 2), ("ignore", 0)])
def test_warnings_are_shown_at_the_users_lines(shown: Shown, action: str, times: int) -> None:
    warnings.simplefilter(action)  # type: ignore[arg-type]
    with at_user_lines(is_ours):
        program()
    assert shown == [(Path(__file__).name, *item) for item in WANTED] * times


def test_filters_choose(shown: Shown) -> None:
    warnings.simplefilter("always")
    warnings.filterwarnings("ignore", "invalid value", RuntimeWarning)
    warnings.filterwarnings("default", "divide by zero", RuntimeWarning, HERE)
    with at_user_lines(is_ours):
        program()
    assert [item[1:] for item in shown] == [WANTED[0], WANTED[2]]


def test_other_warnings_stay_where_they_are(shown: Shown) -> None:
    warnings.simplefilter("always")
    with at_user_lines(is_ours):
        warnings.warn("mine", UserWarning, stacklevel=1)
        np.log(np.array([-1.0]))
    assert [item[0] for item in shown] == [Path(__file__).name] * 2


def test_errors_are_errors(shown: Shown) -> None:
    warnings.simplefilter("error")
    with at_user_lines(is_ours), pytest.raises(RuntimeWarning, match="divide by zero"):
        program()
    assert shown == []
