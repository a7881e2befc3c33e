"""Every exporter on the same graphs: empty, small, large, random programs, names of all kinds.

The files of the small graph are golden files: ``NODESCOPE_GOLDEN=write pytest
tests/conformance/test_exporters.py`` rewrites them.
"""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodescope.errors import ExportError
from nodescope.events import (
    GraphExtended,
    NodeFinished,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
)
from nodescope.export import ExportOptions, export, exporters, raster
from nodescope.export.words import visible
from nodescope.ir.graph import Node, SourceLocation, TensorSpec, Value
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from tests.conformance.exported import PAINTED, READERS
from tests.core.record.runs import RUN, chain
from tests.depth import count, examples

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "exports"
KEPT = {"mermaid": "mmd", "model-explorer": "json", "perfetto": "trace.json", "csv": "csv"}
HOSTILE = (
    "<img onerror=alert(1)>", 'quote " and \\', "]]>&amp;", "\u202eevil", "line\nbreak\\N",
    "漢字", "%s{|}", "=1+1", "@SUM(A1)", "end", "`md`", "#35;", "]", "-->", "--- x", "a;b,c",
    "😀", "مرحبا", "\x00", "\ud800", "click n1 href", "'", "x" * 1000,
)  # fmt: skip


def small(path: Path) -> Path:
    """Two steps of three operations in two scopes, on two threads."""
    spec = TensorSpec((4, 3), "float32")

    def node(number: int, name: str, op: str, family: str, *inputs: int) -> Node:
        role = "parameter" if op == "parameter" else "op"
        scope = name.rpartition("/")[0]
        source = SourceLocation("train.py", number)
        return Node(number, name, op, family, inputs, outputs=(number,), scope=scope, role=role,
                    source=source, attrs={"axis": 1} if op == "sum" else {})  # fmt: skip

    nodes = (
        node(1, "net/w", "parameter", "leaf"), node(2, "net/layer/matmul", "matmul", "matmul", 1),
        node(3, 'net/layer/"sum"', "sum", "reduction", 2), node(4, "log", "log", "elementwise", 3),
    )  # fmt: skip
    recorder = Recorder(path, level="summary")
    recorder.emit(RunStarted(RUN, "train.py", (), 7, 1))
    recorder.emit(GraphExtended(nodes, tuple(Value(n.id, spec, n.name) for n in nodes)))
    for step in (1, 2):
        base = step * 10_000
        recorder.emit(StepStarted(step, base))
        for place, ran in enumerate(nodes):
            array = np.full((4, 3), step, np.float32)
            start = base + 1000 * place
            thread = 2 if ran.id == 4 else 1
            recorder.emit(NodeFinished(ran, (), (array,), step, thread, start, start + 500))
        recorder.emit(StepFinished(step, base + 5000))
    recorder.emit(RunFinished(0, "", 40_000))
    assert recorder.close()
    return path


def of_chain(path: Path, names: list[str], runs: bool = False) -> Path:
    graph = chain(names)
    recorder = Recorder(path, level="timing")
    recorder.emit(RunStarted(RUN, "train.py", (), 7, 1))
    recorder.emit(graph)
    for place, node in enumerate(graph.nodes if runs else ()):
        recorder.emit(NodeFinished(node, (), (np.ones(2),), 0, 1, place * 10, place * 10 + 9))
    assert recorder.close()
    return path


@pytest.fixture(autouse=True, scope="module")
def _loaded() -> None:
    with pytest.raises(ExportError):
        export("none.nscope", "none.unknown")


def rendered(path: Path, name: str, options: ExportOptions) -> list[str]:
    with Recording.open(path) as recording:
        return READERS[name](exporters.get(name).render(recording, options))


def test_every_format_is_tried() -> None:
    assert set(exporters) == {*READERS, *PAINTED}


@pytest.mark.parametrize("name", KEPT)
def test_the_export_of_a_small_graph_equals_the_golden_file(name: str, tmp_path: Path) -> None:
    kept = GOLDEN / f"small.{KEPT[name]}"
    out = export(small(tmp_path / "r.nscope"), tmp_path / kept.name, expand=1)
    if os.environ.get("NODESCOPE_GOLDEN") == "write":
        kept.parent.mkdir(exist_ok=True)
        kept.write_bytes(out.read_bytes())
    assert out.read_text() == kept.read_text()


@pytest.mark.parametrize("name", READERS)
def test_hostile_names_are_text(name: str, tmp_path: Path) -> None:
    names = [f"s{place}/{text.replace('/', '')}" for place, text in enumerate(HOSTILE)]
    path = of_chain(tmp_path / "r.nscope", names, runs=True)
    with Recording.open(path) as recording:  # Recorded names have no lone surrogates.
        labels = [row.node.name.rpartition("/")[2] for row in recording.nodes()]
    assert len(labels) == len(HOSTILE)
    shown = "\n".join(rendered(path, name, ExportOptions(expand="all")))
    for label in labels[:-1]:
        assert visible(label).strip() in shown


@pytest.mark.parametrize("name", READERS)
def test_an_empty_graph(name: str, tmp_path: Path) -> None:
    path = of_chain(tmp_path / "r.nscope", [])
    assert "add" not in "".join(rendered(path, name, ExportOptions(expand="all")))


@pytest.mark.parametrize("name", READERS)
def test_folds_scopes_and_steps(name: str, tmp_path: Path) -> None:
    path = small(tmp_path / "r.nscope")
    for expand in ("fit", "all", 0, 1, frozenset({"net", "gone"})):
        for scope in ("", "net/layer"):
            texts = rendered(path, name, ExportOptions(expand=expand, scope=scope, step=1))
            assert any("layer" in text or "net" in text or "sum" in text for text in texts)
    everything = " ".join(rendered(path, name, ExportOptions(expand="all", theme="dark")))
    assert all(word in everything for word in ("matmul", "sum", "log"))
    with pytest.raises(ExportError, match="no step 3"):
        rendered(path, name, ExportOptions(step=3))
    with pytest.raises(ExportError, match="no scope named 'nett'"):
        rendered(path, name, ExportOptions(scope="nett"))


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[Node], list[tuple[int, int, int, int, int]]]:
    """Nodes with any scopes and names, and executions in any order, overlapping or not."""
    name = st.text(max_size=8)
    nodes = []
    for number in range(1, draw(st.integers(1, 12)) + 1):
        scope = "/".join(part.replace("/", "") or "x" for part in draw(st.lists(name, max_size=3)))
        inputs = tuple(draw(st.lists(st.integers(1, number), max_size=3))) if number > 1 else ()
        after = tuple(draw(st.lists(st.integers(1, 14), max_size=1)))
        phase = draw(st.sampled_from(("forward", "backward", "optimizer")))
        attrs = draw(st.dictionaries(name, st.integers() | st.floats() | name, max_size=2))
        nodes.append(Node(number, f"{scope}/{draw(name)}", draw(name), draw(name), inputs, after,
                          (number,), attrs, scope, phase))  # fmt: skip
    ran = st.tuples(st.integers(1, len(nodes)), st.integers(0, 2), st.integers(0, 2),
                    st.integers(0, 50), st.integers(0, 30))  # fmt: skip
    return nodes, draw(st.lists(ran, max_size=20))


@given(programs())
@settings(max_examples=examples(120), deadline=None)
def test_any_program(
    tmp_path_factory: pytest.TempPathFactory,
    program: tuple[list[Node], list[tuple[int, int, int, int, int]]],
) -> None:
    nodes, ran = program
    path = tmp_path_factory.mktemp("any") / "r.nscope"
    recorder = Recorder(path, level="summary")
    recorder.emit(RunStarted(RUN, "t.py", (), 7, 1))
    values = tuple(Value(node.id, TensorSpec((2, None), "float32"), node.name) for node in nodes)
    recorder.emit(GraphExtended(tuple(nodes), values))
    for number, step, thread, start, took in ran:
        node, array = nodes[number - 1], np.full(2, np.nan)
        recorder.emit(NodeFinished(node, (), (array,), step, thread, start, start + took))
    assert recorder.close()
    for name in READERS:
        # Pictures take longer and have their own suite; one of the two formats is enough here.
        if name not in ("html", "dot"):
            rendered(path, name, ExportOptions(expand="all"))


@pytest.mark.parametrize("name", READERS)
def test_ten_thousand_operations(name: str, tmp_path: Path) -> None:
    """At the usual depth, a thousand operations."""
    names = [f"block_{place // 100}/add_{place % 100}" for place in range(count(10_000, 1000))]
    path = of_chain(tmp_path / "r.nscope", names, runs=True)
    started = time.process_time()
    texts = rendered(path, name, ExportOptions())
    assert time.process_time() - started < 10  # the goal is 3 s; machines may be slow and busy
    # The page folds repeated scopes into one: `block_1–99`.
    assert len(texts) >= 9


@pytest.mark.parametrize(("name", "first"), PAINTED.items())
def test_what_the_browser_is_given(
    name: str, first: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fake browser that copies its page into the picture."""
    program = tmp_path / "browser"
    program.write_text(
        '#!/bin/sh\nfor word; do case $word in --screenshot=*|--print-to-pdf=*) out="${word#*=}";;'
        '\n file://*) page="${word#file://}";; esac; done\ncp "$page" "$out"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv(raster.VARIABLE, str(program))
    out = export(small(tmp_path / "r.nscope"), tmp_path / f"g.{name}", expand="all")
    assert any("matmul" in text for text in READERS["html"](out.read_bytes()))
    program.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(ExportError, match="cannot paint the picture: status 3"):
        export(tmp_path / "r.nscope", tmp_path / f"g.{name}")
    program.write_text("#!/bin/sh\n")
    with pytest.raises(ExportError, match="painted nothing"):
        export(tmp_path / "r.nscope", tmp_path / f"g.{name}")


def test_without_a_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = small(tmp_path / "r.nscope")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    monkeypatch.delenv(raster.VARIABLE, raising=False)
    with pytest.raises(ExportError, match="PNG and PDF need Chromium or Chrome") as raised:
        export(path, tmp_path / "g.png")
    assert "apt-get install chromium" in raised.value.hint
    monkeypatch.setenv(raster.VARIABLE, "nothing-there")
    with pytest.raises(ExportError, match="there is no browser 'nothing-there'"):
        export(path, tmp_path / "g.pdf")


@pytest.mark.deep
@pytest.mark.parametrize(("name", "first"), PAINTED.items())
def test_painted_by_a_browser(name: str, first: bytes, tmp_path: Path) -> None:
    out = export(small(tmp_path / "r.nscope"), tmp_path / f"g.{name}", expand="all")
    assert out.read_bytes().startswith(first)
    assert len(out.read_bytes()) > 5_000
