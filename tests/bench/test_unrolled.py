"""The unrolled GRU of the benchmark; `tests/jax` compares it with jax."""

from __future__ import annotations

from bench import unrolled
from bench.programs.case import NUMPY


def test_the_program_is_compiled_with_the_given_settings() -> None:
    answer = unrolled.measured(NUMPY, "3")
    assert answer["missing"] == ""
    assert answer["nodes"] > 3 * 60
    assert answer["took"] > 0
