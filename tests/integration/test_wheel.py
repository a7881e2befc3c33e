"""The wheel contains both packages and the built page, and no development files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.deep
def test_the_wheel_holds_the_page(tmp_path: Path) -> None:
    # Pack the page that `make setup` built; `pip install .` would build it again.
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NODESCOPE_SKIP_WEB": "1"},
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    # The native core is built for this platform and any Python.
    assert "-cp311-abi3-" in wheel.name
    names = set(zipfile.ZipFile(wheel).namelist())
    page = "nodescope_server/_web"
    wanted = {
        "nodescope/__init__.py", "nodescope/py.typed", "nodescope/engine/tensor.py",
        "nodescope/_docs/supported.md", "nodescope/_docs/watches.md",
        "nodescope/native/_core.abi3.so",
        "nodescope_server/__main__.py", f"{page}/index.html", f"{page}/export.js",
    }  # fmt: skip
    assert wanted <= names
    assert any(n.startswith(f"{page}/assets/") and n.endswith(".js") for n in names)
    assert any(n.startswith(f"{page}/fonts/") for n in names)
    strays = [n for n in names if n.split("/")[0] in ("tests", "tools", "web", "bench", "samples")]
    assert not strays


def test_without_a_compiler_it_is_a_pure_wheel(tmp_path: Path) -> None:
    # Build a copy, so the native core that this checkout uses is not replaced.
    root = tmp_path / "source"
    for name in ("core", "server"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "docs", root / "docs", ignore=shutil.ignore_patterns("images"))
    for name in ("pyproject.toml", "hatch_build.py", "README.md"):
        shutil.copy(ROOT / name, root)
    (root / "core/nodescope/native/_core.abi3.so").unlink()
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=root, env={**os.environ, "NODESCOPE_SKIP_WEB": "1", "CC": "no-such-compiler"},
        check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [n for n in zipfile.ZipFile(wheel).namelist() if n.endswith(".so")]
