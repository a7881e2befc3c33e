"""Graphs in files: they run again elsewhere with equal bits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import GraphError

ELSEWHERE = """
import sys
import numpy as np
import nodescope as ns
graph = ns.load_graph(sys.argv[1])
session = ns.Session(graph)
x = np.load(sys.argv[2])
found = session.run(["y:0", "loop:0", "low:0"], {"x:0": x})
session.run("train")
after = session.run("w:0")
np.savez(sys.argv[3], y=found[0], loop=found[1], low=found[2].view(np.uint16), after=after)
with graph.as_default():
    assert ns.constant(1.0, name="y").op.name == "y_1"
"""


def model() -> tuple[ns.Graph, ns.Session, np.ndarray]:
    rng = np.random.default_rng(5)
    x_ = rng.standard_normal((4, 3)).astype(np.float32)
    with ns.Graph().as_default() as g:
        x = ns.placeholder(np.float32, (4, 3), name="x")
        w = ns.variable(rng.standard_normal((3, 2)).astype(np.float32), name="w")
        h = np.tanh(x @ w)
        ns.identity(h[:, None, 0:1, ...] * np.float32(1.5), name="y")
        last, rows = ns.scan(lambda c, r: (c * 0.5 + r, np.exp(c)), h[0], h)
        ns.identity(np.sum(rows) + np.sum(last), name="loop")
        ns.identity(ns.constant(np.arange(3.0)).astype(ns.bfloat16), name="low")
        ns.constant(np.array([1, 2, 3]).astype(ns.bfloat16), name="stored_low")
        dw = ns.gradients(np.sum(rows), w)[0]
        with ns.control_dependencies([ns.assign_sub(w, dw * 0.0 + 1.0)]):
            ns.no_op("train")
        g.add_to_collection("ends", h)
        g.add_to_collection("ends", "text")
    session = ns.Session(g)
    with g.as_default():
        init = ns.global_variables_initializer()
    session.run(init)
    return g, session, x_


def save_with_feeds(tmp_path: Path) -> tuple[ns.Graph, ns.Session, np.ndarray, Path]:
    g, session, x = model()
    path = tmp_path / "model.nsgraph"
    g.save(path, session)
    return g, session, x, path


def test_a_saved_graph_runs_in_another_process(tmp_path: Path) -> None:
    _, session, x, path = save_with_feeds(tmp_path)
    np.save(tmp_path / "x.npy", x)
    script = ELSEWHERE.replace('session.run("train")', 'session.run("train", {"x:0": x})')
    command = [sys.executable, "-c", script, str(path), str(tmp_path / "x.npy"),
               str(tmp_path / "found.npz")]  # fmt: skip
    subprocess.run(command, check=True, timeout=100)
    expected = session.run(["y", "y:0", "loop:0", "low:0"], {"x:0": x})[1:]
    session.run("train", {"x:0": x})
    with np.load(tmp_path / "found.npz") as result:
        assert result["y"].tobytes() == expected[0].tobytes()
        assert result["loop"].tobytes() == expected[1].tobytes()
        assert result["low"].tobytes() == expected[2].tobytes()
        assert result["after"].tobytes() == session.run("w:0").tobytes()


def test_what_comes_back_is_what_was_saved(tmp_path: Path) -> None:
    g, _, _, path = save_with_feeds(tmp_path)
    again = ns.Graph.load(path)
    assert str(again) == str(g)
    assert [t if isinstance(t, str) else t.name for t in again.get_collection("ends")] == [
        "tanh:0", "text"
    ]  # fmt: skip
    assert [t.name for t in again.get_collection("variables")] == ["w:0"]
    again.save(tmp_path / "again.nsgraph")
    assert str(ns.Graph.load(tmp_path / "again.nsgraph")) == str(g)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.nsgraph", "model.nsgraph"]


def test_without_a_session_variables_begin_uninitialised(tmp_path: Path) -> None:
    g, _, _ = model()
    g.save(tmp_path / "g")
    again = ns.Graph.load(tmp_path / "g")
    with pytest.raises(ns.NodescopeError, match="no value"):
        ns.Session(again).run("w:0")


def test_equal_programs_give_equal_texts() -> None:
    assert model()[0].to_text() == model()[0].to_text()


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    g, _, _, path = save_with_feeds(tmp_path)
    before = path.read_bytes()
    g.add_to_collection("odd", object())
    with pytest.raises(GraphError, match="'odd' holds a object"):
        g.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
