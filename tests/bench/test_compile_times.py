"""The rows of compile times can be measured."""

from __future__ import annotations

import pytest

from bench.compile_times import measured
from bench.programs.case import NUMPY


@pytest.mark.deep
def test_a_first_call_is_divided_into_its_parts() -> None:
    answer = measured("chain", NUMPY)
    assert answer["missing"] == ""
    assert 0 < answer["passes"] < answer["took"]
    assert answer["loading"] > 0
