"""A program requests the C back end without a compiler: one warning, the same numbers by NumPy."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = """
import sys
import numpy as np
import nodescope as ns

backend = sys.argv[1]
rng = np.random.default_rng(0)
w = ns.parameter(rng.standard_normal((6, 4)), np.float32, name="w")
optimizer = ns.optim.SGD([w], lr=0.1)
x = ns.tensor(rng.standard_normal((5, 6)).astype(np.float32))
labels = ns.tensor(rng.integers(0, 4, 5))

@ns.compile(backend=backend)
def step(x, labels):
    optimizer.zero_grad()
    loss = ns.cross_entropy(np.tanh(x @ w) * 2.0 + 1.0, labels)
    loss.backward()
    optimizer.step()
    return loss

@ns.compile(backend=backend)
def score(x):
    return np.exp(x @ w).sum()

for _ in range(3):
    print(step(x, labels).item().hex())
print(score(x).item().hex())
report = step.explain().traces[0].compiled[0]
print(report.backend, "|", report.fallback)
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[list[str], list[str]]]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    def run(backend: str, full: bool = False, **variables: str) -> tuple[list[str], list[str]]:
        """Run the program. Returns its output, and its lines that are warnings."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("NODESCOPE_")}
        environment |= {"NODESCOPE_CACHE": str(tmp_path / "cache"), **variables}

        def disk_full() -> None:
            # Writing more bytes than this fails, as on a full disk.
            resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))

        result = subprocess.run(
            [sys.executable, str(program), backend], env=environment, capture_output=True,
            text=True, check=False, preexec_fn=disk_full if full else None,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        warnings = [line for line in result.stderr.splitlines() if "Warning: " in line]
        return result.stdout.splitlines(), warnings

    return run


def broken(folder: Path) -> str:
    """A compiler that always fails."""
    path = folder / "broken-cc"
    path.write_text("#!/bin/sh\necho internal error >&2\nexit 4\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", ["no compiler", "broken compiler", "full disk"])
def test_numpy_runs_with_one_warning(
    kind: str, run: Callable[..., tuple[list[str], list[str]]], tmp_path: Path
) -> None:
    numbers, quiet = run("numpy")
    assert not quiet
    assert numbers[-1] == "numpy | "
    if kind == "no compiler":
        result, warnings = run("c", PATH=str(tmp_path), CC="", NODESCOPE_CC="")
    elif kind == "broken compiler":
        result, warnings = run("c", NODESCOPE_CC=broken(tmp_path))
    else:
        result, warnings = run("c", full=True)
    assert result[:-1] == numbers[:-1]
    backend, _, reason = result[-1].partition(" | ")
    assert backend == "numpy"
    assert len(reason) > 10
    assert len(warnings) == 1, warnings
    assert "program.py" in warnings[0]
    assert "numpy" in warnings[0]


@pytest.mark.deep
def test_a_cache_that_cannot_be_written(
    run: Callable[..., tuple[list[str], list[str]]], tmp_path: Path
) -> None:
    """C still works, from a folder of this process only; a message says so once."""
    in_the_way = tmp_path / "a-file"
    in_the_way.write_text("")
    result, warnings = run("c", NODESCOPE_CACHE=str(in_the_way))
    numbers, _ = run("numpy")
    assert len(warnings) == 1, warnings
    for number, exact in zip(result[:-1], numbers[:-1], strict=True):
        assert float.fromhex(number) == pytest.approx(float.fromhex(exact), rel=1e-6)


def test_auto_takes_numpy_without_a_word(
    run: Callable[..., tuple[list[str], list[str]]], tmp_path: Path
) -> None:
    result, warnings = run("auto", PATH=str(tmp_path), CC="", NODESCOPE_CC="")
    assert result[-1].startswith("numpy | ")
    assert not warnings
