"""DOT: nodes, edges and clusters of a Graphviz file; layout and colours are ignored.

Invariant: time is linear in the length of the text; an invalid text is a `GraphError` with its
line.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Final

from nodescope.errors import GraphError
from nodescope.graph_files.draft import MOST_EDGES, Draft, Ref, scope_of
from nodescope.ir.graph import Spec, TensorSpec

_TOKEN: Final = re.compile(
    r"""(?P<space>(?:\s|//[^\n]*|/\*(?:[^*]|\*(?!/))*+\*/|^\#[^\n]*)+)
    |(?P<text>"(?:[^"\\]|\\.)*+")
    |(?P<number>-?(?:\.\d+|\d+(?:\.\d*)?)(?![\w]))
    |(?P<word>[\w.]++)
    |(?P<sign>->|--|[{}\[\]=;,:+])""",
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
_TAG: Final = re.compile(r"<[^<>]*>")
_BREAK: Final = re.compile(r"<\s*(?:br|/tr)[^<>]*>", re.IGNORECASE)
_RECORD: Final = re.compile(r"<\w*>|[{}|]")
_SHAPE: Final = re.compile(r"[\[(]?\s*((?:\d+|\?)(?:\s*[,x×]\s*(?:\d+|\?))*)\s*,?\s*[\])]?")
_DEEPEST: Final = 100
_OP: Final = re.compile(r"[^\W\d][\w:.]*")


class _Cluster:
    """A subgraph; the file may give its label after its nodes."""

    __slots__ = ("label", "name", "parent")

    def __init__(self, name: str, parent: _Cluster | None) -> None:
        self.name, self.parent, self.label = name, parent, ""

    def path(self) -> list[str]:
        """The names of the clusters around it and its own, outermost first."""
        above = self.parent.path() if self.parent is not None else []
        if not self.name.startswith("cluster"):
            return above
        name = self.label or self.name.removeprefix("cluster").lstrip("_") or "cluster"
        return [*above, name]


def read(data: bytes | memoryview, name: str) -> Draft:
    """The graph of a file."""
    text = bytes(data).decode("utf-8", "backslashreplace").removeprefix("\ufeff")
    reader = _Reader(text)
    reader.graph()
    return reader.draft()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._token = self._kind = ""
        self._labels: dict[str, str] = {}
        self._places: dict[str, _Cluster] = {}
        self._edges: list[tuple[str, str, str]] = []
        self._next()

    def graph(self) -> None:
        """Read the file."""
        if self._word() == "strict":
            self._next()
        if self._word() not in ("graph", "digraph"):
            raise self._wrong("expected 'digraph'")
        self._next()
        if self._token != "{":
            self._id()
        self._statements(_Cluster("", None), 0)

    def draft(self) -> Draft:
        """The graph that was read."""
        draft = Draft("dot")
        inputs: dict[str, list[Ref]] = {}
        specs: dict[str, dict[int, Spec]] = {}
        ports: dict[tuple[str, Spec], int] = {}
        for source, target, label in self._edges:
            # A node gets an output port for each shape on its edges.
            spec = _shape(label)
            outputs = specs.setdefault(source, {})
            port = ports.setdefault((source, spec), len(outputs)) if spec is not None else 0
            if spec is not None:
                outputs[port] = spec
            inputs.setdefault(target, []).append((source, port))
        paths: dict[_Cluster, str] = {}
        for key, cluster in self._places.items():
            if cluster not in paths:
                paths[cluster] = scope_of(cluster.path())
            lines = [line for line in self._labels.get(key, key).split("\n") if line.strip()]
            title = lines[0].strip() if lines else key
            op = _OP.match(title)
            more = {"label": " · ".join(line.strip() for line in lines[1:])} if lines[1:] else {}
            draft.add(
                key, title, op[0] if op else title, scope=paths[cluster],
                inputs=inputs.get(key, ()), outputs=specs.get(key), attrs=more,
            )  # fmt: skip
        return draft

    def _statements(self, cluster: _Cluster, depth: int) -> list[str]:
        """Read statements up to the closing brace. Returns the keys of the nodes in them."""
        if depth > _DEEPEST:
            raise self._wrong(f"subgraphs are nested more than {_DEEPEST} deep")
        self._take("{")
        named: list[str] = []
        while self._token != "}" or self._kind != "sign":
            if self._kind == "sign" and self._token in (";", ","):
                self._next()
                continue
            if self._word() in ("graph", "node", "edge"):
                kind = self._word()
                self._next()
                attributes = self._attributes()
                if kind == "graph" and "label" in attributes:
                    cluster.label = _plain(attributes["label"])
                continue
            named += self._statement(cluster, depth)
        self._next()
        return named

    def _statement(self, cluster: _Cluster, depth: int) -> list[str]:
        """Read a node, a chain of edges, a subgraph or a setting. Returns the keys of its nodes."""
        left, single = self._end(cluster, depth)
        if single and self._token == "=":
            self._next()
            value = self._id()
            if left[0] == "label":
                cluster.label = _plain(value)
            return []
        pairs: list[tuple[list[str], list[str]]] = []
        ends = list(left)
        self._note(left, cluster)
        while self._kind == "sign" and self._token in ("->", "--"):
            self._next()
            right, _ = self._end(cluster, depth)
            self._note(right, cluster)
            pairs.append((left, right))
            ends += right
            left = right
        attributes = self._attributes()
        label = attributes.get("label", "")
        if not pairs and single and label:
            self._labels[ends[0]] = _plain(label)
        for sources, targets in pairs:
            if len(self._edges) + len(sources) * len(targets) > MOST_EDGES:
                raise GraphError(f"it has more than {MOST_EDGES:,} edges")
            self._edges += ((source, target, label) for source in sources for target in targets)
        return ends

    def _end(self, cluster: _Cluster, depth: int) -> tuple[list[str], bool]:
        """The nodes at one end of an edge, and whether it is a single node and not a subgraph."""
        if self._word() == "subgraph" or (self._token == "{" and self._kind == "sign"):
            name = ""
            if self._token != "{":
                self._next()
                if self._token != "{" or self._kind != "sign":
                    name = self._id()
            return list(dict.fromkeys(self._statements(_Cluster(name, cluster), depth + 1))), False
        key = self._id()
        while self._kind == "sign" and self._token == ":":  # a port and a compass point
            self._next()
            self._id()
        return [key], True

    def _note(self, keys: list[str], cluster: _Cluster) -> None:
        for key in keys:
            if key not in self._places:
                self._places[key] = cluster

    def _attributes(self) -> dict[str, str]:
        attributes: dict[str, str] = {}
        while self._kind == "sign" and self._token == "[":
            self._next()
            while self._token != "]" or self._kind != "sign":
                if self._kind == "sign" and self._token in (",", ";"):
                    self._next()
                    continue
                name = self._id()
                if self._token == "=":
                    self._next()
                    attributes[name] = self._id()
            self._next()
        return attributes

    def _id(self) -> str:
        if self._kind == "sign" or not self._kind:
            raise self._wrong(f"expected a name, not {self._token!r}")
        text = self._token
        if self._kind == "text":
            text = text[1:-1].replace('\\"', '"').replace("\\\n", "")
            self._next()
            while self._token == "+" and self._kind == "sign":
                self._next()
                text += self._id()
            return text
        self._next()
        return text

    def _word(self) -> str:
        return self._token.lower() if self._kind == "word" else ""

    def _take(self, sign: str) -> None:
        if self._token != sign or self._kind != "sign":
            raise self._wrong(f"expected {sign!r}, not {self._token[:40]!r}")
        self._next()

    def _next(self) -> None:
        while self._at < len(self._text):
            if self._text[self._at] == "<":
                self._token, self._kind = self._html(), "html"
                return
            match = _TOKEN.match(self._text, self._at)
            if match is None:
                raise self._wrong(f"unexpected {self._text[self._at : self._at + 20]!r}")
            self._at = match.end()
            if match.lastgroup != "space":
                self._token, self._kind = match[0], str(match.lastgroup)
                return
        self._token = self._kind = ""

    def _html(self) -> str:
        """Read an HTML-like label as plain text."""
        depth, start = 0, self._at
        for match in re.compile("[<>]").finditer(self._text, start):
            depth += 1 if match[0] == "<" else -1
            if not depth:
                self._at = match.end()
                inside = self._text[start + 1 : match.start()]
                return unescape(_TAG.sub("", _BREAK.sub(r"\\n", inside)))
        raise self._wrong("a label without its end")

    def _wrong(self, what: str) -> GraphError:
        return GraphError(f"{what} in line {self._text.count(chr(10), 0, self._at) + 1:,}")


def _plain(label: str) -> str:
    """A label as plain text, with escapes and the fields of a record turned into line breaks."""
    text = re.sub(r"\\[nlr]", "\n", label)
    if text.startswith("{") and text.endswith("}"):
        text = _RECORD.sub("\n", text)
    return re.sub(r"\\(.)", r"\1", text).strip()


def _shape(label: str) -> Spec | None:
    match = _SHAPE.fullmatch(label.strip())
    if match is None or len(label) > 200:
        return None
    sizes = re.split(r"\s*[,x×]\s*", match[1])
    if any(len(size) > 18 for size in sizes):
        return None
    return TensorSpec(tuple(None if size == "?" else int(size) for size in sizes), "")
