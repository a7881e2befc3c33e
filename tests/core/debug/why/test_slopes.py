"""A zero from the slope of a flat function is traced to the function's input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.debug.why import why
from nodescope.debug.why.rendering import sentence
from nodescope.record.recording import Recording


def _maximum(x: Any) -> Any:
    return np.maximum(x, 0)


def _where(x: Any) -> Any:
    return np.where(x > 0, x, 0.0)


@pytest.mark.parametrize(
    ("rectify", "forward", "backward"),
    [
        (_maximum, "maximum limits -3 to 0, and its slope is 0 there",
         "-3 > 0 is false, so the slope is 0 here"),
        (_where, "where puts 0 here, since greater is False", "-3 > 0 is false"),
    ],
)  # fmt: skip
def test_a_rectifier_leads_to_what_it_was_given(
    rectify: Callable[[Any], Any], forward: str, backward: str, tmp_path: Path
) -> None:
    with ns.record(tmp_path / "run.nscope", level="values"):
        w = ns.parameter(np.array([-1.5, 2.0]), name="w")
        for _ in ns.steps(range(1)):
            rectify(w * 2).sum().backward()
    with Recording.open(tmp_path / "run.nscope") as recording:
        name = rectify.__name__.removeprefix("_")
        said = why(recording, f"{name}[0]")
        assert forward in sentence(said.root)
        assert said.culprit.name == name
        assert any(cause.name == "multiply" for cause in said.root.chain())
        gradient = why(recording, "backward/where[0]")
        assert backward in sentence(gradient.root)
        chain = gradient.root.chain()
        assert any((cause.name, cause.number) == ("multiply", -3.0) for cause in chain)


def test_a_maximum_of_two_tensors_is_reported_as_before(tmp_path: Path) -> None:
    with ns.record(tmp_path / "run.nscope", level="values"):
        np.maximum(ns.tensor([-1.0, 2.0]), ns.tensor(np.zeros(2), name="floor"))
    with Recording.open(tmp_path / "run.nscope") as recording:
        assert why(recording, "maximum[0]").culprit.name == "floor"
