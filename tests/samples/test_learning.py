"""Each sample runs as a user runs it, from any directory, and reaches its figure."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
TIMEOUT_S = 270.0  # the longest takes 40 s on an idle machine

pytestmark = pytest.mark.timeout(TIMEOUT_S + 10)


def output_of(sample: str, *arguments: str, cwd: Path) -> str:
    """Run a sample, and return its output. It must neither fail nor warn."""
    done = subprocess.run(
        [sys.executable, str(SAMPLES / sample), *arguments],
        cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def figure(output: str, name: str) -> float:
    """The number of that name in the last line that has it."""
    result = re.findall(rf"^{name} (-?[\d.]+)$", output, re.M)
    assert result, output
    return float(result[-1])


def test_cnn_reads_digits(tmp_path: Path) -> None:
    assert figure(output_of("digits_cnn.py", cwd=tmp_path), "accuracy") >= 0.98


def test_transformer_learns_to_write(tmp_path: Path) -> None:
    output = output_of("char_transformer.py", cwd=tmp_path)
    assert figure(output, "loss") < 2.0
    assert "Shall I " in output


def test_lstm_adds(tmp_path: Path) -> None:
    output = output_of("lstm_adding.py", cwd=tmp_path)
    assert figure(output, "error") < 0.01
    assert len(re.findall(r"^length +\d+  error", output, re.M)) == 8


@pytest.mark.parametrize(
    ("sample", "arguments"),
    [("digits_cnn.py", ("--epochs", "2")), ("char_transformer.py", ("--steps", "20"))],
)
def test_compiled_is_the_same_to_the_bit(
    sample: str, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    eager = output_of(sample, *arguments, cwd=tmp_path)
    assert output_of(sample, *arguments, "--compiled", cwd=tmp_path) == eager


def test_line_is_found_twice(tmp_path: Path) -> None:
    output = output_of("linear_regression.py", cwd=tmp_path)
    eager, static = re.findall(r"slope (\S+)  offset (\S+)$", output, re.M)
    assert eager == static
    assert float(eager[0]) == pytest.approx(3.0, abs=0.05)
    assert float(eager[1]) == pytest.approx(-2.0, abs=0.05)


def test_graph_by_hand(tmp_path: Path) -> None:
    output = output_of("graph_by_hand.py", cwd=tmp_path)
    assert re.findall(r"^member +(\d+)  rank (\S+)$", output, re.M) == [
        ("33", "0.1009"), ("0", "0.0970"), ("32", "0.0717"),
    ]  # fmt: skip
    assert figure(output, "undamped") == pytest.approx(1 / 34, abs=1e-4)
    assert figure(output, "friends") == 16
