"""Runs a script as plain ``python`` would, and tells how it ended.

Invariant: the script sees its own ``sys.argv``, ``sys.path``, ``__main__`` and streams, and exits
with the status that it would have without us. Tracebacks show no frame of ours.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import os
import sys
import threading
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from nodescope.cli.warned import at_user_lines
from nodescope.errors import UsageError
from nodescope.telling import last_line

MAX_LINE: Final = 10_000
INTERRUPTED: Final = 130

_OURS: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class Ending(NamedTuple):
    """How a program ended: its exit status, and the last line of its traceback or ``""``."""

    status: int
    error: str = ""


def load(path: Path) -> types.CodeType | Ending:
    """Compile a script; a syntax error is shown as Python shows it, and is an ending.

    Raises:
        UsageError: There is no such script.
    """
    if path.suffix == ".nscope" and path.is_file():
        raise UsageError(f"{str(path)!r} is a recording", hint=f"nodescope open {path}")
    try:
        source = path.read_bytes()
    except FileNotFoundError:
        near = sorted(each.name for each in path.absolute().parent.glob("*.py"))[:3]
        hint = f"there are {', '.join(near)}" if near else ""
        raise UsageError(f"no script {str(path)!r}", hint=hint) from None
    except OSError as error:
        raise UsageError(f"cannot read {str(path)!r}: {error.strerror}") from None
    try:
        # The whole path, as Python has it: the script may change the folder.
        return compile(source, str(path.absolute()), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        traceback.print_exception(error.with_traceback(None))
        return Ending(1, last_line(error))


def run_script(
    code: types.CodeType,
    path: Path,
    args: list[str],
    log: Callable[[str, str], None],
    raised: Callable[[BaseException], None] = lambda error: None,
) -> Ending:
    """Run the script in this thread as ``__main__``.

    Args:
        code: What `load` gave.
        path: The script, as it was written on the command line.
        args: Its arguments.
        log: Takes ``("stdout" or "stderr", line)`` for each line that it writes.
        raised: Called with an exception that ends it, before that is shown.
    """
    module = types.ModuleType("__main__")
    file = str(path.absolute())
    module.__dict__.update(
        __annotations__={},
        __file__=file,
        __builtins__=builtins,
        __cached__=None,
        __spec__=None,
        __loader__=importlib.machinery.SourceFileLoader("__main__", file),
    )
    sys.modules["__main__"] = module
    sys.argv = [str(path), *args]
    if not sys.flags.safe_path:
        sys.path[0] = str(path.resolve().parent)
    streams = sys.stdout, sys.stderr
    out = Tee(sys.stdout, lambda line: log("stdout", line))
    err = Tee(sys.stderr, lambda line: log("stderr", line))
    sys.stdout, sys.stderr = out, err
    try:
        with at_user_lines(is_ours):
            ending = _guarded(code, module, raised)
        for tee in (out, err):
            tee.finish()
        return ending
    finally:
        sys.stdout, sys.stderr = streams


def _guarded(
    code: types.CodeType, module: types.ModuleType, raised: Callable[[BaseException], None]
) -> Ending:
    try:
        exec(code, module.__dict__)
    except SystemExit as error:
        return _exit(error.code)
    except KeyboardInterrupt as error:
        show(error)
        return Ending(INTERRUPTED, last_line(error))
    except BaseException as error:
        raised(error)
        show(error)
        sys.last_type, sys.last_value = type(error), error
        return Ending(1, last_line(error))
    return Ending(0)


def _exit(code: object) -> Ending:
    if code is None:
        return Ending(0)
    if isinstance(code, int):
        return Ending(code & 0xFF, f"SystemExit: {code}" if code else "")
    print(code, file=sys.stderr)
    return Ending(1, f"SystemExit: {code}".splitlines()[0])


def show(error: BaseException) -> None:
    """Print a traceback without frames of ours, or give it to the program's own excepthook."""
    if sys.excepthook is not sys.__excepthook__:
        trace = error.__traceback__
        while trace is not None and is_ours(trace.tb_frame.f_code.co_filename):
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return
    printed = traceback.TracebackException.from_exception(error, compact=True)
    _strip(printed)
    sys.stderr.write("".join(printed.format()))


def _strip(printed: traceback.TracebackException) -> None:
    printed.stack[:] = [
        frame
        for before, frame in zip((None, *printed.stack), printed.stack, strict=False)
        if not is_ours(frame.filename)
        # A program that stands is interrupted while it waits, which is our doing.
        and not (before and is_ours(before.filename) and frame.filename == threading.__file__)
    ]
    # A cause that lies within us entirely is told by the error that we raised from it.
    for name in ("__cause__", "__context__"):
        inner: traceback.TracebackException | None = getattr(printed, name)
        if inner is not None:
            _strip(inner)
            if not inner.stack:
                setattr(printed, name, None)
    for each in printed.exceptions or ():
        _strip(each)


def is_ours(file: str) -> bool:
    """Whether a frame of this file is nodescope's."""
    return file.startswith(_OURS)


class Tee:
    """A text stream that writes through, and hands on each line.

    Everything else, such as ``isatty`` and ``buffer``, is the stream's own.
    """

    def __init__(self, stream: TextIO, take: Callable[[str], None]) -> None:
        self._stream = stream
        self._take = take
        self._rest = ""

    def write(self, text: str) -> int:
        """Write, then hand on the lines that are complete."""
        count = self._stream.write(text)
        self._rest += text
        if "\n" in text or len(self._rest) > MAX_LINE:
            *lines, self._rest = self._rest.split("\n")
            for line in lines:
                self._hand_on(line)
            if len(self._rest) > MAX_LINE:
                self._rest = self._rest[-MAX_LINE:]
        return count

    def writelines(self, lines: Any) -> None:
        """Write each of them."""
        for line in lines:
            self.write(line)

    def finish(self) -> None:
        """Flush, and hand on the line that has no end."""
        try:
            self._stream.flush()
        except (OSError, ValueError):
            pass  # the reader is gone, as in `| head`
        if self._rest:
            rest, self._rest = self._rest, ""
            self._hand_on(rest)

    def _hand_on(self, line: str) -> None:
        # A progress bar overwrites its line: what is seen last is what counts.
        line = line.rstrip("\r").rpartition("\r")[2]
        self._take(line if len(line) <= MAX_LINE else line[:MAX_LINE] + "…")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
