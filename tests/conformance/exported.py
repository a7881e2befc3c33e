"""Readers of each export format, which check a file and return its texts.

A reader raises if the file is not well-formed. It returns the texts of all boxes, rows or slices.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any, Final
from xml.etree import ElementTree

from nodescope.export.svg import check_svg

SVG: Final = "{http://www.w3.org/2000/svg}"
_MERMAID: Final = (
    re.compile(r"---|title: \"(?:[^\"\\]|\\.)*\"|config:|flowchart TB"),
    re.compile(r" +theme: (?:default|dark)"),
    re.compile(r' *(?P<name>[ns]\d+)(?:\(\[|\[|\[\[)"(?P<text>[^"]*)"(?:\]\)|\]|\]\])'),
    re.compile(r' *subgraph (?P<name>c\d+)\["(?P<text>[^"]*)"\]'),
    re.compile(r" *end"),
    re.compile(r'  [ns]\d+ (?:-->|-\.->)(?:\|"[^"]*"\|)? [ns]\d+'),
    re.compile(r"  classDef \w+ fill:#\w{6},stroke:#\w{6},color:#\w{6}"),
    re.compile(r"  class [\w,]+ \w+"),
)
_NUMBERED: Final = re.compile(r"#(\d+);")


def svg_texts(content: bytes) -> list[str]:
    """The texts of a picture, and its titles."""
    check_svg(content)
    root = ElementTree.fromstring(content)
    return ["".join(item.itertext()) for tag in ("text", "title") for item in root.iter(SVG + tag)]


def html_texts(content: bytes) -> list[str]:
    """The texts of the picture in a page, which must not load or run anything."""
    page = content.decode()
    tags: list[str] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append(tag)
            assert not any(name.startswith("on") or name == "src" for name, _ in attrs)

    Tags().feed(page)
    assert not {"script", "link", "img", "iframe", "object", "embed", "form"} & set(tags)
    assert "default-src 'none'" in page
    start, end = page.index("<svg"), page.rindex("</svg>")
    return svg_texts(page[start:end].encode() + b"</svg>")


def dot_texts(content: bytes) -> list[str]:
    """The labels, as Graphviz reads the file where it is installed."""
    program = shutil.which("dot")
    if program is not None:
        done = subprocess.run([program, "-Tcanon"], input=content, capture_output=True)
        assert (done.returncode, done.stderr) == (0, b"")
    quoted = re.findall(r'label="((?:[^"\\]|\\.)*)"', content.decode())
    plain = re.findall(r"\[label=([^\s\"\]]+)", content.decode())
    return [re.sub(r"\\(.)", r"\1", item.replace("&amp;", "&")) for item in quoted + plain]


def mermaid_texts(content: bytes) -> list[str]:
    """The labels; each line has a form that Mermaid's own parser accepts."""
    texts, names = [], set()
    opened = 0
    for line in content.decode().splitlines():
        match = next(filter(None, (form.fullmatch(line) for form in _MERMAID)), None)
        assert match is not None, line
        parts = match.groupdict()
        if parts:
            assert parts["name"] not in names
            names.add(parts["name"])
            texts.append(_NUMBERED.sub(lambda code: chr(int(code[1])), parts["text"]))
        opened += line.lstrip().startswith("subgraph ") - (line.strip() == "end")
    assert opened == 0
    return texts


def model_explorer_texts(content: bytes) -> list[str]:
    """The labels; each edge begins at an output of a node."""
    graphs = json.loads(content)["graphs"]
    nodes = {node["id"]: node for graph in graphs for node in graph["nodes"]}
    assert len(nodes) == sum(len(graph["nodes"]) for graph in graphs)
    for node in nodes.values():
        for edge in node["incomingEdges"]:
            ports = {port["id"] for port in nodes[edge["sourceNodeId"]]["outputsMetadata"]}
            assert edge["sourceNodeOutputId"] in ports | {"control"}
        pairs = [*node["attrs"], *(a for port in node["outputsMetadata"] for a in port["attrs"])]
        assert all(isinstance(pair[key], str) for pair in pairs for key in ("key", "value"))
    return [node["label"] for node in nodes.values()]


def trace_texts(content: bytes) -> list[str]:
    """The names of the slices, which are nested on each track; each flow has two ends."""
    events = json.loads(content)["traceEvents"]
    stacks: dict[tuple[int, int], list[tuple[int, int]]] = {}
    flows: dict[int, list[str]] = {}
    names = []
    for event in events:
        track = (event["pid"], event["tid"])
        if event["ph"] == "X":
            start, length = round(event["ts"] * 1000), round(event["dur"] * 1000)
            assert length >= 0
            stack = stacks.setdefault(track, [])
            # A slice without duration contains only others like it, at the same time.
            while stack and stack[-1][1] <= start and (length or stack[-1] != (start, start)):
                stack.pop()
            assert not stack or (stack[-1][0] <= start and start + length <= stack[-1][1])
            stack.append((start, start + length))
            names.append(event["name"])
        elif event["ph"] in "sf":
            flows.setdefault(event["id"], []).append(event["ph"])
            assert stacks[track][-1][0] == round(event["ts"] * 1000)
        else:
            assert event["ph"] == "M"
    assert all(sorted(ends) == ["f", "s"] for ends in flows.values())
    return names


def csv_texts(content: bytes) -> list[str]:
    """The names of the rows; no cell is a formula."""
    rows: list[dict[str, Any]] = list(csv.DictReader(io.StringIO(content.decode(), newline="")))
    for row in rows:
        assert None not in row
        assert not any(cell.startswith(("=", "+", "@", "\t", "\r")) for cell in row.values())
    return [re.sub(r"^'(?=[=+@-])", "", row["name"]).rpartition("/")[2] for row in rows]


READERS: Final[dict[str, Callable[[bytes], list[str]]]] = {
    "dot": dot_texts, "svg": svg_texts, "html": html_texts, "mermaid": mermaid_texts,
    "model-explorer": model_explorer_texts, "perfetto": trace_texts, "csv": csv_texts,
}  # fmt: skip
PAINTED: Final = {"png": b"\x89PNG\r\n\x1a\n", "pdf": b"%PDF-"}
"""Formats that a browser renders, with their first bytes."""
