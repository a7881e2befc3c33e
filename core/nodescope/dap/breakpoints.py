"""Translation of an editor's breakpoints into nodescope's.

An editor replaces the breakpoints of one file, or all function breakpoints, or all data
breakpoints; the gate has a single set. Each breakpoint keeps its id, and with it its hits, as long
as it is unchanged.

Invariant: an invalid breakpoint is answered as unverified with the reason, and the others are set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from nodescope.debug.breakpoints.matching import validate
from nodescope.debug.breakpoints.syntax import parse_breakpoint
from nodescope.debug.controller import Controller
from nodescope.debug.gate.command_check import breakpoint_shortfall
from nodescope.errors import NodescopeError, UsageError
from nodescope.protocol import Breakpoint, BreakpointStatus

Given = dict[str, Any]


class BreakpointSets:
    """The sets of breakpoints held by an editor."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._sets: dict[str, list[Breakpoint]] = {}
        self._told: dict[int, Given] = {}

    def source(self, path: str, entries: list[Given], first_line: int) -> list[Given]:
        """Set the breakpoints of a file; lines count from ``first_line``."""

        def made(entry: Given) -> Breakpoint:
            line = int(entry["line"]) + 1 - first_line
            return _with(Breakpoint("source", f"{path}:{line}"), entry)

        return self._set(f"source:{path}", entries, made)

    def function(self, entries: list[Given]) -> list[Given]:
        """Set function breakpoints: nodes, globs, ``op:exp``, ``scope:loss``, as on the command
        line.
        """
        return self._set(
            "function", entries, lambda entry: _with(parse_breakpoint(str(entry["name"])), entry)
        )

    def data(self, entries: list[Given]) -> list[Given]:
        """Set data breakpoints: values, by the name of the node that makes them."""
        return self._set(
            "data", entries, lambda entry: _with(Breakpoint("node", str(entry["dataId"])), entry)
        )

    def clear(self) -> None:
        """Remove all breakpoints of the editor."""
        for name in tuple(self._sets):
            self._set(name, [], lambda entry: Breakpoint("node", ""))

    def kind_of(self, number: int) -> str:
        """The kind of a breakpoint: ``breakpoint``, ``function breakpoint`` or ``data
        breakpoint``.
        """
        for name, members in self._sets.items():
            if any(member.id == number for member in members):
                return "breakpoint" if name.startswith("source:") else f"{name} breakpoint"
        return "breakpoint"

    def changes(self) -> list[Given]:
        """Changes of breakpoints since the last report."""
        changed = []
        for status in self._controller.breakpoints:
            answer = _answer(status)
            if status.breakpoint.id in self._told and self._told[status.breakpoint.id] != answer:
                self._told[status.breakpoint.id] = answer
                changed.append(answer)
        return changed

    def _set(
        self, name: str, entries: list[Given], make: Callable[[Given], Breakpoint]
    ) -> list[Given]:
        old = {
            msgspec.structs.replace(breakpoint, id=0): breakpoint
            for breakpoint in self._sets.get(name, [])
        }
        valid: list[Breakpoint] = []
        answers: list[Given | int] = []
        for entry in entries:
            try:
                breakpoint = make(entry)
                validate(breakpoint)
                lack = breakpoint_shortfall(breakpoint, self._controller.shortfall)
                if lack is not None:
                    raise UsageError(lack.text, hint=lack.hint)
            except (NodescopeError, KeyError, ValueError) as error:
                answers.append({"verified": False, "message": str(error)})
                continue
            answers.append(len(valid))
            valid.append(old.pop(breakpoint, breakpoint))
        of_others = [
            breakpoint
            for key, members in self._sets.items()
            if key != name
            for breakpoint in members
        ]
        held_ids = {member.id for members in self._sets.values() for member in members}
        # Breakpoints of the project and of the console are not replaced.
        unowned = [status.breakpoint for status in self._controller.breakpoints
                if status.breakpoint.id not in held_ids]  # fmt: skip
        statuses = self._controller.set_breakpoints([*valid, *of_others, *unowned])
        self._sets[name] = [status.breakpoint for status in statuses[: len(valid)]]
        left = len(valid)
        for key, members in self._sets.items():
            if key != name:
                count = len(members)
                self._sets[key] = [status.breakpoint for status in statuses[left : left + count]]
                left += count
        self._told = {status.breakpoint.id: _answer(status) for status in statuses}
        return [
            _answer(statuses[answer]) if isinstance(answer, int) else answer for answer in answers
        ]


def _with(breakpoint: Breakpoint, entry: Given) -> Breakpoint:
    """The breakpoint with the condition, hit count and message from the request's fields."""
    return msgspec.structs.replace(
        breakpoint,
        condition=str(entry.get("condition") or breakpoint.condition),
        hits=str(entry.get("hitCondition") or breakpoint.hits),
        log=str(entry.get("logMessage") or breakpoint.log),
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
