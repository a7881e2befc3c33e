"""Commands, the server and their child processes run no code from the current folder.

The current folder has a module with the name of each that the server, an export or a command
imports, which leaves a mark if it runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

import nodescope as ns
from nodescope.cli.server_process import Server
from nodescope.processes import NICE, own_command, own_environment, program_command
from tests import depth

TIMEOUT_S = 60.0
MODULES = """
import sys
from nodescope import cli
from nodescope.cli import check, compare, dap, demo, doctor, export, passes, run, runs, why
import nodescope.export.svg, nodescope.export.dot
import nodescope_server.__main__, py_mini_racer, uvicorn.protocols.http.h11_impl
import uvicorn.protocols.websockets.websockets_sansio_impl, uvicorn.loops.asyncio
import uvicorn.lifespan.on, webbrowser, resource
print(*sorted({each.partition(".")[0] for each in sys.modules}))
"""
# Modules that would be imported if they were installed.
OPTIONAL = (
    "uvloop httptools orjson ujson dotenv email_validator multipart sitecustomize usercustomize"
)
OURS = {"__main__", "__mp_main__", "sys", "builtins", "nodescope", "nodescope_server"}
# What `python -m` and the console script import before nodescope.
BEFORE = """
import sys, re, runpy, __future__
print("sitecustomize", *{each.partition(".")[0] for each in sys.modules})
"""
# The console script as pip writes it.
COMMAND = """import re
import sys
from nodescope.cli import main
if __name__ == '__main__':
    sys.exit(main())
"""


@pytest.fixture(scope="module")
def names() -> set[str]:
    """Every top-level module that is imported."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", MODULES], capture_output=True, text=True, check=True
    )
    result = {*done.stdout.split(), *OPTIONAL.split()} - OURS
    assert {"asyncio", "uvicorn", "numpy", "email", "h11"} <= result
    return {item for item in result if item.isidentifier()}


@pytest.fixture
def planted(tmp_path: Path, names: set[str]) -> Iterator[Path]:
    """A folder full of them, with a recording; none was run at the end."""
    with ns.record(tmp_path / "run.nscope"):
        np.exp(ns.tensor(np.ones(3)))
    marks = tmp_path / "marks"
    marks.mkdir()
    for name in names:
        mark = f"open({str(marks / name)!r}, 'w').close()\n"
        (tmp_path / f"{name}.py").write_text(f"{mark}raise ImportError('planted')\n")
    yield tmp_path
    assert sorted(os.listdir(marks)) == []


def run(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "HEADLESS": "1", **variables},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def spare_python(folder: Path) -> None:
    """Take away what the interpreter imports from there before anything of ours is run."""
    before = [sys.executable, "-P", "-c", BEFORE]
    for part in subprocess.run(before, capture_output=True, text=True, check=True).stdout.split():
        (folder / f"{part}.py").unlink(missing_ok=True)


@pytest.mark.parametrize(
    "variables", depth.some([{"PYTHONPATH": "."}, {"PYTHONPATH": os.pathsep}, {}], 3)
)
def test_the_server_imports_nothing_from_the_current_folder(
    planted: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    monkeypatch.chdir(planted)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    server = Server(0, (planted / "run.nscope",))
    try:
        assert server.url.startswith("http://127.0.0.1:")
    finally:
        server.stop()


def test_the_environment_does_not_change_what_the_server_imports(
    planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(planted / "asyncio.py", planted / "startup.py")
    for name in ("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE"):
        monkeypatch.setenv(name, str(planted))
    monkeypatch.setenv("PYTHONSTARTUP", str(planted / "startup.py"))
    monkeypatch.setenv("PYTHONINSPECT", "1")
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    monkeypatch.setenv("WEB_CONCURRENCY", "several")
    monkeypatch.setenv("WEBSOCKETS_MAX_BODY_SIZE", "much")
    server = Server(0)
    server.stop()


@pytest.mark.deep
def test_commands_import_nothing_from_the_current_folder(planted: Path) -> None:
    (planted / "bin").mkdir()
    script = planted / "bin" / "nodescope"
    script.write_text(COMMAND)
    run(planted, sys.executable, str(script), "export", "run.nscope", "-o", "graph.svg")
    run(planted, sys.executable, str(script), "doctor", "--port", "0")
    why = ("why", "run.nscope")
    run(planted, sys.executable, str(script), *why)
    spare_python(planted)
    run(planted, sys.executable, "-m", "nodescope", *why)
    run(planted, sys.executable, str(script), *why, PYTHONPATH=os.pathsep)
    checked = ("check", "--watch", "nan", "run.nscope")
    for command in (("runs",), ("passes",), ("dap",), checked):
        run(planted, sys.executable, str(script), *command, PYTHONPATH=os.pathsep)


def test_what_runs_a_program_imports_nothing_before_it(planted: Path) -> None:
    (planted / "program.py").write_text("print('done')")
    (planted / "program").mkdir()
    script = (planted / "program.py").rename(planted / "program" / "program.py")
    recorded = ("--record", str(planted / "two.nscope"), "--level", "values")
    done = run(planted, *program_command("nodescope.cli.recorded_script", *recorded, str(script)))
    assert done.stdout == "done\n"
    spare_python(planted)
    ran = ("run", "--port", "0", "--no-browser", "--exit", str(script))
    done = run(planted, sys.executable, "-m", "nodescope", *ran)
    assert done.stdout == "done\n"


@pytest.mark.parametrize("flags", depth.some([(), ("-P",)], 2))
def test_a_program_has_the_path_of_plain_python(tmp_path: Path, flags: tuple[str, ...]) -> None:
    (tmp_path / "beside.py").write_text("")
    script = tmp_path / "script.py"
    script.write_text("import sys, json; print(json.dumps(sys.path))\n")
    plain = run(tmp_path, sys.executable, *flags, str(script), PYTHONPATH="some:.")
    head, *command = program_command(
        "nodescope.cli.recorded_script", "--record", "x.nscope", str(script)
    )
    watched = run(tmp_path, head, *flags, *command, PYTHONPATH="some:.")
    by_module = run(
        tmp_path, sys.executable, *flags, "-m", "nodescope", "run", "--port", "0", "--no-browser",
        "--exit", str(script), PYTHONPATH="some:.",
    )  # fmt: skip
    assert watched.stdout == plain.stdout
    assert by_module.stdout == plain.stdout


def test_a_dependency_that_only_the_path_of_python_has_is_found_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "uvicorn").mkdir()
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(tmp_path / "other"), ""]))
    done = subprocess.run(
        [*own_command("timeit", "-n", "1", "-r", "1", "-s", "import sys", "print(sys.path)")],
        env=own_environment(), capture_output=True, text=True, check=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    path = msgspec.json.decode(done.stdout.splitlines()[0].replace("'", '"'), type=list[str])
    assert path[-1] == str(tmp_path)
    assert str(tmp_path / "other") not in path


@pytest.mark.parametrize("background", [False, True])
def test_a_process_in_the_background_has_a_lower_priority(background: bool) -> None:
    statement = "import os; print(os.getpriority(os.PRIO_PROCESS, 0))"
    command = own_command("timeit", "-n", "1", "-r", "1", statement, background=background)
    done = subprocess.run(
        command, env=own_environment(), capture_output=True, text=True, check=True,
        timeout=TIMEOUT_S,
    )  # fmt: skip
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert int(done.stdout.splitlines()[0]) == min(own + NICE * background, 19)
