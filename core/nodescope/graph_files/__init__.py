"""Graph files: ONNX, TensorFlow's GraphDef, DOT, Model Explorer's JSON, nodescope's own text.

A format is a module with a function ``read(data, name)`` that returns a `Draft`, or a `Graph`. It
reads structure only: names, operators, shapes, attributes. It needs no framework and runs no code
from the file.

Invariant: any bytes give a graph or a `GraphError` of one line. Files are read in a separate
process, within limits (`isolated`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Final, NamedTuple

from nodescope.errors import GraphError
from nodescope.graph_files.draft import Draft
from nodescope.graph_files.suffixes import DOT, GRAPHDEF, MODEL_EXPLORER, ONNX, OWN, SUFFIXES
from nodescope.ir.graph import Graph


class Format(NamedTuple):
    """A format: its title, its module, and the suffixes of its files."""

    title: str
    module: str
    suffixes: tuple[str, ...]


FORMATS: Final = (
    Format("ONNX", "onnx", ONNX),
    Format("GraphDef", "tensorflow", GRAPHDEF),
    Format("DOT", "dot", DOT),
    Format("Model Explorer JSON", "model_explorer", MODEL_EXPLORER),
    Format("nodescope graph", "own_text", OWN),
)


def format_of(data: bytes | memoryview, name: str) -> Format:
    """The format of a file, by its first bytes, then by the suffix of its name.

    Raises:
        GraphError: No format that can be read matches.
    """
    start = bytes(data[:4096])
    by_module = {format.module: format for format in FORMATS}
    by_name = next((item for item in FORMATS if name.lower().endswith(item.suffixes)), None)
    if not start.strip():
        raise GraphError("the file is empty")
    if start.startswith(b"\x80") and start[1:2] in b"\x02\x03\x04\x05":
        raise GraphError("it is a pickle, which is never read", hint="export the model to ONNX")
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    first = (text.partition(b"{")[0].split(None, 1) or [b""])[0]
    if text.startswith((b"{", b"[")):
        return by_module["model_explorer"]
    if start.startswith(b"PK") or (first == b"graph" and text[5:].lstrip()[:1].isdigit()):
        return by_module["own_text"]
    # The text of a GraphDef may begin with a field named `graph` too.
    is_graph = first == b"graph" and (by_name is None or by_name.module == "dot")
    if is_graph or first in (b"digraph", b"strict"):
        return by_module["dot"]
    if by_name is not None and by_name.module != "model_explorer":
        return by_name
    raise GraphError(
        "it is no graph file that nodescope reads",
        hint=f"a recording, or one of {', '.join(SUFFIXES)}",
    )


def read_graph(data: bytes | memoryview, name: str) -> tuple[Graph, str, tuple[str, ...]]:
    """The graph of a file, its dialect (such as ``onnx``), and remarks for the user.

    Raises:
        GraphError: The file cannot be read; the message says what is wrong.
    """
    format = format_of(data, name)
    module = importlib.import_module(f"nodescope.graph_files.{format.module}")
    reader: Callable[[bytes | memoryview, str], Draft | Graph] = module.read
    try:
        draft = reader(data, name)
        if isinstance(draft, Graph):
            return draft, "nodescope", ()
        graph = draft.graph()
    except GraphError as error:
        raise GraphError(f"no valid {format.title}: {error.message}", hint=error.hint) from None
    except RecursionError:
        raise GraphError(f"no valid {format.title}: it is nested too deeply") from None
    return graph, draft.dialect, tuple(draft.notes)
