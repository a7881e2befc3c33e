"""Breakpoints as editors set them, as nodescope's.

An editor replaces the breakpoints of one file, or all function breakpoints, or all data
breakpoints; the gate has one set. Each keeps its id, and with it its hits, as long as it is the
same.

Invariant: one that makes no sense is answered unverified with its reason, and the others are set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from nodescope.debug.breakpoints import validate
from nodescope.debug.controller import Controller
from nodescope.debug.spelling import parse_breakpoint
from nodescope.errors import NodescopeError
from nodescope.protocol import Breakpoint, BreakpointStatus

Given = dict[str, Any]


class BreakpointSets:
    """The sets of breakpoints that an editor holds."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._sets: dict[str, list[Breakpoint]] = {}
        self._told: dict[int, Given] = {}

    def source(self, path: str, given: list[Given], first_line: int) -> list[Given]:
        """Those of a file; lines count from ``first_line``."""

        def made(each: Given) -> Breakpoint:
            line = int(each["line"]) + 1 - first_line
            return _with(Breakpoint("source", f"{path}:{line}"), each)

        return self._set(f"source:{path}", given, made)

    def function(self, given: list[Given]) -> list[Given]:
        """Nodes, globs, ``op:exp``, ``scope:loss``: as they are written on the command line."""
        return self._set(
            "function", given, lambda each: _with(parse_breakpoint(str(each["name"])), each)
        )

    def data(self, given: list[Given]) -> list[Given]:
        """Values, by the name of the node that makes them."""
        return self._set(
            "data", given, lambda each: _with(Breakpoint("node", str(each["dataId"])), each)
        )

    def clear(self) -> None:
        """Take away all that the editor has set."""
        for name in tuple(self._sets):
            self._set(name, [], lambda each: Breakpoint("node", ""))

    def kind_of(self, number: int) -> str:
        """``breakpoint``, ``function breakpoint`` or ``data breakpoint``, for an id."""
        for name, held in self._sets.items():
            if any(each.id == number for each in held):
                return "breakpoint" if name.startswith("source:") else f"{name} breakpoint"
        return "breakpoint"

    def changes(self) -> list[Given]:
        """What became of breakpoints since it was told last."""
        changed = []
        for status in self._controller.breakpoints:
            answer = _answer(status)
            if status.breakpoint.id in self._told and self._told[status.breakpoint.id] != answer:
                self._told[status.breakpoint.id] = answer
                changed.append(answer)
        return changed

    def _set(
        self, name: str, given: list[Given], made: Callable[[Given], Breakpoint]
    ) -> list[Given]:
        old = {msgspec.structs.replace(each, id=0): each for each in self._sets.get(name, [])}
        wanted: list[Breakpoint] = []
        answers: list[Given | int] = []
        for each in given:
            try:
                found = made(each)
                validate(found)
            except (NodescopeError, KeyError, ValueError) as error:
                answers.append({"verified": False, "message": str(error)})
                continue
            answers.append(len(wanted))
            wanted.append(old.pop(found, found))
        others = [each for key, held in self._sets.items() if key != name for each in held]
        held_ids = {each.id for held in self._sets.values() for each in held}
        # Those of the project, and those that were set in the console, are nobody's to replace.
        more = [each.breakpoint for each in self._controller.breakpoints
                if each.breakpoint.id not in held_ids]  # fmt: skip
        statuses = self._controller.set_breakpoints([*wanted, *others, *more])
        self._sets[name] = [status.breakpoint for status in statuses[: len(wanted)]]
        left = len(wanted)
        for key, held in self._sets.items():
            if key != name:
                count = len(held)
                self._sets[key] = [each.breakpoint for each in statuses[left : left + count]]
                left += count
        self._told = {status.breakpoint.id: _answer(status) for status in statuses}
        return [
            _answer(statuses[answer]) if isinstance(answer, int) else answer for answer in answers
        ]


def _with(breakpoint: Breakpoint, given: Given) -> Breakpoint:
    """With the condition, hit count and message that came in fields of their own."""
    return msgspec.structs.replace(
        breakpoint,
        condition=str(given.get("condition") or breakpoint.condition),
        hits=str(given.get("hitCondition") or breakpoint.hits),
        log=str(given.get("logMessage") or breakpoint.log),
    )


def _answer(status: BreakpointStatus) -> Given:
    answer: Given = {"id": status.breakpoint.id, "verified": status.verified}
    message = status.message
    if not status.verified and not message:
        message = "no node matches it so far; it stays armed"
    if message:
        answer["message"] = message
    if status.breakpoint.kind == "source":
        file, _, line = status.breakpoint.target.rpartition(":")
        answer |= {"source": {"path": file}, "line": int(line)}
    return answer
