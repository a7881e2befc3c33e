"""The list of what is covered: complete, reasoned, and in the README."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope import ops
from nodescope.engine import coverage
from nodescope.errors import UnsupportedError

ROOT = Path(__file__).resolve().parents[4]


def test_the_readme_lists_the_ops_of_today() -> None:
    assert coverage.current(ROOT / "README.md"), "run python -m nodescope.engine.coverage --write"


def test_an_old_table_is_noticed_and_mended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{coverage.BEGIN}\nold\n{coverage.END}\nafter\n")
    assert coverage.main(["--readme", str(readme)]) == 1
    assert "is out of date" in capsys.readouterr().err
    assert coverage.main(["--readme", str(readme), "--write"]) == 0
    assert coverage.main(["--readme", str(readme)]) == 0
    text = readme.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert all(f"`{op.name}`" in text for op in ops.all_ops())


@pytest.mark.parametrize("module", [np, np.linalg, np.fft], ids=lambda m: m.__name__)
def test_every_function_is_covered_or_has_a_reason(module: object) -> None:
    assert "other" not in coverage.classified(module)  # type: ignore[arg-type]


def test_the_report_counts_every_op() -> None:
    families = coverage.by_family()
    assert sum(map(len, families.values())) == len(list(ops.all_ops()))
    assert f"{len(list(ops.all_ops()))} ops" in coverage.report()


def test_what_is_not_covered_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"np\.histogram2d is not traced"):
        np.histogram2d(ns.tensor([1.0]), ns.tensor([2.0]))
