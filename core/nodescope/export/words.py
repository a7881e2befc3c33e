"""Text for nodes, the same in every format.

Invariant: one line, without characters that a viewer of the file could not show or would interpret.
"""

from __future__ import annotations

import unicodedata
from typing import Any

from nodescope.ir.attrs import GraphRef, plain
from nodescope.ir.graph import Node

_LONGEST = 120


def visible(text: str, *, most: int = _LONGEST) -> str:
    """Text for a picture: control and direction characters become code points, long text is cut."""
    if len(text) > most:
        text = f"{text[: most - 1]}…"
    if text.isprintable():  # as nearly all text is: none of the categories below
        return text
    # Cc, Cf, Cs: controls, format characters such as RTL override, lone surrogates.
    # Cn holds U+FFFE and U+FFFF, which XML forbids; Zl and Zp are line breaks.
    hidden = {"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"}
    return "".join(
        f"⟨U+{ord(char):04X}⟩" if unicodedata.category(char) in hidden else char for char in text
    )


def label(node: Node) -> str:
    """The last part of a node's name."""
    return visible(node.name.rpartition("/")[2])


def detail(node: Node) -> str:
    """One short line on the op's attributes: ``axis 1 · keepdims``."""
    parts = []
    for key, value in node.attrs.items():
        text = _attribute(plain(key, value))
        if value is False or value is None or len(text) > 20 or isinstance(value, GraphRef):
            continue
        parts.append(key if value is True else f"{key} {text}")
    return visible(" · ".join(parts), most=40)


def _attribute(value: Any) -> str:
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_attribute, value))})"
    return str(value)
