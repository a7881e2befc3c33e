"""Runs a script as plain ``python`` would, and reports how it ended.

Invariant: the script sees its own ``sys.argv``, ``sys.path``, ``__main__`` and streams, and exits
with the status that it would have without nodescope. Tracebacks show no frames of nodescope.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import os
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from nodescope import api
from nodescope.cli.arithmetic_warnings import at_user_lines
from nodescope.console_output import last_line, printable
from nodescope.errors import UsageError
from nodescope.origins import is_ours
from nodescope.plain_files import read_plain

MAX_LINE: Final = 10_000
INTERRUPTED: Final = 130

# What Python can turn into an exit status; anything else is -1.
_MOST_BYTES: Final = 64 << 20
_LONG: Final = range(-(1 << 63), 1 << 63)


class Ending(NamedTuple):
    """How a program ended: its exit status, and the last line of its traceback or ``""``."""

    status: int
    error: str = ""


def is_child(observed: api.Run) -> bool:
    """Whether this is a forked child of the program: run, page and server belong to its parent."""
    return os.getpid() != observed.info.pid


def find_module(name: str) -> tuple[Path, ModuleSpec]:
    """The file that ``python -m name`` runs, and its spec.

    Raises:
        UsageError: There is no such module, or it is not written in Python.
    """
    if os.getcwd() not in sys.path:
        sys.path[0] = os.getcwd()  # as Python does for -m
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as error:
        raise UsageError(f"no module {name!r}: {error}") from None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise UsageError(
            f"no module {name!r} that can be run", hint="python -m shows whether Python finds it"
        )
    return Path(spec.origin), spec


def load(path: Path) -> types.CodeType | Ending:
    """Compile a script; a syntax error is shown as by Python, and is an ending.

    Raises:
        UsageError: The script does not exist.
    """
    if path.suffix == ".nscope" and path.is_file():
        raise UsageError(f"{str(path)!r} is a recording", hint=f"nodescope open {path}")
    if path.suffix == ".pt2" and path.is_file():
        raise UsageError(f"{str(path)!r} is a saved program", hint=f"nodescope open {path}")
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise UsageError(f"{str(path)!r} is a pipe or a device, not a script")
        source = read_plain(path, _MOST_BYTES) if path.is_file() else path.read_bytes()
    except FileNotFoundError:
        near = sorted(file.name for file in path.absolute().parent.glob("*.py"))[:3]
        hint = f"there are {', '.join(near)}" if near else ""
        raise UsageError(f"no script {str(path)!r}", hint=hint) from None
    except OSError as error:
        raise UsageError(f"cannot read {str(path)!r}: {error.strerror}") from None
    try:
        # The whole path, as in Python: the script may change the folder.
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
    spec: ModuleSpec | None = None,
) -> Ending:
    """Run the script in this thread as ``__main__``.

    Args:
        code: The result of `load`.
        path: The script, as written on the command line.
        args: Its arguments.
        log: Takes ``("stdout" or "stderr", line)`` for each line that the script writes.
        raised: Called with an exception that ends the script, before it is shown.
        spec: The spec of a script that was named as a module, see `find_module`.
    """
    module = types.ModuleType("__main__")
    file = str(path.absolute())
    module.__dict__.update(
        __annotations__={},
        __file__=file,
        __builtins__=builtins,
        __cached__=None,
        __spec__=spec,
        __loader__=importlib.machinery.SourceFileLoader("__main__", file),
    )
    sys.modules["__main__"] = module
    sys.argv = [str(path), *args]
    if spec is not None:
        module.__package__ = spec.parent
    elif not sys.flags.safe_path:
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
        # Exit functions and threads write to a stream that the program installed there.
        if getattr(sys, "stdout", None) is out:
            sys.stdout = streams[0]
        if getattr(sys, "stderr", None) is err:
            sys.stderr = streams[1]


def _guarded(
    code: types.CodeType, module: types.ModuleType, raised: Callable[[BaseException], None]
) -> Ending:
    try:
        exec(code, module.__dict__)
        return Ending(0)
    except SystemExit as error:
        return _exit(error.code)
    except BaseException as error:
        failed = error
    # From here on no exception is being handled, as when Python calls `sys.excepthook`.
    interrupted = isinstance(failed, KeyboardInterrupt)
    if not interrupted:
        raised(failed)
    show(failed)
    if not interrupted:
        sys.last_type, sys.last_value = type(failed), failed
    return Ending(INTERRUPTED if interrupted else 1, last_line(failed))


def _exit(code: object) -> Ending:
    if code is None:
        return Ending(0)
    if isinstance(code, int):
        status = code if code in _LONG else -1
        return Ending(status & 0xFF, f"SystemExit: {code}" if code else "")
    try:
        message = str(code)
    except Exception:
        message = ""
    _write(message + "\n", sys.__stderr__)
    return Ending(1, printable(f"SystemExit: {message}".splitlines()[0]))


def show(error: BaseException) -> None:
    """Print a traceback without nodescope's frames, or pass it to the program's own excepthook."""
    if not hasattr(sys, "excepthook"):
        _write("sys.excepthook is missing\n")
    elif sys.excepthook is not sys.__excepthook__:
        trace = error.__traceback__
        while trace is not None and is_ours(trace.tb_frame.f_code.co_filename):
            trace = trace.tb_next
        try:
            sys.excepthook(type(error), error.with_traceback(trace), trace)
            return
        except SystemExit:
            raise
        except BaseException as failed:
            _write(f"Error in sys.excepthook:\n{_traceback(failed)}\nOriginal exception was:\n")
    _write(_traceback(error))


def _traceback(error: BaseException) -> str:
    printed = traceback.TracebackException.from_exception(error, compact=True)
    _strip(printed)
    return "".join(printed.format())


def _write(text: str, instead: TextIO | None = None) -> None:
    """Write to the program's standard error, or elsewhere if it has none any more."""
    stream = getattr(sys, "stderr", None) or instead
    try:
        if stream is not None:
            stream.write(text)
    except Exception:
        pass  # the reader is gone


def _strip(printed: traceback.TracebackException) -> None:
    printed.stack[:] = [
        frame
        for before, frame in zip((None, *printed.stack), printed.stack, strict=False)
        if not is_ours(frame.filename)
        # A stopped program is interrupted while it waits, which is nodescope's doing.
        and not (before and is_ours(before.filename) and frame.filename == threading.__file__)
    ]
    # A cause entirely within nodescope is covered by the error that was raised from it.
    for name in ("__cause__", "__context__"):
        inner: traceback.TracebackException | None = getattr(printed, name)
        if inner is not None:
            was_raised = bool(inner.stack)
            _strip(inner)
            if was_raised and not inner.stack:
                setattr(printed, name, None)
    for exception in printed.exceptions or ():
        _strip(exception)


class Tee:
    """A text stream that writes through, and passes on each line.

    Everything else, such as ``isatty`` and ``buffer``, belongs to the stream.
    """

    def __init__(self, stream: TextIO, take: Callable[[str], None]) -> None:
        self._stream = stream
        self._take = take
        self._rest = ""

    def write(self, text: str) -> int:
        """Write, then pass on the complete lines."""
        count = self._stream.write(text)
        text = str.__str__(text)  # a subclass of str may add and split differently
        self._rest += text
        if "\n" in text or len(self._rest) > MAX_LINE:
            *lines, self._rest = self._rest.split("\n")
            for line in lines:
                self._hand_on(line)
            if len(self._rest) > MAX_LINE:
                self._rest = self._rest[-MAX_LINE:]
        return count

    def writelines(self, lines: Any) -> None:
        """Write each of the lines."""
        for line in lines:
            self.write(line)

    def finish(self) -> None:
        """Flush, and pass on the unfinished line."""
        try:
            self._stream.flush()
        except (OSError, ValueError):
            pass  # the reader is gone, as in `| head`
        if self._rest:
            unfinished, self._rest = self._rest, ""
            self._hand_on(unfinished)

    def _hand_on(self, line: str) -> None:
        # A progress bar overwrites its line: the last text shown counts.
        line = line.rstrip("\r").rpartition("\r")[2]
        self._take(line if len(line) <= MAX_LINE else line[:MAX_LINE] + "…")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    # Special methods, which Python looks up in the class.

    def __enter__(self) -> Tee:
        self._stream.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stream.__exit__(*exception)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stream)
