"""The wheel holds both packages and the built page, and nothing of the workshop."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_wheel_holds_the_page(tmp_path: Path) -> None:
    # The page that `make setup` built is packed as it is; building it anew is `pip install .`.
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NODESCOPE_SKIP_WEB": "1"},
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    page = "nodescope_server/_web"
    wanted = {
        "nodescope/__init__.py", "nodescope/py.typed", "nodescope/engine/tensor.py",
        "nodescope_server/__main__.py", f"{page}/index.html", f"{page}/export.js",
    }  # fmt: skip
    assert wanted <= names
    assert any(n.startswith(f"{page}/assets/") and n.endswith(".js") for n in names)
    assert any(n.startswith(f"{page}/fonts/") for n in names)
    strays = [n for n in names if n.split("/")[0] in ("tests", "web", "bench", "samples")]
    assert not strays
    generators = {
        "nodescope/debug/watch/rule_table.py", "nodescope/engine/coverage.py",
        "nodescope_server/typescript.py",
    }  # fmt: skip
    assert not generators & names
    for generator in generators:  # nothing that is shipped needs them
        module = generator.removesuffix(".py").replace("/", ".")
        package, _, name = module.rpartition(".")
        imports = (f"import {module}", f"from {module} ", f"from {package} import {name}")
        assert [n for n in names if n.endswith(".py") and any(
            line.strip().startswith(imports)
            for line in zipfile.ZipFile(wheel).read(n).decode().splitlines()
        )] == []  # fmt: skip
