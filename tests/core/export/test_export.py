"""Exports: names are only text, in every format."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import graphviz
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nodescope.errors import ExportError
from nodescope.events import GraphExtended, StepFinished, StepStarted
from nodescope.export import ExportOptions, export, svg
from nodescope.export.dot import dot_for, dot_of
from nodescope.export.svg import check_svg, page_input, render_svg
from nodescope.export.words import visible
from nodescope.ir.graph import Graph, Node, TensorSpec, Value, usual_role
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from tests.core.record.runs import chain
from tests.depth import examples

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "small.dot"
HOSTILE = [
    "<img onerror=alert(1)>",
    "<>",
    'quote " and \\',
    "]]>&amp;",
    "\u202eevil",
    "line\nbreak\\N",
    "漢字",
    "%s{|}",
]


def small() -> Graph:
    def node(number: int, name: str, op: str, family: str, inputs: tuple[int, ...]) -> Node:
        scope = name.rpartition("/")[0]
        attrs = {"axis": 1, "keepdims": True} if op == "sum" else {}
        return Node(
            number,
            name,
            op,
            family,
            inputs=inputs,
            outputs=(number,),
            scope=scope,
            attrs=attrs,
            role=usual_role(op, family),
        )

    return Graph(
        id=0,
        kind="eager",
        nodes=(
            node(1, "net/w", "parameter", "leaf", ()),
            node(2, "x", "tensor", "leaf", ()),
            node(3, "net/layer/matmul", "matmul", "matmul", (2, 1)),
            node(4, 'net/layer/"sum"', "sum", "reduction", (3,)),
        ),
        values=tuple(
            Value(index, TensorSpec((4, index), "float32"), str(index)) for index in range(1, 5)
        ),
    )


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    path = tmp_path / "h.nscope"
    recorder = Recorder(path)
    recorder.emit(chain([f"s{place}/{name}" for place, name in enumerate(HOSTILE)]))
    assert recorder.close()
    return path


def labels(picture: Path) -> list[str]:
    root = ElementTree.parse(picture).getroot()
    return [(item.text or "").strip() for item in root.iter("{http://www.w3.org/2000/svg}text")]


def test_dot_golden() -> None:
    assert dot_of(small(), title="small").source == GOLDEN.read_text()


def test_hostile_names_by_dot(hostile: Path, tmp_path: Path) -> None:
    export(hostile, tmp_path / "g.svg", engine="dot")
    assert {visible(item) for item in HOSTILE} <= set(labels(tmp_path / "g.svg"))


def test_hostile_names_by_the_page(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The built page may be absent here; the test is about its input and its output.
    bundle = """var nodescopeExport = {renderSvg: (text) => {
      const input = JSON.parse(text);
      const escape = (each) => each.replace(/&/g, "&amp;").replace(/</g, "&lt;")
        .replace(/>/g, "&gt;");
      return '<svg xmlns="http://www.w3.org/2000/svg"><title>' + escape(input.title) + '</title>' +
        input.nodes.map((each) => "<text>" + escape(each.label) + "</text>").join("") + "</svg>";
    }};"""
    monkeypatch.setattr(svg, "_bundle", lambda: bundle)
    with Recording.open(hostile) as recording:
        (tmp_path / "g.svg").write_bytes(render_svg(recording, ExportOptions(theme="dark")))
    assert labels(tmp_path / "g.svg") == [visible(item) for item in HOSTILE]


def test_an_error_of_the_painter_is_one_line(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = "var nodescopeExport = {renderSvg: () => { throw new Error('no') }};"
    monkeypatch.setattr(svg, "_bundle", lambda: bundle)
    with pytest.raises(ExportError, match="painter failed") as caught:
        export(hostile, tmp_path / "g.svg")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "g.svg").exists()


# A node of DOT: attributes whose values are words, numbers or quoted strings, but not HTML.
_NODE_LINE = re.compile(r'\tn1 \[(?: ?\w+=(?:"(?:[^"\\]|\\.)*"|[\w.\-]+))+\]')


@given(st.text(max_size=60))
@example("label=<")
@example('a"]; b [label="')
@settings(max_examples=examples(150), deadline=None)
def test_any_name_is_one_quoted_label(name: str) -> None:
    node = Node(1, name, "add", "elementwise", outputs=(1,))
    graph = Graph(id=0, kind="eager", nodes=(node,))
    lines = [line for line in dot_of(graph).source.splitlines() if line.startswith("\tn1 ")]
    assert len(lines) == 1
    assert _NODE_LINE.fullmatch(lines[0])
    json.dumps(page_input(graph, name, ExportOptions()))


def test_folding_by_depth() -> None:
    assert page_input(small(), "t", ExportOptions(expand=1))["open"] == ["net"]
    assert page_input(small(), "t", ExportOptions(expand="all"))["open"] == "all"
    levels = [
        page_input(small(), "t", ExportOptions(expand=e))["levels"] for e in (1, "fit", "all")
    ]
    assert levels == [1, None, None]


def wide(scopes: int, inside: int) -> Graph:
    """Scopes in a chain, each with a number of nodes."""
    nodes = [
        Node(
            number + 1,
            f"block_{number // inside}/add_{number % inside}",
            "add",
            "elementwise",
            inputs=(number,) if number else (),
            outputs=(number + 1,),
            scope=f"block_{number // inside}",
        )
        for number in range(scopes * inside)
    ]
    values = [Value(node.id, TensorSpec((2,), "float32"), node.name) for node in nodes]
    return Graph(id=0, kind="eager", nodes=tuple(nodes), values=tuple(values))


def test_what_does_not_fit_is_folded_in_both_engines() -> None:
    graph = wide(8, 20)
    shown = page_input(graph, "t", ExportOptions())["open"]
    assert shown == ["block_0", "block_1"]
    source = dot_for(graph, "t", ExportOptions()).source
    assert source.count("subgraph") == 2
    assert "20 ops" in source
    assert source.count(" -> ") == 19 + 1 + 19 + 1 + 5
    assert dot_for(graph, "t", ExportOptions(expand="all")).source.count(" -> ") == 159
    assert dot_for(graph, "t", ExportOptions(expand=0)).source.count(" -> ") == 7


def test_a_scope_alone_has_what_it_takes_as_inputs() -> None:
    options = ExportOptions(scope="block_3")
    page_state = page_input(wide(8, 20), "t", options)
    assert [(node["id"], node["family"]) for node in page_state["nodes"]][:2] == [
        (60, "leaf"),
        (61, "elementwise"),
    ]
    assert len(page_state["nodes"]) == 21
    assert page_state["open"] == ["block_3"]
    with pytest.raises(ExportError, match="did you mean 'block_3'"):
        page_input(wide(8, 20), "t", ExportOptions(scope="blok_3"))


def test_dot_takes_the_theme() -> None:
    assert 'bgcolor="#0e1114"' in dot_for(small(), "t", ExportOptions(theme="dark")).source


def test_fonts_are_held_and_nothing_else_from_outside() -> None:
    def picture(style: str) -> bytes:
        return (f'<svg xmlns="http://www.w3.org/2000/svg"><style>{style}</style></svg>').encode()

    check_svg(picture("@font-face{src:url(data:font/woff2;base64,AAAA)}"))
    for bad in ("url(data:text/html;base64,AAAA)", "url(https://example.org/a.woff2)"):
        with pytest.raises(ExportError, match="external reference"):
            check_svg(picture(f"@font-face{{src:{bad}}}"))


def test_dot_is_named_where_it_is_missing(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ExportError, match="apt-get install graphviz"):
        export(hostile, tmp_path / "g.svg", engine="dot")


def test_formats_are_chosen_by_suffix_or_name(hostile: Path, tmp_path: Path) -> None:
    export(hostile, tmp_path / "graph.txt", format="dot")
    assert (tmp_path / "graph.txt").read_text().startswith("digraph nodescope")
    with pytest.raises(ExportError, match=r"did you mean '\.svg'"):
        export(hostile, tmp_path / "g.sgv")
    with pytest.raises(ExportError, match="without a suffix"):
        export(hostile, tmp_path / "g")
    with pytest.raises(ExportError, match="did you mean 'dot'"):
        export(hostile, tmp_path / "g", format="dott")
    with pytest.raises(ExportError, match="cannot write"):
        export(hostile, tmp_path / "none" / "g.dot")


@pytest.mark.parametrize(
    "inside",
    [
        "<script/>",
        "<foreignObject/>",
        '<image href="x"/>',
        '<rect onclick="x"/>',
        '<a href="http://x"/>',
        '<rect style="fill:url(http://x)"/>',
        "<style>@import 'x';</style>",
        "<rect>",
    ],
)
def test_more_than_a_drawing_is_refused(inside: str) -> None:
    with pytest.raises(ExportError):
        check_svg(f'<svg xmlns="http://www.w3.org/2000/svg">{inside}</svg>'.encode())


def test_our_dot_is_accepted_by_graphviz_itself() -> None:
    source = dot_of(small(), title="t").source
    assert graphviz.Source(source).source.strip() == source.strip()
    program = shutil.which("dot")
    if program is not None:
        done = subprocess.run([program, "-Tcanon"], input=source.encode(), capture_output=True)
        assert (done.returncode, done.stderr) == (0, b"")


def test_a_picture_of_a_step_has_the_shapes_of_that_step(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    recorder = Recorder(path)
    for step, length in ((1, 29), (2, 64)):
        recorder.emit(StepStarted(step, step))
        graph = chain(["rows", "loss"])
        values = tuple(
            Value(value.id, TensorSpec((length, 96), "float32"), value.name)
            for value in graph.values
        )
        recorder.emit(GraphExtended(graph.nodes, values))
        recorder.emit(StepFinished(step, step + 1))
    assert recorder.close()

    def drawn(suffix: str, step: int | None) -> str:
        return export(path, tmp_path / f"g{suffix}", step=step, expand="all").read_text()

    for suffix in (".svg", ".dot"):
        assert "(29, 96)" in drawn(suffix, 1)
        assert "(64, 96)" not in drawn(suffix, 1)
        assert "r, end of step 1<" in drawn(suffix, 1).replace('"', "<")
        assert "(29, 96)" not in drawn(suffix, 2)
        assert "(64, 96)" in drawn(suffix, None)
        assert "r, last state (step 2)<" in drawn(suffix, None).replace('"', "<")
    with pytest.raises(ExportError, match="no step 3") as raised:
        drawn(".svg", 3)
    assert raised.value.hint == "steps 1 to 2 are recorded"
