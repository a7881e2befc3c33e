"""Frames: the stacks of the program's threads, as an editor shows them.

The cursor's thread shows its node, the name scopes around it, and the user's lines; other threads
show where they are now, and at which node they are held.

Invariant: ids hold until the cursor moves.
"""

from __future__ import annotations

import os

from nodescope.dap.framing import Message
from nodescope.dap.threads import Threads
from nodescope.debug.controller import Controller
from nodescope.debug.history.scope_frames import ScopeFrame
from nodescope.debug.history.value_format import clean
from nodescope.errors import UsageError
from nodescope.ir.scopes import ancestors, parent


class Frames:
    """Assigns ids to frames, and finds the frames by their ids."""

    def __init__(self, controller: Controller, threads: Threads) -> None:
        self._controller = controller
        self._threads = threads
        self.first_line = self.first_column = 1
        self.forget()

    def forget(self) -> None:
        """Invalidate all ids, because the cursor has moved."""
        self._frames: list[ScopeFrame] = []
        self._shown: dict[int, list[tuple[int, ScopeFrame]]] = {}  # by thread, with their ids
        self._targets: list[str] = []

    def stack_trace(self, arguments: Message) -> Message:
        """The stack: name scopes and the user's lines."""
        number = int(arguments["threadId"])
        frames = self._frames_of(number)
        start = int(arguments.get("startFrame") or 0)
        end = start + (int(arguments.get("levels") or 0) or len(frames))
        return {"stackFrames": [self._frame(*entry) for entry in frames[start:end]],
                "totalFrames": len(frames)}  # fmt: skip

    def _frames_of(self, number: int) -> list[tuple[int, ScopeFrame]]:
        """The frames of a thread with their ids, which are valid until the cursor moves."""
        if number not in self._shown:
            self._shown[number] = [
                (len(self._frames) + place, frame)
                for place, frame in enumerate(self._found_frames(number), 1)
            ]
            self._frames.extend(frame for _, frame in self._shown[number])
        return self._shown[number]

    def _found_frames(self, number: int) -> tuple[ScopeFrame, ...]:
        ident = self._threads.ident(number)
        if ident is None:
            raise UsageError(f"no thread {number}")
        if self._controller.info.stop is None and self._controller.held(ident):
            return self._controller.frames_of(ident)  # while another thread runs alone
        at = self._controller.moment
        if self._threads.number(at.thread) == number:
            return self._controller.frames()
        return () if self._controller.looking_back else self._controller.frames_of(ident)

    def _frame(self, number: int, frame: ScopeFrame) -> Message:
        name = clean(frame.name)
        if frame.kind == "node":
            at = self._controller.moment
            name += f", step {at.step}" + (", before it runs" if at.when == "before" else "")
            name += "" if at.live else " (recorded)"
        elif frame.kind == "held":
            name += ", held here"
        described: Message = {"id": number, "name": name, "line": 0, "column": 0}
        if frame.file:
            source = {"name": os.path.basename(frame.file), "path": frame.file}
            described |= {"source": source, "line": frame.line - 1 + self.first_line,
                      "column": self.first_column}  # fmt: skip
        return described

    def of(self, number: int) -> ScopeFrame:
        """The frame with an id. Raises `UsageError` if the id is unknown or outdated."""
        if not self._frames:
            self._frames_of(self._threads.number(self._controller.moment.thread))
        if not 1 <= number <= len(self._frames):
            raise UsageError("this frame belongs to an earlier stop")
        return self._frames[number - 1]

    def step_in_targets(self, arguments: Message) -> Message:
        """The scopes directly inside a frame's scope, as far as they have been seen."""
        frame = self.of(int(arguments["frameId"]))
        around = frame.name if frame.kind == "scope" else self._controller.moment.node.scope
        paths = {path for node in self._controller.history.nodes()
                 for path in ancestors(node.scope) if parent(path) == around}  # fmt: skip
        self._targets = sorted(paths)
        return {"targets": [{"id": number, "label": clean(path)}
                            for number, path in enumerate(self._targets, 1)]}  # fmt: skip

    def target(self, number: int) -> str:
        """The scope of a target's id. Raises `UsageError` as `of` does."""
        if not 1 <= number <= len(self._targets):
            raise UsageError("this scope belongs to an earlier stop")
        return self._targets[number - 1]
