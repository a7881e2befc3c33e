"""Files dropped on the start page are opened, or refused in one line, and leave nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from nodescope_server.handlers import dropped_files
from tests.core.graph_files.test_reading import GRAPHS
from tests.core.record.runs import RUN, recorded
from tests.server.support import WAIT_S, Live
from tests.unencrypted import NO_CERTIFICATES


def drop(live: Live, name: str, content: bytes, **headers: str) -> httpx.Response:
    """Drop a file, as the page does."""
    return httpx.post(
        f"{live.base}/api/library", params={"name": name}, content=content, timeout=WAIT_S,
        headers={**live.cookie, "Origin": live.base, **headers}, verify=NO_CERTIFICATES,
    )  # fmt: skip


def kept(live: Live) -> list[str]:
    folder: Any = live.app.dropped._folder
    return sorted(path.name for path in Path(folder.name).iterdir())


def test_graphs_and_recordings(live: Live, tmp_path: Path) -> None:
    graph = drop(live, "../../small.onnx", (GRAPHS / "small.onnx").read_bytes())
    assert graph.status_code == 200, graph.text
    run = graph.json()["run"]
    assert (run["name"], run["state"]) == ("small.onnx", "recorded")
    names = {node["name"] for node in live.get(f"/api/runs/{run['id']}/graph").json()["nodes"]}
    assert "encoder/linear/MatMul" in names
    recording = drop(live, "run.nscope", recorded(tmp_path / "run.nscope").read_bytes())
    assert recording.json()["run"]["id"] == RUN
    assert kept(live) == ["1.nscope", "2.nscope"]


def test_refused(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content, text in (
        ("m.onnx", b"\x3a\x7f", "m.onnx: no valid ONNX: the file ends within field 7"),
        ("m.onnx", b"", "the file is empty"),
        ("\u202e.xyz", b"junk" * 100, "is not a recording"),
        ("", b"junk" * 100, "is not a recording"),
    ):
        answer = drop(live, name, content)
        assert answer.status_code == 409, answer.text
        assert text in answer.json()["error"]
    monkeypatch.setattr(dropped_files, "MOST_BYTES", 10)
    assert "larger than" in drop(live, "m.onnx", b"x" * 11).json()["error"]
    assert kept(live) == []
    monkeypatch.setattr(dropped_files, "MOST_FILES", 0)
    assert "files have been dropped" in drop(live, "m.onnx", b"x").json()["error"]


def test_other_pages_drop_nothing(live: Live) -> None:
    assert drop(live, "m.onnx", b"x", Origin="http://evil").status_code == 403
    assert drop(live, "m.onnx", b"x", Cookie="").status_code == 401
    assert live.app.dropped._folder is None
