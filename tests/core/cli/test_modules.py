"""A script that is named as a module runs as under ``python -m``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MAIN = """
import sys
from .part import NUMBER
print(__name__, __package__, __spec__.name, sys.argv, sys.path[0], NUMBER)
"""


def run(folder: Path, *command: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "train"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "part.py").write_text("NUMBER = 3\n")
    (folder / "__main__.py").write_text(MAIN)
    (folder / "step.py").write_text(MAIN)
    return tmp_path


@pytest.mark.one_in(2)
@pytest.mark.parametrize("module", ["train", "train.step"])
def test_a_module_runs_as_under_python(package: Path, module: str) -> None:
    plain = run(package, "-m", module, "a", "--b")
    observed = run(
        package, "-m", "nodescope", "run", "--no-browser", "--no-stop-on-entry", "--exit", "-m",
        module, "a", "--b",
    )  # fmt: skip
    assert observed[:2] == plain[:2] == (0, plain[1])
    assert list((package / ".nodescope" / "runs").glob(f"{module}-*.nscope"))


def test_check_takes_modules(package: Path) -> None:
    status, output, _ = run(package, "-m", "nodescope", "check", "-m", "train.step")
    assert status == 1  # Nothing in the module is observed.
    assert "train.step ended with status 0" in output


@pytest.mark.one_in(2)
@pytest.mark.parametrize("module", ["no.such", "nothing", "math"])
def test_a_module_that_cannot_be_run(package: Path, module: str) -> None:
    status, _, error = run(package, "-m", "nodescope", "run", "--no-browser", "-m", module)
    assert status == 2
    assert f"no module {module!r}" in error
