"""Messages of logpoints: text with ``{expressions}`` over the values at a node.

``loss {value} at {node}, largest weight {max(abs(inputs[1])):.3g}``. Braces contain an expression
of `compiler`, optionally with a number format after a colon, or one of the names ``node``,
``op``, ``scope``, ``phase`` and ``hits``. A literal brace is doubled.

Invariant: rendering never raises: a part that cannot be evaluated is replaced by the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nodescope.console_output import shape_words
from nodescope.debug.expressions.builtins import Scene
from nodescope.debug.expressions.compiler import compile_expression
from nodescope.errors import ConditionError
from nodescope.ir.graph import Node

MAX_LENGTH: Final = 2000
_SHOWN: Final = 8  # limit of elements of an array
_PART: Final = re.compile(r"\{\{|\}\}|\{(?P<inside>[^{}]*)\}|[{}]")
_FORMAT: Final = re.compile(r":\s*(?P<format>[+ ]?\d{0,2}(?:\.\d{1,2})?[eEfgGd%]?)\s*$")
_WORDS: Final[dict[str, Callable[[Node], str]]] = {
    "node": lambda node: node.name,
    "op": lambda node: node.op,
    "scope": lambda node: node.scope,
    "phase": lambda node: node.phase,
}

Part = Callable[[Scene, Node, int], str]


class LogMessage:
    """A compiled message; ``names`` are those used in its expressions."""

    __slots__ = ("_parts", "names", "text")

    def __init__(self, text: str, names: frozenset[str], parts: tuple[Part, ...]) -> None:
        self.text = text
        self.names = names
        self._parts = parts

    def render(self, scene: Scene, node: Node, hits: int) -> str:
        """The line to log."""
        return "".join(part(scene, node, hits) for part in self._parts)


def compile_message(text: str) -> LogMessage:
    """Compile a message.

    Raises:
        ConditionError: An expression cannot be parsed, or a brace is unmatched; ``column`` says
            where.
    """
    if len(text) > MAX_LENGTH:
        raise ConditionError(
            f"the message is too long ({len(text)} characters, at most {MAX_LENGTH})",
            column=MAX_LENGTH,
        )
    parts: list[Part] = []
    names: set[str] = set()
    end = 0
    for match in _PART.finditer(text):
        parts.append(_literal(text[end : match.start()]))
        end = match.end()
        matched, inside = match[0], match["inside"]
        if matched in ("{{", "}}"):
            parts.append(_literal(matched[0]))
        elif inside is None:
            raise ConditionError(f"unmatched {matched!r}", column=match.start(),
                                 hint="write {{ for a literal brace")  # fmt: skip
        else:
            part, used = _part(inside, match.start() + 1)
            parts.append(part)
            names |= used
    parts.append(_literal(text[end:]))
    return LogMessage(text, frozenset(names), tuple(parts))


def _literal(text: str) -> Part:
    return lambda scene, node, hits: text


def _part(inside: str, column: int) -> tuple[Part, frozenset[str]]:
    word = inside.strip()
    if word in _WORDS:
        attribute = _WORDS[word]
        return (lambda scene, node, hits: attribute(node)), frozenset()
    if word == "hits":
        return (lambda scene, node, hits: str(hits)), frozenset()
    form = _FORMAT.search(inside)
    body, shape = (inside, "") if form is None else (inside[: form.start()], form["format"])
    try:
        expression = compile_expression(body)
    except ConditionError as error:
        at = column + (error.column or 0)
        raise ConditionError(error.message, column=at, hint=error.hint) from None

    def part(scene: Scene, node: Node, hits: int) -> str:
        try:
            return shown(expression(scene), shape)
        except ConditionError as error:
            return f"<{error.message}>"

    return part, expression.names


def shown(value: Any, form: str = "") -> str:
    """A number, tuple or array as text: small arrays whole, large ones by their ends."""
    if isinstance(value, tuple):
        return f"({', '.join(shown(element, form) for element in value)})"
    if isinstance(value, np.ndarray):
        if value.ndim == 0:
            return shown(value[()], form)
        few = [shown(element, form) for element in value.ravel()[:_SHOWN]]
        ellipsis = "" if value.size <= _SHOWN else ", …"
        return f"{value.dtype} {shape_words(value.shape)} [{', '.join(few)}{ellipsis}]"
    if value is None:
        return "nothing"
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    try:
        if form:
            return format(value, form)
    except (TypeError, ValueError):
        pass
    if isinstance(value, float | np.floating):
        return f"{float(value):.6g}"
    return str(value)
