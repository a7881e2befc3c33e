"""The sample's graph as a picture, by both engines, from the real bundle and the real Graphviz."""

from __future__ import annotations

import runpy
import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import nodescope as ns
from nodescope.export import export
from nodescope.record.graphs import graph_of
from nodescope.record.recording import Recording

SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "digits_mlp.py"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sample") / "run.nscope"
    argv, sys.argv = sys.argv, [str(SAMPLE), "--epochs", "1"]
    try:
        with ns.record(path, level="timing"):
            runpy.run_path(str(SAMPLE), run_name="__main__")
    finally:
        sys.argv = argv
    return path


def drawn(picture: Path) -> list[str]:
    root = ElementTree.parse(picture).getroot()
    assert root.tag == f"{SVG}svg"
    return ["".join(item.itertext()).strip() for item in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_exports_the_sample(recording: Path, tmp_path: Path, theme: str) -> None:
    texts = drawn(export(recording, tmp_path / "graph.svg", engine="page", theme=theme))
    for name in ("hidden_1", "hidden_2", "output", "loss", "backward", "optimizer", "mean"):
        assert any(name in text for text in texts), name


def test_graphviz_exports_the_sample(recording: Path, tmp_path: Path) -> None:
    assert shutil.which("dot"), "the tests' set-up installs Graphviz"
    picture = export(recording, tmp_path / "graph.svg", engine="dot", expand="all")
    texts = drawn(picture)
    with Recording.open(recording) as opened:
        graph = graph_of(opened)
    labels = {node.name.rpartition("/")[2] for node in graph.nodes}
    assert labels <= set(texts)
    clusters = [
        item
        for item in ElementTree.parse(picture).iter(f"{SVG}g")
        if item.get("class") == "cluster"
    ]
    scopes = {node.scope for node in graph.nodes if node.scope}
    assert len(clusters) >= len(scopes)


def test_dot_keeps_the_forward_spine_together(recording: Path, tmp_path: Path) -> None:
    text = export(recording, tmp_path / "graph.dot").read_text()
    assert "constraint=false" in text
    with Recording.open(recording) as opened:
        nodes = {node.name: node.id for node in graph_of(opened).nodes}
    inside = f"n{nodes['hidden_1/matmul']} -> n{nodes['hidden_1/add']} "
    edge = next(line for line in text.splitlines() if inside in line)
    assert "constraint" not in edge
