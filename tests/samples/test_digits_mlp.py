"""The sample runs as a user runs it, from any directory, and learns."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "digits_mlp.py"


def test_digits_mlp_reads_digits(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SAMPLE)],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    assert len(re.findall(r"^epoch +\d+  loss \d\.\d{4}$", done.stdout, re.M)) == 12
    match = re.search(r"^accuracy (\d\.\d+)$", done.stdout, re.M)
    assert match
    assert float(match[1]) >= 0.95
