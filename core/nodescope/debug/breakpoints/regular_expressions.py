"""Regular expressions on node names, matched in time linear in the length of the name.

A subset of Python's syntax: characters, ``.``, ``[classes]``, ``\\d \\w \\s`` and their opposites,
groups, ``|``, ``* + ? {m,n}`` (also lazy), ``^`` and ``$``. A pattern is compiled to at most
`MAX_STATES` states, all of which are followed at once; there is no backtracking.

Invariant: agrees with ``re.fullmatch`` on every name, or refuses the pattern with its column. Only
``$`` is stricter: it is the end of the name, and not also before a final line break.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from nodescope.errors import BreakpointError

MAX_LENGTH: Final = 200
MAX_STATES: Final = 400
MAX_DEPTH: Final = 20
_MAX_KNOWN: Final = 256  # cached steps
_SETS: Final = ("[", "--", "&&", "~~", "||")
_COUNT: Final = re.compile(r"\{(?P<low>\d{0,4})(?P<comma>,)?(?P<high>\d{0,4})\}")
_CLASSES: Final = "dDwWsS"
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v"}

Test = Callable[[str], bool]
# A state reads one character and continues, or continues to several states without reading.
# ``^`` and ``$`` continue only at the ends.
_State = tuple[Test | str | None, tuple[int, ...]]
# Adds states in front of a given one, and returns the first of them.
_Build = Callable[[int], int]


class Pattern:
    """A compiled pattern. Raises `BreakpointError` if it is none, or too large."""

    def __init__(self, text: str) -> None:
        self._states: list[_State] = [(None, ())]
        self._begin = _Reader(text, self._states).whole()(0)
        self._known: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def matches(self, name: str) -> bool:
        """Whether the pattern matches the whole name."""
        at = self._spread({self._begin}, start=True, end=not name)
        last = len(name) - 1
        for index, char in enumerate(name):
            at = self._step(at, char, end=index == last)
            if not at:
                return False
        return 0 in at

    def _step(self, at: frozenset[int], char: str, *, end: bool) -> frozenset[int]:
        key = (at, char)
        following = None if end else self._known.get(key)
        if following is None:
            reached: set[int] = set()
            for state in at:
                test, to = self._states[state]
                if callable(test) and test(char):
                    reached.update(to)
            following = self._spread(reached, start=False, end=end)
            if not end and len(self._known) < _MAX_KNOWN:
                self._known[key] = following
        return following

    def _spread(self, states: set[int], *, start: bool, end: bool) -> frozenset[int]:
        """The states, and all that they reach without reading a character."""
        reached, todo = set(states), list(states)
        while todo:
            test, to = self._states[todo.pop()]
            if test is None or (test == "^" and start) or (test == "$" and end):
                fresh = [state for state in to if state not in reached]
                reached.update(fresh)
                todo += fresh
        return frozenset(reached)


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, text: str, states: list[_State]) -> None:
        self.text, self.states = text, states
        self.at = self.depth = 0

    def whole(self) -> _Build:
        if len(self.text) > MAX_LENGTH:
            raise BreakpointError(
                f"the pattern is longer than {MAX_LENGTH} characters", column=MAX_LENGTH
            )
        build = self.either()
        if self.at < len(self.text):
            raise self.error("unmatched closing parenthesis")
        return build

    def error(self, message: str, hint: str = "") -> BreakpointError:
        return BreakpointError(
            f"{self.text!r} is not a regular expression, character {self.at + 1}: {message}",
            column=self.at, hint=hint,
        )  # fmt: skip

    def next(self, sign: str) -> bool:
        present = self.text.startswith(sign, self.at)
        self.at += len(sign) * present
        return present

    def new(self, test: Test | str | None, to: tuple[int, ...]) -> int:
        if len(self.states) >= MAX_STATES:
            raise self.error(f"it repeats too often (more than {MAX_STATES} states)")
        self.states.append((test, to))
        return len(self.states) - 1

    def either(self) -> _Build:
        parts = [self.row()]
        while self.next("|"):
            parts.append(self.row())
        if len(parts) == 1:
            return parts[0]
        return lambda to: self.new(None, tuple(build(to) for build in parts))

    def row(self) -> _Build:
        parts: list[_Build] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            parts.append(self.repeated())

        def build(to: int) -> int:
            if not parts:
                return self.new(
                    None, (to,)
                )  # so that repetitions of nothing count towards the limit
            for part in reversed(parts):
                to = part(to)
            return to

        return build

    def repeated(self) -> _Build:
        start = self.at
        part = self.one()
        counts = self.counts()
        if counts is None:
            return part
        if self.text[start] in "^$":
            raise self.error("^ and $ cannot be repeated")
        if self.text.startswith("+", self.at):
            raise self.error("possessive quantifiers are not supported")
        self.next("?")  # Lazy or not, the whole name matches or does not.
        if self.text[self.at : self.at + 1] in ("*", "+", "?") or self.counts() is not None:
            raise self.error("a quantifier follows a quantifier", "group the first one")
        low, high = counts

        def build(to: int) -> int:
            if high is None:
                again = self.new(None, ())
                self.states[again] = (None, (part(again), to))
                to = again
            else:
                for _ in range(high - low):
                    to = self.new(None, (part(to), to))
            for _ in range(low):
                to = part(to)
            return to

        return build

    def counts(self) -> tuple[int, int | None] | None:
        """Minimum and maximum of the quantifier that follows, None if there is none."""
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.next(sign):
                return counts
        match = _COUNT.match(self.text, self.at)
        if match is None or not (match["low"] or match["high"]):
            if match is not None and match["comma"]:
                self.at = match.end()
                return 0, None
            return None  # A brace without a count is literal.
        low = int(match["low"] or 0)
        high = int(match["high"]) if match["high"] else None if match["comma"] else low
        if high is not None and high < low:
            raise self.error(f"the bounds of {match[0]} are in the wrong order")
        if max(low, high or 0) > MAX_STATES:
            raise self.error(f"{match[0]} repeats too often, at most {MAX_STATES} times")
        self.at = match.end()
        return low, high

    def one(self) -> _Build:
        char = self.text[self.at]
        if char in "*+?" or (char == "{" and self.counts() is not None):
            raise self.error("nothing to repeat")
        if char in "^$":
            self.at += 1
            return lambda to: self.new(char, (to,))
        if char == "(":
            return self.group()
        test = self.test(char)
        return lambda to: self.new(test, (to,))

    def group(self) -> _Build:
        start = self.at
        self.at += 1
        if not self.next("?:") and self.text.startswith("?", self.at):
            raise self.error("look-arounds, group names and flags are not supported", "write (...)")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"groups are nested more than {MAX_DEPTH} deep")
        build = self.either()
        self.depth -= 1
        if not self.next(")"):
            self.at = start
            raise self.error("unmatched opening parenthesis")
        return build

    def test(self, char: str) -> Test:
        if char == "[":
            return self.set()
        if char == "\\":
            return self.escape()
        self.at += 1
        if char == ".":
            return lambda candidate: candidate != "\n"
        return lambda candidate: candidate == char

    def escape(self) -> Test:
        char = self.text[self.at + 1 : self.at + 2]
        if char in _CONTROLS or (char and not char.isalnum()):
            plain = _CONTROLS.get(char, char)
            self.at += 2
            return lambda candidate: candidate == plain
        if char and char in _CLASSES:
            self.at += 2
            match = re.compile(f"\\{char}").match
            return lambda candidate: match(candidate) is not None
        raise self.error(f"\\{char} is not supported", "only \\d \\w \\s are")

    def set(self) -> Test:
        """A class in brackets: delimited here, then matched by ``re``, one character at a time."""
        start = self.at
        self.at += 1
        self.next("^")
        self.next("]")  # A closing bracket in first place is literal.
        while self.text[self.at : self.at + 1] != "]":
            if self.at >= len(self.text):
                self.at = start
                raise self.error("unmatched opening bracket")
            if self.text[self.at] == "\\":
                self.escape()
            elif self.text.startswith(_SETS, self.at):
                raise self.error(
                    "sets inside a set are not supported",
                    "write a backslash before the character",
                )
            else:
                self.at += 1
        self.at += 1
        try:
            match = re.compile(self.text[start : self.at]).match
        except re.error as error:
            self.at = start
            raise self.error(str(error.msg)) from None
        return lambda candidate: match(candidate) is not None
