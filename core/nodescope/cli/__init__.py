"""The command line: ``nodescope COMMAND``; ``--help`` lists the commands.

Invariant: an error in nodescope or in its arguments is one line on stderr and status 2, never a
traceback of nodescope. The exit status of ``run`` is the program's.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

from nodescope.cli.grammar import parser
from nodescope.console_output import show
from nodescope.errors import NodescopeError
from nodescope.processes import refused

SUFFIX = ".nscope"

# By command, its module and its function there.
_COMMANDS: Final = {
    "run": ("run", "run"),
    "open": ("open_and_serve", "open_recording"),
    "runs": ("runs", "runs"),
    "check": ("check", "check"),
    "why": ("why", "tell"),
    "compare": ("compare", "compare"),
    "dap": ("dap", "dap"),
    "serve": ("open_and_serve", "serve"),
    "demo": ("demo", "demo"),
    "export": ("export", "export_recording"),
    "passes": ("passes", "passes"),
    "docs": ("docs", "docs"),
    "doctor": ("doctor", "doctor"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if not words:
        parser().print_help(sys.stderr)
        return 2
    options = read(words)
    try:
        os.getcwd()
    except OSError:
        return _fail("the current folder no longer exists; run nodescope from another one")
    try:
        return _command(options.command)(options)
    except NodescopeError as error:
        column = getattr(error, "column", -1)
        return _fail(f"{error}{f' (column {column + 1})' if column >= 0 else ''}")
    except KeyboardInterrupt:
        return 130
    except RuntimeError as error:
        if not refused(error):
            raise
        return _fail(refused(error))
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        if not refused(error):
            raise
        return _fail(refused(error))


def read(words: Sequence[str]) -> argparse.Namespace:
    """Parse a command line.

    Options may follow the recording, as in ``why run.nscope --step 2 loss`` and
    ``check run.nscope --strict``. argparse refuses the former, and in the latter it treats
    ``--strict`` as an argument of a script.
    """
    top = parser()
    options, unrecognized = top.parse_known_args(words)
    last = [word for word in unrecognized if not word.startswith("-")]
    if options.command == "why" and options.element is None and unrecognized == last[:1]:
        options.element = unrecognized.pop() if unrecognized else None
    if unrecognized:
        top.error(f"unrecognized arguments: {' '.join(unrecognized)}")
    if options.command in ("check", "compare") and options.args:
        place = len(words) - len(options.args)
        recording, tail = words[place - 1], words[place:]
        if recording.endswith(SUFFIX) and tail[0].startswith("-"):
            recordings = [word for word in tail if word.endswith(SUFFIX)]
            moved = [word for word in tail if not word.endswith(SUFFIX)]
            options = top.parse_args([*words[: place - 1], *moved, recording, *recordings])
            if str(options.what) != recording:
                top.error(f"{options.what} cannot follow {recording}")
    return options


def _command(name: str) -> Callable[[argparse.Namespace], int]:
    # Only this command's module is imported: the program waits for the import.
    module, function = _COMMANDS[name]
    collects = gc.isenabled()
    gc.disable()  # everything imported stays in memory
    try:
        command: Callable[[argparse.Namespace], int] = getattr(
            importlib.import_module(f"nodescope.cli.{module}"), function
        )
    finally:
        if collects:
            gc.enable()
    return command


def _fail(message: str) -> int:
    show(f"nodescope: {message}", sys.stderr)
    return 2
