"""A real Jupyter kernel: what a user sees in a notebook."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodescope.record.recording import Recording
from tests.notebook import Kernel, isolated

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolated(tmp_path, monkeypatch)


@pytest.fixture
def server(environment: None) -> Iterator[None]:
    command = [sys.executable, "-m", "nodescope", "serve", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        printed = b""
        while b"http://" not in printed:
            line = process.stdout.readline()
            assert line, printed
            printed += line
        yield
        process.terminate()


@pytest.fixture
def kernel(environment: None) -> Iterator[Kernel]:
    kernel = Kernel()
    yield kernel
    kernel.end()


def test_cells_are_recorded_under_their_numbers(kernel, tmp_path) -> None:
    kernel.cell(
        "import numpy as np\nimport nodescope as ns\nfrom nodescope.debug.gate import python_stack"
    )
    kernel.cell("def f(x):\n    return np.exp(x)")
    kernel.cell(
        "with ns.record('cell.nscope', 'values') as run:\n"
        "    y = f(ns.tensor([1.0]))\n"
        "    frames = python_stack.user_stack()",
    )
    frames = kernel.cell("print([(frame.file, frame.line, frame.code) for frame in frames])")
    assert frames.strip() == "[('In[3]', 3, 'frames = python_stack.user_stack()')]"
    assert "matmul" in (raised := kernel.cell("y @ np.ones((2, 3))"))
    assert "(In[5]:1)" in raised

    with Recording.open(tmp_path / "cell.nscope") as recording:
        assert recording.run().name == "first model.ipynb"
        (exp,) = [row.node for row in recording.nodes() if row.node.op == "exp"]
        assert (exp.source.file, exp.source.line, exp.source.function) == ("In[2]", 2, "f")
        assert recording.source("In[2]") == "def f(x):\n    return np.exp(x)\n"


@pytest.mark.deep
def test_an_error_in_a_cell_is_not_how_the_session_ends(server, kernel, tmp_path) -> None:
    shown = kernel.cell("import nodescope as ns\nrun = ns.attach()\nrun")
    path = re.search(r"<nodescope run 'first model.ipynb': recording, (\S+)>", shown)
    assert path, shown
    assert Path(path[1]).name.startswith("first-model-")
    kernel.cell("ns.tensor([1.0]) + 1")
    assert "ZeroDivisionError" in kernel.cell("1 / 0")
    kernel.end()
    with Recording.open(path[1]) as recording:
        assert recording.run().status == 0
