"""SVG: runs the page's own layout and painter without a page, or Graphviz.

Invariant: the output is well-formed, contains drawing elements only, and refers to nothing outside.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import graphviz

from nodescope.errors import ExportError
from nodescope.export import ExportOptions, exporter, graph_and_title
from nodescope.export.dot import FAMILIES, dot_for
from nodescope.export.folding import opened, within
from nodescope.export.words import detail, label, visible
from nodescope.ir.graph import Graph, OpaqueSpec, Spec
from nodescope.record.recording import Recording

_ELEMENTS = frozenset(
    {
        "svg",
        "g",
        "defs",
        "title",
        "desc",
        "style",
        "rect",
        "path",
        "text",
        "tspan",
        "line",
        "circle",
        "ellipse",
        "polygon",
        "polyline",
        "clipPath",
        "marker",
        "linearGradient",
        "stop",
        "a",
    }
)
_SPACE = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}"
# The number of bits in a dtype's name, such as `int32`, `bfloat16` or `float8_e4m3fn`.
_BITS = re.compile(r"[a-z]+(\d+)")
_FONT = re.compile(r"url\(data:font/woff2;base64,[A-Za-z0-9+/=]+\)")
_OUTSIDE = re.compile(r"@import|url\(\s*['\"]?(?!#)|javascript:|expression\(", re.I)
# The page's fonts in the scripts that it uses; other scripts are left to the viewer's machine.
_FONTS = (("Inter NS", "400 650", "inter"), ("JetBrains Mono NS", "400 650", "jetbrains-mono"))


@exporter("svg", suffix=".svg")
def render_svg(recording: Recording, options: ExportOptions) -> bytes:
    """SVG text in UTF-8."""
    graph, title = graph_and_title(recording, options)
    by_dot = options.engine == "dot"
    content = (_by_dot if by_dot else _by_page)(graph, title, options)
    check_svg(content)
    return content


def check_svg(content: bytes) -> None:
    """Refuse SVG that is more than a drawing.

    Raises:
        ExportError: The SVG is not well-formed or contains something that a drawing does not need.
    """
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise ExportError(f"the picture is not well-formed: {error}") from error
    for element in root.iter():
        tag = str(element.tag).removeprefix(_SPACE)
        if tag not in _ELEMENTS:
            raise ExportError(f"the picture holds a forbidden element {tag[:40]!r}")
        texts = [element.text or ""] if tag == "style" else []
        for name, value in element.attrib.items():
            link = name in ("href", f"{_XLINK}href") and not value.startswith("#")
            if name.lower().startswith("on") or link:
                raise ExportError(f"the picture holds a forbidden attribute {name[:40]!r}")
            if name in ("style", "fill", "stroke", "clip-path", "marker-end", "filter"):
                texts.append(value)
        if any(_OUTSIDE.search(_FONT.sub("", text)) for text in texts):
            raise ExportError(f"the picture has an external reference in {tag!r}")


def _by_dot(graph: Graph, title: str, options: ExportOptions) -> bytes:
    try:
        return bytes(dot_for(graph, title, options).pipe(format="svg", quiet=True))
    except graphviz.ExecutableNotFound as error:
        raise ExportError(
            "Graphviz's `dot` is not installed",
            hint="apt-get install graphviz, or omit --engine dot",
        ) from error
    except graphviz.CalledProcessError as error:
        raise ExportError(f"Graphviz's `dot` failed: {error}") from error


def _by_page(graph: Graph, title: str, options: ExportOptions) -> bytes:
    script = _bundle()
    try:
        from py_mini_racer import MiniRacer
    except ImportError as error:
        raise ExportError(
            "mini-racer is not installed", hint="pip install mini-racer, or use --engine dot"
        ) from error
    engine = MiniRacer()
    try:
        engine.eval(script)
        picture = engine.call(
            "nodescopeExport.renderSvg", json.dumps(page_input(graph, title, options))
        )
    except MemoryError:
        raise
    except Exception as error:  # whatever JavaScript throws
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ExportError(f"the page's painter failed: {line}", hint="try --engine dot") from error
    finally:
        # An engine left open can keep the interpreter from ending.
        engine.close()
    return str(picture).encode()


def _bundle() -> str:
    path = _built("export.js")
    if path is not None:
        return path.read_text("utf-8")
    raise ExportError(
        "the page, which draws the SVG, is not built", hint="make setup, or --engine dot"
    )


def _built(name: str) -> Path | None:
    """A file of the built page."""
    spec = importlib.util.find_spec("nodescope_server")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(place) / "_web" / name
        if path.is_file():
            return path
    return None


def font_faces() -> str:
    """CSS with the page's fonts embedded (SIL Open Font License 1.1)."""
    faces = []
    for family, weight, name in _FONTS:
        path = _built(f"fonts/{name}.woff2")
        if path is None:
            continue
        data = base64.b64encode(path.read_bytes()).decode()
        faces.append(
            f'@font-face{{font-family:"{family}";font-weight:{weight};'
            f"src:url(data:font/woff2;base64,{data})}}"
        )
    return "".join(faces)


def page_input(graph: Graph, title: str, options: ExportOptions) -> dict[str, Any]:
    """The input of `renderSvg` in the page's bundle (`export_entry.ts`)."""
    if options.scope:
        graph = within(graph, options.scope)
    shown = opened(graph, options.expand, options.scope.strip("/"))
    return {
        "nodes": [
            {
                "id": node.id,
                "name": visible(node.name, most=1000),
                "label": label(node),
                "op": visible(node.op),
                "family": "leaf" if node.is_leaf else _family(node.family),
                "role": node.role,
                "scope": visible(node.scope, most=1000),
                "phase": node.phase,
                "inputs": node.inputs,
                "outputs": node.outputs,
                "detail": detail(node),
                "forward": node.forward,
                "control": node.control_inputs,
            }
            for node in graph.nodes
        ],
        "values": [{"id": value.id, **_spec_fields(value.spec)} for value in graph.values],
        "open": "all"
        if options.expand == "all"
        else sorted(visible(name, most=1000) for name in shown),
        "levels": options.expand if isinstance(options.expand, int) else None,
        "fonts": font_faces(),
        "theme": options.theme,
        "title": title,
    }


def _family(family: str) -> str:
    return family if family in FAMILIES["light"] else "other"


def _spec_fields(spec: Spec) -> dict[str, Any]:
    if isinstance(spec, OpaqueSpec):
        name = visible(spec.type)
        return {"shape": (), "dtype": name, "bytes": spec.nbytes or 0, "type": name}
    nbytes = _nbytes(spec.shape, spec.dtype)
    return {"shape": spec.shape, "dtype": visible(spec.dtype), "bytes": nbytes}


def _nbytes(shape: tuple[int | None, ...], dtype: str) -> int:
    """The size of a tensor in bytes, as the page has it; a lower bound if something is unknown."""
    bits = _BITS.match(dtype)
    size = max(1, int(bits[1]) // 8) if bits else int(dtype == "bool")
    for length in shape:
        size *= 1 if length is None else length
    return size
