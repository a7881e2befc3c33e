"""Completion: what the last word of a terminal debugger's line may become.

Invariant: reads what is known of the run, and fails at nothing: where nothing is known, there is
nothing to offer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from nodescope.debug.controller import Controller
from nodescope.debug.vocabulary import CONSTANTS, FUNCTIONS, NAMES
from nodescope.debug.watch import all_rules
from nodescope.errors import NodescopeError

_BREAKPOINTS: Final = ("b", "break", "tb")
_NUMBERS: Final = ("d", "delete", "on", "off")
_EXPRESSIONS: Final = ("p", "print", "values", "x", "w", "watch")
_VALUES: Final = ("set", "fork", "why", "diff")
_NODES: Final = ("i", "info", "until", "run-to", "nodes")
_HOW: Final = ("=", "+=", "-=", "*=", "/=", "clip", "noise", "load")
_KINDS: Final = ("node:", "glob:", "regex:", "op:", "scope:", "source:", "before")
_BEFORE: Final = "([,<>=+-*/"  # what a name may follow at once; a slash is part of names


def complete(controller: Controller, commands: Iterable[str], text: str, line: str) -> list[str]:
    """The words that ``text``, the last of ``line``, may become.

    Args:
        controller: Of the run.
        commands: The names of all commands.
        text: The word, up to the cursor.
        line: The whole line.
    """
    word, space, rest = line.lstrip().partition(" ")
    if not space:
        return _fitting(commands, text)
    if word in ("h", "help", "?"):
        return _fitting(commands, text)
    given = rest.split()
    first = len(given) - (1 if text and given else 0) == 0
    try:
        return _fitting(_words(controller, word, first), text) or _inner(controller, word, text)
    except NodescopeError:
        return []


def _words(controller: Controller, word: str, first: bool) -> Iterable[str]:
    if word in _NUMBERS:
        held = [each.breakpoint for each in controller.breakpoints]
        return [*(str(each.id) for each in held), *{each.group for each in held if each.group},
                "all"]  # fmt: skip
    if word in _BREAKPOINTS:
        return [*_KINDS, *controller.names()] if first else ["if", "log", *NAMES, *FUNCTIONS]
    if word == "rule":
        if first:
            return [*(each.name for each in all_rules()), "off"]
        return ["on", "->", *controller.names()]
    if word in ("set", "fork") and not first:
        return _HOW
    names = [each for each in controller.names() if ":" not in each]
    if word in _NODES:
        return names
    if word in _VALUES:
        at = controller.moment
        return ["value", *(each.role for each in controller.inputs(at)), *names,
                *(("nan",) if word == "why" else ())]  # fmt: skip
    if word in _EXPRESSIONS:
        return [*NAMES, *FUNCTIONS, *CONSTANTS, *names]
    if word in ("o", "over"):
        return [each.removeprefix("scope:") for each in controller.names()
                if each.startswith("scope:")]  # fmt: skip
    return ()


def _inner(controller: Controller, word: str, text: str) -> list[str]:
    """As the word behind the last operator or parenthesis: ``max(loss/sq``."""
    if word not in (*_EXPRESSIONS, *_BREAKPOINTS):
        return []
    place = max(text.rfind(each) for each in _BEFORE.rstrip("/")) + 1
    names = [*NAMES, *FUNCTIONS, *CONSTANTS]
    names += [each for each in controller.names() if ":" not in each]
    return [text[:place] + each for each in _fitting(names, text[place:])] if place else []


def _fitting(words: Iterable[str], text: str) -> list[str]:
    return sorted(each for each in set(words) if each.startswith(text))
