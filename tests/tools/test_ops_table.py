"""The list of covered ops: complete, with reasons, and in the README."""

from __future__ import annotations

import numpy as np
import pytest

import nodescope as ns
from nodescope import ops
from nodescope.errors import UnsupportedError
from tools import ops_table


def test_the_readme_lists_the_ops_of_today(capsys: pytest.CaptureFixture[str]) -> None:
    assert ops_table.main([]) == 0
    assert f"{len(list(ops.all_ops()))} ops" in capsys.readouterr().out
    text = ops_table.README.read_text()
    assert all(f"`{op.name}`" in text for op in ops.all_ops())


@pytest.mark.parametrize("module", [np, np.linalg, np.fft], ids=lambda m: m.__name__)
def test_every_function_is_covered_or_has_a_reason(module: object) -> None:
    assert "other" not in ops_table.classified(module)  # type: ignore[arg-type]


def test_every_op_is_in_one_family() -> None:
    families = ops_table.by_family()
    assert sum(map(len, families.values())) == len(list(ops.all_ops()))


def test_what_is_not_covered_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"np\.histogram2d is not traced"):
        np.histogram2d(ns.tensor([1.0]), ns.tensor([2.0]))
