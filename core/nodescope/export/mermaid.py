"""Mermaid: a flowchart for documents, open scopes as subgraphs, folded ones as one box each.

Invariant: names from the program appear only inside quoted labels, in which every character that
Mermaid interprets is written as its number.
"""

from __future__ import annotations

import json
import re
from typing import Final

from nodescope.export import ExportOptions, exporter, graph_and_title
from nodescope.export.boxes import Boxes, boxes_of, edge_words, fold_words
from nodescope.export.dot import FAMILIES
from nodescope.export.folding import opened, within
from nodescope.export.words import detail, label, visible
from nodescope.ir.graph import Node
from nodescope.record.recording import Recording

_SPECIAL: Final = re.compile(r"[^\w .,:()=/+·…×‹›⟨⟩-]")
_GROUNDS: Final = {"light": ("#ffffff", "#14181d"), "dark": ("#1a1f24", "#e8ebee")}


@exporter("mermaid", suffix=".mmd")
def render_mermaid(recording: Recording, options: ExportOptions) -> bytes:
    """Mermaid text in UTF-8."""
    graph, title = graph_and_title(recording, options)
    part = within(graph, options.scope) if options.scope else graph
    shown = opened(part, options.expand, options.scope.strip("/"))
    boxes = boxes_of(part, shown)
    theme = "dark" if options.theme == "dark" else "default"
    lines = [
        "---", f"title: {json.dumps(visible(title))}", "config:", f"  theme: {theme}",
        "---", "flowchart TB",
    ]  # fmt: skip
    _fill(lines, boxes, "", 1)
    for edge, values in boxes.edges.items():
        arrow = "-.->" if edge.control or edge.crossing else "-->"
        words = "" if edge.control else edge_words(values, boxes.specs)
        carries = f'|"{text(words)}"|' if words else ""
        lines.append(f"  {edge.source} {arrow}{carries} {edge.target}")
    return ("\n".join([*lines, *_styles(boxes, options)]) + "\n").encode()


def text(plain: str) -> str:
    """Text inside a quoted label."""
    return _SPECIAL.sub(lambda char: f"#{ord(char[0])};", plain) or " "


def _fill(lines: list[str], boxes: Boxes, top: str, depth: int) -> None:
    # Iterative: scopes may be nested deeper than Python calls.
    waiting: list[tuple[str, int, bool]] = [(top, depth, False)]
    numbers = iter(range(1, 1 << 62))
    while waiting:
        scope, depth, ends = waiting.pop()
        pad = "  " * min(depth, 20)
        if ends:
            lines.append(f"{pad}end")
            continue
        if scope in boxes.folded:
            name = text(visible(scope.rpartition("/")[2]))
            nodes = boxes.folded[scope]
            lines.append(f'{pad}{boxes.names[nodes[0].id]}[["{name}<br>{fold_words(nodes)}"]]')
            continue
        if scope != top:
            name = text(visible(scope.rpartition("/")[2]))
            lines.append(f'{pad}subgraph c{next(numbers)}["{name}"]')
            waiting.append((scope, depth, True))
            pad, depth = "  " * min(depth + 1, 20), depth + 1
        lines += [pad + _box(node) for node in boxes.nodes.get(scope, ())]
        waiting += [(child, depth, False) for child in reversed(boxes.scopes.get(scope, ()))]


def _box(node: Node) -> str:
    line = detail(node)
    words = text(label(node)) + (f"<br>{text(line)}" if line else "")
    return f'n{node.id}(["{words}"])' if node.is_leaf else f'n{node.id}["{words}"]'


def _styles(boxes: Boxes, options: ExportOptions) -> list[str]:
    """The colours of the families, as classes."""
    ground, ink = _GROUNDS[options.theme]
    colours = FAMILIES[options.theme]
    members: dict[str, list[str]] = {}
    for nodes in boxes.nodes.values():
        for node in nodes:
            family = node.family if node.family in colours else "other"
            if not node.is_leaf:
                members.setdefault(family, []).append(f"n{node.id}")
    return [
        line
        for family, names in members.items()
        for line in (
            f"  classDef {family} fill:{ground},stroke:{colours[family]},color:{ink}",
            f"  class {','.join(names)} {family}",
        )
    ]
