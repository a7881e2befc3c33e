"""Graphs in files: they run again elsewhere with equal bits, and bad files are refused."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import GraphError

ELSEWHERE = """
import sys
import numpy as np
import nodescope as ns
graph = ns.Graph.load(sys.argv[1])
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


def test_it_runs_again_in_another_process(tmp_path: Path) -> None:
    _, session, x, path = save_with_feeds(tmp_path)
    np.save(tmp_path / "x.npy", x)
    script = ELSEWHERE.replace('session.run("train")', 'session.run("train", {"x:0": x})')
    command = [sys.executable, "-c", script, str(path), str(tmp_path / "x.npy"),
               str(tmp_path / "found.npz")]  # fmt: skip
    subprocess.run(command, check=True, timeout=100)
    expected = session.run(["y", "y:0", "loop:0", "low:0"], {"x:0": x})[1:]
    session.run("train", {"x:0": x})
    with np.load(tmp_path / "found.npz") as found:
        assert found["y"].tobytes() == expected[0].tobytes()
        assert found["loop"].tobytes() == expected[1].tobytes()
        assert found["low"].tobytes() == expected[2].tobytes()
        assert found["after"].tobytes() == session.run("w:0").tobytes()


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
    assert sorted(each.name for each in tmp_path.iterdir()) == ["again.nsgraph", "model.nsgraph"]


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


def rewritten(path: Path, change: Callable[[dict[str, bytes]], Any], **options: Any) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def newer(members: dict[str, bytes]) -> None:
    meta = json.loads(members["meta.json"])
    members["meta.json"] = json.dumps({**meta, "version": 99}).encode()


def pickled(members: dict[str, bytes]) -> None:
    import io

    held = io.BytesIO()
    np.save(held, np.array([object()]), allow_pickle=True)
    name = next(each for each in members if each.endswith(".npy"))
    members[name] = held.getvalue()


def other_shape(members: dict[str, bytes]) -> None:
    import io

    held = io.BytesIO()
    np.save(held, np.zeros((7, 7), np.float32))
    name = next(each for each in members if each.endswith(".npy"))
    members[name] = held.getvalue()


def edit(old: str, new: str) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        assert old.encode() in members["graph.txt"]
        members["graph.txt"] = members["graph.txt"].replace(old.encode(), new.encode(), 1)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (newer, "version 99; this nodescope reads up to 1"),
        (pickled, "Object arrays cannot be loaded"),
        (other_shape, "is not what the graph says"),
        (lambda members: members.pop("graph.txt"), r"graph\.txt is missing"),
        (lambda members: members.pop("arrays/2.npy"), r"arrays/2\.npy is missing"),
        (edit("matmul(%1, %2)", "matmul(%2, %1)"), "matmul does not take its inputs"),
        (edit(".tanh(", ".system("), "no op named 'system'"),
        (edit("{", "["), "line 1, column"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, change: Any, message: str) -> None:
    path = save_with_feeds(tmp_path)[3]
    rewritten(path, change)
    with pytest.raises(GraphError, match=message):
        ns.Graph.load(path)


def test_files_that_grow_when_read_are_refused(tmp_path: Path) -> None:
    path = save_with_feeds(tmp_path)[3]
    rewritten(path, lambda members: None, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(GraphError, match="compressed"):
        ns.Graph.load(path)


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04" + b"\0" * 40])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(GraphError, match="is no saved graph"):
        ns.Graph.load(path)
    with pytest.raises(GraphError, match="there is no file"):
        ns.Graph.load(tmp_path / "absent")
