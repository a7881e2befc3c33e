"""Messages of logpoints: text with ``{expressions}`` over the values at a node.

``loss {value} at {node}, largest weight {max(abs(inputs[1])):.3g}``. What stands in braces is an
expression of `conditions`, perhaps with a format of numbers after a colon, or one of the names
``node``, ``op``, ``scope``, ``phase`` and ``hits``. A brace itself is written twice.

Invariant: rendering raises nothing: a part that cannot be evaluated says why in its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nodescope.debug.conditions import compile_expression
from nodescope.debug.vocabulary import Scene
from nodescope.errors import ConditionError
from nodescope.ir.graph import Node

MAX_LENGTH: Final = 2000
_SHOWN: Final = 8  # elements of an array
_PART: Final = re.compile(r"\{\{|\}\}|\{(?P<inside>[^{}]*)\}|[{}]")
_FORMAT: Final = re.compile(r":\s*(?P<format>[+ ]?\d{0,2}(?:\.\d{1,2})?[eEfgGd%]?)\s*$")
_WORDS: Final[dict[str, Callable[[Node], str]]] = {
    "node": lambda node: node.name,
    "op": lambda node: node.op,
    "scope": lambda node: node.scope,
    "phase": lambda node: node.phase,
}

Part = Callable[[Scene, Node, int], str]


class Message:
    """A compiled message; ``names`` are those that its expressions use."""

    __slots__ = ("_parts", "names", "text")

    def __init__(self, text: str, names: frozenset[str], parts: tuple[Part, ...]) -> None:
        self.text = text
        self.names = names
        self._parts = parts

    def render(self, scene: Scene, node: Node, hits: int) -> str:
        """The line to log."""
        return "".join(part(scene, node, hits) for part in self._parts)


def compile_message(text: str) -> Message:
    """Compile a message.

    Raises:
        ConditionError: An expression cannot be parsed, or a brace has no twin; ``column`` says
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
    for found in _PART.finditer(text):
        parts.append(_literal(text[end : found.start()]))
        end = found.end()
        whole, inside = found[0], found["inside"]
        if whole in ("{{", "}}"):
            parts.append(_literal(whole[0]))
        elif inside is None:
            raise ConditionError(f"{whole!r} has no twin", column=found.start(),
                                 hint="write {{ for a literal brace")  # fmt: skip
        else:
            part, used = _part(inside, found.start() + 1)
            parts.append(part)
            names |= used
    parts.append(_literal(text[end:]))
    return Message(text, frozenset(names), tuple(parts))


def _literal(text: str) -> Part:
    return lambda scene, node, hits: text


def _part(inside: str, column: int) -> tuple[Part, frozenset[str]]:
    word = inside.strip()
    if word in _WORDS:
        told = _WORDS[word]
        return (lambda scene, node, hits: told(node)), frozenset()
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


def shown(found: Any, form: str = "") -> str:
    """A number, tuple or array as text: small arrays whole, large ones by their ends."""
    if isinstance(found, tuple):
        return f"({', '.join(shown(each, form) for each in found)})"
    if isinstance(found, np.ndarray):
        if found.ndim == 0:
            return shown(found[()], form)
        few = [shown(each, form) for each in found.ravel()[:_SHOWN]]
        more = "" if found.size <= _SHOWN else ", …"
        shape = "×".join(map(str, found.shape))
        return f"{found.dtype} {shape} [{', '.join(few)}{more}]"
    if found is None:
        return "nothing"
    if isinstance(found, bool | np.bool_):
        return str(bool(found))
    try:
        if form:
            return format(found, form)
    except (TypeError, ValueError):
        pass
    if isinstance(found, float | np.floating):
        return f"{float(found):.6g}"
    return str(found)
