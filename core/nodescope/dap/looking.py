"""Looking: what an editor asks about while the program stands, besides frames and variables.

Invariant: nothing is evaluated but the language of conditions and the terminal's commands; files
are given out only if the program's nodes were made in them.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from nodescope.dap.framing import Message
from nodescope.dap.variables import Variables
from nodescope.debug.controller import Controller
from nodescope.debug.vocabulary import CONSTANTS, FUNCTIONS, NAMES
from nodescope.debug.words import array_line, clean, result_line, seen_line
from nodescope.errors import NodescopeError, UsageError
from nodescope.events import Array

_MAX_TARGETS: Final = 200
_MAX_READ: Final = 1 << 24  # bytes of one answer
_MAX_COPIED: Final = 100_000  # elements

Console = Callable[[str], str | None]
"""Runs a line of the terminal's commands; what it says, or None if it is no command."""


class Looking:
    """Answers about values, sources and exceptions.

    Args:
        controller: Of the run.
        variables: Where results that unfold get their references.
        console: Runs the commands of the terminal debugger.
    """

    def __init__(self, controller: Controller, variables: Variables, console: Console) -> None:
        self._controller = controller
        self._variables = variables
        self._console = console
        self.first_column = 1

    def evaluate(self, given: Message) -> Message:
        """A node's value, an expression, or, in the console, a command of the terminal."""
        text = str(given["expression"]).strip()
        context = given.get("context")
        if context == "repl" and text not in NAMES:
            said = self._console(text)
            if said is not None:
                return {"result": said, "variablesReference": 0}
        seen = self._controller.named(text)
        if seen is not None:
            if context == "clipboard":
                if seen.array is None:
                    raise UsageError(f"{seen.name} is not there: {seen.missing}")
                return {"result": _elements(seen.array), "variablesReference": 0}
            line = seen_line(seen, self._controller.moment.step)
            return {"result": line, **self._unfolds(seen.array, text)}
        result = self._controller.evaluate(text)
        array = result if isinstance(result, np.ndarray) else None
        if context == "clipboard" and array is not None:
            return {"result": _elements(array), "variablesReference": 0}
        shown = array_line(array) if array is not None and array.ndim else result_line(result)
        return {"result": shown, **self._unfolds(array, text)}

    def _unfolds(self, array: Any, text: str) -> Message:
        if array is None:
            return {"variablesReference": 0}
        return {"type": f"{array.dtype} {array.shape}",
                **self._variables.unfolds(array, 0, text if text in NAMES else "")}  # fmt: skip

    def set_expression(self, given: Message) -> Message:
        """Change what an expression names: ``value[0]``, ``inputs[1]``, ``w``."""
        expression, text = str(given["expression"]).strip(), str(given["value"]).strip()
        self._variables.change(expression, text)
        try:
            found = self.evaluate({"expression": expression})
        except NodescopeError:  # a slice can be changed, and is not of the language
            return {"value": text}
        return {**{key: found[key] for key in found if key != "result"}, "value": found["result"]}

    def read_memory(self, given: Message) -> Message:
        """The bytes of an array, in C order."""
        array = self._variables.memory(str(given["memoryReference"]))
        offset, count = int(given.get("offset") or 0), int(given["count"])
        if count < 0:
            raise UsageError(f"{count} bytes cannot be read")
        first = max(offset, 0)
        content = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        part = content[first : max(first, min(offset + count, first + _MAX_READ))]
        answer: Message = {"address": hex(first), "data": base64.b64encode(part.tobytes()).decode()}
        if offset < 0:
            answer |= {"address": str(offset), "data": "", "unreadableBytes": min(-offset, count)}
        return answer

    def completions(self, given: Message) -> Message:
        """Names of nodes, and the words of expressions."""
        column = int(given["column"]) - self.first_column
        before = str(given["text"])[:column]
        word = before[max(before.rfind(each) for each in " ([,<>=+-*") + 1 :]
        words = [*NAMES, *FUNCTIONS, *CONSTANTS]
        try:
            words += [each for each in self._controller.names() if ":" not in each]
        except NodescopeError:
            pass  # the recording cannot be read now; the language can be completed
        targets = [{"label": each, "start": column - len(word), "length": len(word)}
                   for each in words if each.startswith(word)]  # fmt: skip
        return {"targets": targets[:_MAX_TARGETS]}

    def exception_info(self, given: Message) -> Message:
        """What the node raised, or which watch found NaN or Inf."""
        stop = self._controller.info.stop
        if stop is not None and stop.reason == "watch" and not self._controller.looking_back:
            return {"exceptionId": "NaN or Inf", "description": clean(stop.text),
                    "breakMode": "always"}  # fmt: skip
        at = self._controller.moment
        error = at.error or (self._controller.stop.error if at.live else "")
        if not error:
            raise UsageError("the program is not stopped at an exception")
        kind, _, message = error.partition(": ")
        trace = "\n".join(f"{each.file}:{each.line} {each.name}  {each.code}"
                          for each in self._controller.frames())  # fmt: skip
        return {"exceptionId": kind, "description": error, "breakMode": "always",
                "details": {"message": message, "typeName": kind, "stackTrace": trace}}  # fmt: skip

    def source(self, given: Message) -> Message:
        """The text of a file, as it was during the run."""
        path = str((given.get("source") or {}).get("path") or "")
        text = self._controller.history.recording.source(path) if path else None
        known = {each.source.file for each in self._controller.history.nodes() if each.source}
        if text is None and path in known:
            try:
                text = Path(path).read_text("utf-8", "replace")
            except OSError as error:
                raise UsageError(f"cannot read {path}: {error.strerror}") from None
        if text is None:
            raise UsageError(f"the source {path!r} is not known")
        return {"content": text, "mimeType": "text/x-python"}

    def loaded_sources(self, given: Message) -> Message:
        """The files that made nodes."""
        files = sorted({node.source.file for node in self._controller.history.nodes()
                        if node.source is not None})  # fmt: skip
        return {"sources": [{"name": os.path.basename(each), "path": each} for each in files]}


def _elements(array: Array) -> str:
    if array.size > _MAX_COPIED:
        raise UsageError(f"{array.size} elements are too many to copy; the limit is {_MAX_COPIED}")
    return clean(np.array2string(array, threshold=_MAX_COPIED + 1, precision=None))
