"""Draft: a foreign graph while it is being read, from which a `Graph` is built.

Invariant: nodes are in topological order, those on or behind cycles last; names are unique; a
reference to a missing node becomes an input, with a remark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from nodescope.errors import GraphError
from nodescope.graph_files.families import family_of
from nodescope.ir.graph import Graph, Node, OpaqueSpec, Role, Spec, Value
from nodescope.ir.order import in_order
from nodescope.ir.scopes import ancestors, join

MOST_NODES: Final = 1_000_000
MOST_EDGES: Final = 4_000_000
LONGEST: Final = 1000
"""The largest number of characters of a text that are kept."""

_MOST_ATTRS: Final = 100
_MOST_ITEMS: Final = 64
_DEEPEST: Final = 100
UNKNOWN: Final = OpaqueSpec("")
"""The spec of a value that the file does not describe."""

Ref = tuple[str, int]
"""A node's key, and the port of its output."""


class DraftNode(msgspec.Struct):
    """A node as read from the file.

    Attributes:
        key: Unique in the draft.
        scope: Its path; None to place it in the scope of the nodes that read it.
        outputs: The known specs, by port.
    """

    key: str
    name: str
    op: str
    scope: str | None
    inputs: list[Ref]
    controls: list[str]
    outputs: dict[int, Spec]
    attrs: dict[str, Any]
    role: Role
    device: str = ""


class Draft:
    """The nodes of a file.

    Attributes:
        dialect: The dialect of its operators.
        notes: Remarks for the user.
    """

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self.notes: list[str] = []
        self.nodes: dict[str, DraftNode] = {}
        self._aliases: dict[Ref, Ref] = {}
        self._edges = 0

    def add(
        self, key: str, name: str, op: str, *, scope: str | None = "", inputs: Sequence[Ref] = (),
        controls: Sequence[str] = (), outputs: dict[int, Spec] | None = None,
        attrs: dict[str, Any] | None = None, role: Role = "op", device: str = "",
    ) -> DraftNode:  # fmt: skip
        """Add a node.

        Raises:
            GraphError: A node has this key already, or there are too many nodes or edges.
        """
        if key in self.nodes:
            raise GraphError(f"two nodes are named {_cut(key, 80)!r}")
        self._edges += len(inputs) + len(controls)
        if len(self.nodes) >= MOST_NODES or self._edges > MOST_EDGES:
            raise GraphError(f"it has more than {MOST_NODES:,} nodes or {MOST_EDGES:,} edges")
        node = DraftNode(
            key, _cut(name), _cut(op), scope, list(inputs), list(controls), dict(outputs or {}),
            _attrs(attrs or {}), role, device,
        )  # fmt: skip
        self.nodes[key] = node
        return node

    def alias(self, ref: Ref, target: Ref) -> None:
        """Make a reference stand for another."""
        self._aliases[ref] = target

    def note(self, text: str) -> None:
        """Add a remark for the user, unless it is there already or there are 20."""
        if text not in self.notes and len(self.notes) < 20:
            self.notes.append(text)

    def graph(self) -> Graph:
        """Build the graph. Raises `GraphError` if it has no nodes."""
        if not self.nodes:
            raise GraphError("it has no nodes")
        for node in list(self.nodes.values()):
            node.inputs = [self._resolved(ref) for ref in node.inputs]
            node.controls = [key for key in node.controls if key in self.nodes]
        for node in self.nodes.values():
            for key, port in node.inputs:
                self.nodes[key].outputs.setdefault(port, UNKNOWN)
        self._place_leaves()
        return self._built(self._sorted())

    def _resolved(self, ref: Ref) -> Ref:
        passed = set()
        while ref in self._aliases and ref not in passed:
            passed.add(ref)
            ref = self._aliases[ref]
        if ref[0] not in self.nodes:
            self.note(f"nothing computes {_cut(ref[0], 80)!r}: it is shown as an input")
            self.add(ref[0], ref[0], "input", scope=None, role="input")
        return ref

    def _place_leaves(self) -> None:
        """Give nodes without a scope the innermost scope that holds all their readers."""
        readers: dict[str, list[str]] = {}
        for node in self.nodes.values():
            for key, _ in node.inputs:
                if self.nodes[key].scope is None:
                    readers.setdefault(key, []).append(node.scope or "")
        for key, scopes in readers.items():
            self.nodes[key].scope = _common(scopes)

    def _sorted(self) -> list[DraftNode]:
        drafts = list(self.nodes.values())
        places = {node.key: place for place, node in enumerate(drafts)}
        needs = {
            place: {places[key] for key in (*(key for key, _ in node.inputs), *node.controls)}
            for place, node in enumerate(drafts)
        }
        done = in_order(needs)
        if len(done) < len(drafts):
            self.note(f"{len(drafts) - len(done):,} nodes are on a cycle, or behind one")
            done += sorted(set(places.values()) - set(done))
        return [drafts[place] for place in done]

    def _built(self, drafts: list[DraftNode]) -> Graph:
        numbers = {node.key: number for number, node in enumerate(drafts, 1)}
        values: dict[Ref, int] = {}
        specs: list[Value] = []
        names: dict[str, int] = {}
        titles = {node.key: _unique(node, names) for node in drafts}
        for node in drafts:
            for port in sorted(node.outputs):
                values[node.key, port] = len(values) + 1
                name = titles[node.key] + (f":{port}" if port else "")
                specs.append(Value(len(values), node.outputs[port], name))
        nodes = tuple(
            Node(
                numbers[node.key], titles[node.key], node.op,
                "leaf" if node.role in ("input", "parameter", "constant", "buffer")
                else family_of(node.op),
                tuple(values[ref] for ref in node.inputs),
                tuple(numbers[key] for key in node.controls),
                tuple(values[node.key, port] for port in sorted(node.outputs)),
                node.attrs, node.scope or "", device=node.device or "cpu", role=node.role,
                dialect=self.dialect,
            )
            for node in drafts
        )  # fmt: skip
        constants = tuple(v for node in nodes if node.role == "constant" for v in node.outputs)
        return Graph(0, "static", nodes=nodes, values=tuple(specs), constants=constants)


def scoped(name: str) -> tuple[str, str]:
    """The scope and the last part of a node's name such as ``a/b/c``."""
    parts = [part for part in name[:LONGEST].split("/") if part]
    if not parts:
        return "", name or "node"
    return "/".join(parts[:-1][:_DEEPEST]), parts[-1]


def scope_of(parts: Iterable[str]) -> str:
    """A scope path made of names; slashes within a name do not separate."""
    kept = [_cut(part.replace("/", "∕"), 200) for part in parts if part]
    return "/".join(kept[:_DEEPEST])


def _unique(node: DraftNode, names: dict[str, int]) -> str:
    title = join(node.scope or "", node.name.replace("/", "∕") or node.op or "node")
    count = names.get(title, 0)
    names[title] = count + 1
    if not count:
        return title
    while f"{title}_{count}" in names:
        count += 1
    names[title] = count + 1
    names[f"{title}_{count}"] = 1
    return f"{title}_{count}"


def _common(scopes: list[str]) -> str:
    """The innermost scope that holds all of these."""
    common = ancestors(scopes[0])
    for scope in set(scopes[1:]):
        paths = ancestors(scope)
        same = 0
        while same < min(len(common), len(paths)) and common[same] == paths[same]:
            same += 1
        del common[same:]
    return common[-1] if common else ""


def _attrs(attrs: dict[str, Any]) -> dict[str, Any]:
    return {_cut(str(key), 200): _plain(attrs[key]) for key in list(attrs)[:_MOST_ATTRS]}


def _plain(value: Any) -> Any:
    """An attribute's value, shortened, as a plain type."""
    if isinstance(value, bytes):
        value = value[: LONGEST + 1].decode("utf-8", "backslashreplace")
    if isinstance(value, str):
        return _cut(value)
    if isinstance(value, bool | float) or value is None:
        return value
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 63 else str(value)
    if isinstance(value, list | tuple):
        items = [_plain(item) for item in value[:_MOST_ITEMS]]
        return [*items, "…"] if len(value) > _MOST_ITEMS else items
    return _cut(str(value))


def _cut(text: str, most: int = LONGEST) -> str:
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    return text.encode("utf-8", "backslashreplace").decode()
