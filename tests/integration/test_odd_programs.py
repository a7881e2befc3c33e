"""Unusual programs run as under plain Python, without a trace of nodescope."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nodescope.record.recording import Recording
from tests import forked
from tests.depth import is_deep
from tests.integration.processes import RUN, TIMEOUT_S, TRAIN, UNSTOPPED, environment

NUMPY = "import numpy as np\nimport nodescope as ns\n"
RECORDED = (*UNSTOPPED, "--record", "run.nscope")
# At the limit, a thread without steps may be recorded as counts only.
UNGOVERNED = ("--max-slowdown", "0")


def both(
    folder: Path, text: str, *options: str, stdin: bytes = b"", name: str = "script.py"
) -> subprocess.CompletedProcess[bytes]:
    """Run a script plainly and under nodescope, compare, and return the latter's result."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    plain, watched = (
        forked.run(
            [sys.executable, *head, name],
            cwd=folder,
            env=environment(),
            input=stdin,
            timeout=TIMEOUT_S,
        )
        for head in ([], ["-m", "nodescope", *RECORDED, *options])
    )
    assert watched.returncode == plain.returncode, watched.stderr
    assert watched.stdout == plain.stdout
    ours = b"nodescope: "
    lines = [line for line in watched.stderr.splitlines(True) if not line.startswith(ours)]
    assert b"".join(lines) == plain.stderr
    return watched


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "text",
    [
        "import sys\nsys.stdout.buffer.write(bytes(range(256)))\n",
        "import sys\nsys.stdout.reconfigure(encoding='latin-1')\nprint('\\xe9')\n",
        "print(input('name? '), input())\n",
        "import os\nprint('out', flush=True)\nos._exit(4)\n",
        "import sys\nsys.exit('words')\n",
        "x: int = 3\nprint(sorted(globals()), __annotations__)\n",
        "import os\nos.chdir('/')\nprint(__file__)\n1 / 0\n",
        "import sys, io\nold, sys.stdout = sys.stdout, io.StringIO()\nprint('in')\n"
        "old.write(sys.stdout.getvalue())\nsys.stdout = None\n",
        "import sys\nsys.argv[:] = []\nsys.stdout.write('no end')\n",
        "import signal, os\nfor each in (signal.SIGINT, signal.SIGTERM):\n"
        "    signal.signal(each, lambda *_: print('mine', flush=True))\n"
        "    os.kill(os.getpid(), each)\n",
        "import pickle\nclass A:\n    pass\n"
        "if __name__ == '__main__':\n    print(type(pickle.loads(pickle.dumps(A()))))\n",
        "import atexit, threading\natexit.register(print, 'bye')\n"
        "threading.Timer(0.05, print, ['later']).start()\n",
        "import os\nchild = os.fork()\nprint('child' if child == 0 else os.waitpid(child, 0)[1])\n",
        "raise ExceptionGroup('two', [ValueError(1), KeyError(2)])\n",
        "import sys\nprint('\\udcff', file=sys.stderr)\nraise ValueError('\\udcff')\n",
        "import gc\nprint(gc.isenabled(), gc.get_threshold(), gc.get_freeze_count())\n",
        "from . import other\n",
        "x = (1,\n",
    ],
)  # fmt: skip
def test_a_program_behaves_as_without_nodescope(tmp_path: Path, text: str) -> None:
    done = both(tmp_path, text, stdin=b"one\ntwo\n")
    assert b"recording stopped" not in done.stderr


def test_modules_beside_the_script_are_found(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "beside.py").write_text("value = 5\n")
    both(tmp_path, "import beside\nprint(beside.value)\n", name="lib/script.py")


@pytest.mark.deep
def test_many_lines_are_printed_and_recorded(tmp_path: Path) -> None:
    many = 100_000 if is_deep() else 20_000
    both(tmp_path, f"for each in range({many}):\n    print(each)\n")
    with Recording.open(tmp_path / "run.nscope") as recording:
        texts = [row.text for row in recording.logs() if row.stream == "stdout"]
    assert texts == [str(index) for index in range(many)]


def test_a_program_without_tensors_is_reported(tmp_path: Path) -> None:
    done = both(tmp_path, "print(1)\n")
    assert b"nodescope: nothing to show" in done.stderr


def test_text_that_is_not_unicode_ends_no_recording(tmp_path: Path) -> None:
    text = "import sys\nprint('\\udcff', file=sys.stderr)\n" + NUMPY + "np.exp(ns.tensor(1.0))\n"
    both(tmp_path, text, *UNGOVERNED)
    with Recording.open(tmp_path / "run.nscope") as recording:
        assert "\\udcff" in [row.text for row in recording.logs()]
        assert recording.run().status == 0


def test_names_of_any_kind(tmp_path: Path) -> None:
    names = ("<script>alert(1)</script>", "مرحبا\u202eabc", "a" * 10_000, "\x00\n", "\"'&", "é🎉")
    text = NUMPY + (
        f"for name in {names!r}:\n    with ns.name_scope(name):\n"
        "        w = ns.parameter(np.ones(2), name=name)\n        np.log(w * np.nan)\n"
        "print('end')\n"
    )
    done = both(tmp_path, text, *UNGOVERNED)
    assert done.stdout == b"end\n"
    with Recording.open(tmp_path / "run.nscope") as recording:
        assert recording.run().status == 0
        nodes = recording.nodes()
        assert len({row.node.scope for row in nodes}) >= len(names)
        log = next(row.node for row in nodes if row.node.op == "log")
        value = recording.latest_at(log.outputs[0])
        assert value is not None
        assert value.summary.nan_count == 2


@pytest.mark.deep
def test_thousands_of_nodes_in_a_step(tmp_path: Path) -> None:
    many = 20_000 if is_deep() else 4_000
    text = NUMPY + (
        "for _ in ns.steps(range(2)):\n    x = ns.tensor(np.ones(4))\n"
        f"    for _ in range({many}):\n        x = np.sin(x)\nprint(float(x.sum()))\n"
    )
    both(tmp_path, text, *UNGOVERNED)
    with Recording.open(tmp_path / "run.nscope") as recording:
        assert len(recording.nodes()) >= many
        kept = len(recording.executions()) + recording.dropped().executions
        assert kept >= 2 * many


def test_threads_stand_with_the_main_thread_and_all_end(tmp_path: Path) -> None:
    text = NUMPY + (
        "import threading\nall_here = threading.Barrier(4)\n"
        "def work():\n    all_here.wait()\n"
        "    for _ in range(200):\n        np.exp(ns.tensor(np.ones(3)))\n"
        "threads = [threading.Thread(target=work) for _ in range(4)]\n"
        "[each.start() for each in threads]\n[each.join() for each in threads]\nprint('end')\n"
    )
    both(tmp_path, text, *UNGOVERNED)
    with Recording.open(tmp_path / "run.nscope") as recording:
        executions = recording.executions()
    assert len({execution.thread for execution in executions}) == 4


def test_no_arguments_show_the_help(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nodescope"], cwd=tmp_path, capture_output=True, text=True,
        timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "nodescope run train.py" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.deep
def test_a_server_that_does_not_start_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(TRAIN)
    broken = (
        "import sys\n"
        "from nodescope.cli import main, server_process\n"
        "raises = 'raise ImportError(\"uvicorn is broken here\")'\n"
        "server_process.own_command = lambda *_, **__: [sys.executable, '-c', raises]\n"
        f"sys.exit(main([*{RUN!r}, 'script.py']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", broken],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout == "trained 9.0\n"
    # A line about kept values may come between these.
    line, *_, finished, recorded = done.stderr.splitlines()
    assert "the server did not start: ImportError: uvicorn is broken here" in line
    assert "the program runs without a page" in line
    assert finished.startswith("nodescope: script.py finished, 3 steps")
    assert recorded.startswith("nodescope: recorded in ")


def test_a_forked_child_that_leaves_a_recording_leaves_it_to_the_parent(tmp_path: Path) -> None:
    script = tmp_path / "forks.py"
    script.write_text(
        "import os\nimport numpy as np\nimport nodescope as ns\n"
        "with ns.record('r.nscope', 'summary', max_slowdown=2):\n"
        "    for _ in ns.steps(range(30)):\n        np.tanh(ns.tensor(np.ones(4)))\n"
        "    child = os.fork()\n    np.tanh(ns.tensor(np.ones(4)))\n"
        "print(os.waitpid(child, 0)[1]) if child else os._exit(7)\n"
    )
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, env=environment(), timeout=TIMEOUT_S,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"{7 << 8}\n"
    assert "could not be written" not in done.stderr
    assert done.stderr.count("slowdown about") == 1
    with Recording.open(tmp_path / "r.nscope") as recording:
        assert len(recording.steps()) == 30
