"""The benchmark of whole processes gives a ratio of what it ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import wall
from bench.__main__ import GROUPS


@pytest.mark.deep
def test_a_script_as_a_whole_process(tmp_path: Path) -> None:
    script = tmp_path / "one.py"
    script.write_text("import nodescope as ns\nns.tensor([1.0]) + 1\n")
    row = wall.row("one", [str(script)], 1)
    assert row.figure is not None
    assert row.figure > 0  # More than 1 on a quiet machine.
    assert "s unobserved" in row.detail
    assert "wall" in GROUPS
