"""Crossings, edge length and area of the page's layout, compared with dagre, ELK and dot.

All lay out the same boxes: those of the first-picture graphs, drawn flat. (The page itself lays out
each scope separately, and forward and backward pass as columns.) dagre and ELK are installed for
this benchmark only, by its own lock file; dot is Graphviz's.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from bench.measure import Row
from nodescope.record.recording import Recording
from tests.e2e import graphs

ROOT: Final = Path(__file__).resolve().parents[1]
PEERS: Final = ROOT / "bench" / "layout_peers"
MEASURED: Final = (
    ("mlp", True), ("cnn", True), ("transformer_4", True), ("unet", True), ("resnet_50", True),
    ("mlp", False), ("cnn", False),
)  # fmt: skip
"""The graphs, and for each whether only its forward pass is laid out, or the training step."""


def rows() -> Iterator[Row]:
    """A row for each graph: nodescope's crossings, which may not exceed dagre's."""
    web = _web_build()
    web.install(ROOT / "web")
    web.install(PEERS)
    environment = web.node_environment()
    vite = ROOT / "web" / "node_modules" / "vite" / "bin" / "vite.js"
    subprocess.run(
        ["node", vite, "build", "--config", PEERS / "vite.config.mjs"], env=environment, check=True
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, forward in MEASURED:
            boxes = _boxes(getattr(graphs, name)(Path(folder)), forward=forward)
            file = Path(folder, "boxes.json")
            file.write_text(json.dumps(boxes))
            output = subprocess.run(
                ["node", PEERS / "node_modules" / ".built" / "measure.js", file],
                env=environment, check=True, capture_output=True, text=True,
            ).stdout  # fmt: skip
            yield _row(name, boxes, json.loads(output), forward=forward)


def _row(name: str, boxes: dict[str, Any], figures: dict[str, Any], *, forward: bool) -> Row:
    part = "forward" if forward else "whole step"
    details = [
        f"{peer} {of['crossings']}, {of['length']:.0f} px an edge,"
        f" {of['width']:.0f} x {of['height']:.0f}, {of['ms']:.0f} ms"
        for peer, of in figures.items()
    ]
    return Row(
        f"crossings: {name}, {part}",
        f"{len(boxes['width'])} boxes, {len(boxes['edges'])} edges",
        figures["ours"]["crossings"],
        "",
        must=figures["dagre"]["crossings"],
        detail="; ".join(details),
    )


def _boxes(path: Path, *, forward: bool) -> dict[str, Any]:
    """Boxes and edges. A leaf that only one node reads is part of that node's box."""
    names, edges = _recorded(path, forward=forward) if path.suffix == ".nscope" else _drawn(path)
    readers: dict[int, set[int]] = {}
    for source, target in edges:
        readers.setdefault(source, set()).add(target)
    computed = {target for _, target in edges}
    kept = [k for k in range(len(names)) if k in computed or len(readers.get(k, ())) > 1]
    place = {node: at for at, node in enumerate(kept)}
    both = {(place[a], place[b]) for a, b in edges if a in place and b in place}
    return {
        "width": [56 + 7 * min(len(names[node]), 20) for node in kept],
        "height": [26] * len(kept),
        "edges": sorted(both),
    }


def _recorded(path: Path, *, forward: bool) -> tuple[list[str], list[tuple[int, int]]]:
    with Recording.open(path) as recording:
        nodes = [row.node for row in recording.nodes()]
    if forward:
        nodes = [node for node in nodes if node.phase == "forward"]
    producer = {value: at for at, node in reversed([*enumerate(nodes)]) for value in node.outputs}
    edges = [
        (producer[value], at)
        for at, node in enumerate(nodes)
        for value in dict.fromkeys(node.inputs)
        if producer.get(value, at) < at
    ]
    return [node.name.rpartition("/")[2] for node in nodes], edges


def _drawn(path: Path) -> tuple[list[str], list[tuple[int, int]]]:
    nodes = json.loads(path.read_text())[0]["nodes"]
    edges = [(int(e["sourceNodeId"]), at) for at, n in enumerate(nodes) for e in n["incomingEdges"]]
    return [node["label"] for node in nodes], edges


def _web_build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("web_build", ROOT / "web" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
