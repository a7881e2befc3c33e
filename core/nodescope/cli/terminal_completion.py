"""Completion of the last word of a terminal debugger's line.

Invariant: reads only what is already known about the run, and never fails: without knowledge, it
offers nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from nodescope.debug.controller import Controller
from nodescope.debug.expressions.builtins import CONSTANTS, FUNCTIONS
from nodescope.debug.watch import all_rules
from nodescope.errors import NodescopeError
from nodescope.ir.capabilities import Feature

_BREAKPOINTS: Final = ("b", "break", "tb")
_NUMBERS: Final = ("d", "delete", "on", "off")
_EXPRESSIONS: Final = ("p", "print", "values", "x", "w", "watch")
_VALUES: Final = ("set", "what-if", "why", "diff")
_NODES: Final = ("i", "info", "until", "run-to", "nodes")
_HOW: Final = ("=", "+=", "-=", "*=", "/=", "clip", "noise", "load")
_KINDS: Final = ("node:", "glob:", "regex:", "op:", "scope:", "source:", "before")
_NEEDS: Final[dict[str, Feature]] = {"before": "before", "scope:": "scopes"}
_BEFORE: Final = "([,<>=+-*/"  # characters that may precede a name; a slash is part of one


def complete(controller: Controller, commands: Iterable[str], text: str, line: str) -> list[str]:
    """Completions of ``text``, the last word of ``line``.

    Args:
        controller: The run's controller.
        commands: The names of all commands.
        text: The word, up to the cursor.
        line: The whole line.
    """
    word, space, remainder = line.lstrip().partition(" ")
    if not space:
        return _fitting(commands, text)
    if word in ("h", "help", "?"):
        return _fitting(commands, text)
    typed = remainder.split()
    first = len(typed) - (1 if text and typed else 0) == 0
    try:
        return _fitting(_words(controller, word, first), text) or _inner(controller, word, text)
    except NodescopeError:
        return []


def _words(controller: Controller, word: str, first: bool) -> Iterable[str]:
    if word in _NUMBERS:
        breakpoints = [status.breakpoint for status in controller.breakpoints]
        numbers = (str(breakpoint.id) for breakpoint in breakpoints)
        groups = {breakpoint.group for breakpoint in breakpoints if breakpoint.group}
        return [*numbers, *groups, "all"]
    if word in _BREAKPOINTS:
        if first:
            kinds = [
                kind
                for kind in _KINDS
                if not (feature := _NEEDS.get(kind)) or not controller.shortfall(feature)
            ]
            return [*kinds, *controller.names()]
        return ["if", "log", *controller.expression_names, *FUNCTIONS]
    if word == "rule":
        if first:
            return [*(rule.name for rule in all_rules()), "off"]
        return ["on", "->", *controller.names()]
    if word in ("set", "what-if") and not first:
        return _HOW
    names = [name for name in controller.names() if ":" not in name]
    if word in _NODES:
        return names
    if word in _VALUES:
        at = controller.moment
        return ["value", *(value.role for value in controller.inputs(at)), *names,
                *(("nan",) if word == "why" else ())]  # fmt: skip
    if word in _EXPRESSIONS:
        return [*controller.expression_names, *FUNCTIONS, *CONSTANTS, *names]
    if word in ("o", "over"):
        return [name.removeprefix("scope:") for name in controller.names()
                if name.startswith("scope:")]  # fmt: skip
    return ()


def _inner(controller: Controller, word: str, text: str) -> list[str]:
    """Completions of the word after the last operator or parenthesis: ``max(loss/sq``."""
    if word not in (*_EXPRESSIONS, *_BREAKPOINTS):
        return []
    place = max(text.rfind(sign) for sign in _BEFORE.rstrip("/")) + 1
    names = [*controller.expression_names, *FUNCTIONS, *CONSTANTS]
    names += [name for name in controller.names() if ":" not in name]
    return (
        [text[:place] + completion for completion in _fitting(names, text[place:])] if place else []
    )


def _fitting(words: Iterable[str], text: str) -> list[str]:
    return sorted(candidate for candidate in set(words) if candidate.startswith(text))
