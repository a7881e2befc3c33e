"""Inspection requests of an editor at a stop, besides frames and variables.

Invariant: only the condition language and the terminal's commands are evaluated; files are served
only if the program's nodes were created in them.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nodescope.arrays.lazy import HeldArray, LazyArray, whole
from nodescope.console_output import shape_words
from nodescope.dap.framing import Message
from nodescope.dap.variables import Variables
from nodescope.debug.controller import Controller
from nodescope.debug.expressions.builtins import CONSTANTS, FUNCTIONS, NAMES
from nodescope.debug.history.value_format import array_line, clean, result_line, seen_line
from nodescope.errors import NodescopeError, UsageError
from nodescope.plain_files import read_plain
from nodescope.source_files import MOST_BYTES

_MAX_TARGETS: Final = 200
_MAX_READ: Final = 1 << 24  # bytes in one answer
_MAX_COPIED: Final = 100_000  # elements

ConsoleCommands = Callable[[str], str | None]
"""Runs a line of terminal commands; returns its output, or None if it is not a command."""


class Inspection:
    """Answers about values, sources and exceptions.

    Args:
        controller: The run's controller.
        variables: The variables that assign references to expandable results.
        console: Runs commands of the terminal debugger.
    """

    def __init__(
        self, controller: Controller, variables: Variables, console: ConsoleCommands
    ) -> None:
        self._controller = controller
        self._variables = variables
        self._console = console
        self.first_column = 1

    def evaluate(self, arguments: Message) -> Message:
        """Evaluate a node's value, an expression or, in the console, a terminal command."""
        text = str(arguments["expression"]).strip()
        context = arguments.get("context")
        if context == "repl" and text not in NAMES:
            output = self._console(text)
            if output is not None:
                return {"result": output, "variablesReference": 0}
        value = self._controller.named(text)
        if value is not None:
            if context == "clipboard":
                if value.array is None:
                    raise UsageError(f"{value.name} is not available: {value.missing}")
                return {"result": _elements(value.array), "variablesReference": 0}
            line = seen_line(value, self._controller.moment.step)
            return {"result": line, **self._unfolds(value.array, text)}
        result = self._controller.evaluate(text)
        array = result if isinstance(result, np.ndarray | LazyArray) else None
        if context == "clipboard" and array is not None:
            return {"result": _elements(array), "variablesReference": 0}
        line = array_line(array) if array is not None and array.ndim else result_line(result)
        return {"result": line, **self._unfolds(array, text)}

    def _unfolds(self, array: Any, text: str) -> Message:
        if array is None:
            return {"variablesReference": 0}
        return {"type": f"{array.dtype} {shape_words(array.shape)}",
                **self._variables.unfolds(array, 0, text if text in NAMES else "")}  # fmt: skip

    def set_expression(self, arguments: Message) -> Message:
        """Change the value that an expression refers to: ``value[0]``, ``inputs[1]``, ``w``."""
        expression, text = str(arguments["expression"]).strip(), str(arguments["value"]).strip()
        self._variables.change(expression, text)
        try:
            variable = self.evaluate({"expression": expression})
        except NodescopeError:  # a slice can be assigned to, but not evaluated
            return {"value": text}
        return {
            **{key: variable[key] for key in variable if key != "result"},
            "value": variable["result"],
        }

    def read_memory(self, arguments: Message) -> Message:
        """The bytes of an array, in C order."""
        array = self._variables.memory(str(arguments["memoryReference"]))
        offset, count = int(arguments.get("offset") or 0), int(arguments["count"])
        if count < 0:
            raise UsageError(f"{count} bytes cannot be read")
        first = max(offset, 0)
        last = max(first, min(offset + count, first + _MAX_READ))
        skipped = 0
        if isinstance(array, LazyArray) and array.ndim:
            row = max(1, array.nbytes // len(array))
            skipped = first // row * row
            array = array[first // row : -(-last // row)]
        content = np.ascontiguousarray(whole(array)).view(np.uint8).reshape(-1)
        part = content[first - skipped : last - skipped]
        answer: Message = {"address": hex(first), "data": base64.b64encode(part.tobytes()).decode()}
        if offset < 0:
            answer |= {"address": str(offset), "data": "", "unreadableBytes": min(-offset, count)}
        return answer

    def completions(self, arguments: Message) -> Message:
        """Names of nodes, and words of the expression language."""
        column = int(arguments["column"]) - self.first_column
        before = str(arguments["text"])[:column]
        word = before[max(before.rfind(sign) for sign in " ([,<>=+-*") + 1 :]
        words = [*self._controller.expression_names, *FUNCTIONS, *CONSTANTS]
        try:
            words += [name for name in self._controller.names() if ":" not in name]
        except NodescopeError:
            pass  # the recording is unreadable now; language words can still be completed
        targets = [{"label": candidate, "start": column - len(word), "length": len(word)}
                   for candidate in words if candidate.startswith(word)]  # fmt: skip
        return {"targets": targets[:_MAX_TARGETS]}

    def exception_info(self, arguments: Message) -> Message:
        """The exception that the node raised, or the watch that found NaN or Inf."""
        stop = self._controller.info.stop
        if stop is not None and stop.reason == "watch" and not self._controller.looking_back:
            return {"exceptionId": "NaN or Inf", "description": clean(stop.text),
                    "breakMode": "always"}  # fmt: skip
        at = self._controller.moment
        error = at.error or (self._controller.stop.error if at.live else "")
        if not error:
            raise UsageError("the program is not stopped at an exception")
        kind, _, message = error.partition(": ")
        trace = "\n".join(f"{frame.file}:{frame.line} {frame.name}  {frame.code}"
                          for frame in self._controller.frames())  # fmt: skip
        return {"exceptionId": kind, "description": error, "breakMode": "always",
                "details": {"message": message, "typeName": kind, "stackTrace": trace}}  # fmt: skip

    def source(self, arguments: Message) -> Message:
        """The text of a file, as it was during the run."""
        path = str((arguments.get("source") or {}).get("path") or "")
        text = self._controller.history.recording.source(path) if path else None
        files = {node.source.file for node in self._controller.history.nodes() if node.source}
        if text is None and path in files:
            try:
                text = read_plain(path, MOST_BYTES).decode("utf-8", "replace")
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                raise UsageError(f"cannot read {path}: {reason}") from None
        if text is None:
            raise UsageError(f"the source {path!r} is not known")
        return {"content": text, "mimeType": "text/x-python"}

    def loaded_sources(self, arguments: Message) -> Message:
        """The files in which nodes were created."""
        files = sorted({node.source.file for node in self._controller.history.nodes()
                        if node.source is not None})  # fmt: skip
        return {"sources": [{"name": os.path.basename(file), "path": file} for file in files]}


def _elements(array: HeldArray) -> str:
    if array.size > _MAX_COPIED:
        raise UsageError(f"{array.size} elements are too many to copy; the limit is {_MAX_COPIED}")
    return clean(np.array2string(whole(array), threshold=_MAX_COPIED + 1, precision=None))
