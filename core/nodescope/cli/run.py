"""``nodescope run``: a script, observed and stoppable, with a server and a page.

Invariant: errors in the command line are reported before anything starts, and the script runs even
if no page can be served.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

from nodescope import api
from nodescope.cli.script import INTERRUPTED, Ending, find_module, is_child, load, run_script
from nodescope.cli.server_process import Server
from nodescope.console_output import last_line, say
from nodescope.debug.breakpoints.syntax import parse_breakpoint
from nodescope.debug.project_settings import ProjectSettings
from nodescope.debug.report.advice import lines as lines_of_advice
from nodescope.debug.report.run_summary import last_words
from nodescope.debug.watch.first_step import WORD as RECOMMENDED
from nodescope.debug.watch.watch import describe, parse_watches
from nodescope.errors import ConditionError, NodescopeError, UsageError
from nodescope.events import Level
from nodescope.processes import refused
from nodescope.protocol import Breakpoint, Detach
from nodescope.record.recording import Recording
from nodescope.record.wal_checkpoint import fold

if TYPE_CHECKING:
    from nodescope.cli.terminal_lines import Lines

# The size of a recording up to which its outcome is printed; larger ones would delay the exit.
_SUMMED_BYTES: Final = 256 << 20

# The server's start is delayed by this time while nothing waits for it: a short program may end
# without needing a server.
_ALONE_S: Final = 0.25

End = Callable[[int], None]
"""Ends a debugger; its argument is the program's status."""


def run(options: argparse.Namespace) -> int:
    """Run the script; return its exit status."""
    settings = _Given.of(options)
    name, options.spec = options.script.name, None
    if options.module:
        options.script, options.spec = find_module(name)
    script: Path = options.script
    code = load(script)
    if isinstance(code, Ending):
        return code.status
    return run_code(
        options, code, settings, name=name, stem=name if options.module else script.stem
    )


class _Given(NamedTuple):
    """The parsed options, checked before anything starts."""

    breakpoints: tuple[Breakpoint, ...]
    watches: tuple[str, ...]
    adapter: tuple[str, int, str, bool] | None
    lines: tuple[Lines, TextIO] | None

    @classmethod
    def of(cls, options: argparse.Namespace) -> _Given:
        """Parse and check the options. Raises a `NodescopeError`."""
        breakpoints = tuple(map(_breakpoint, options.breaks))
        watches = tuple(watches_of(options.watches))
        if options.commands is not None and not options.cli:
            raise UsageError("-x is for the terminal debugger", hint="add --cli")
        if options.editor and options.cli:
            raise UsageError("--editor and --cli cannot be combined", hint="leave out one of them")
        return cls(
            breakpoints, watches, _adapter() if options.dap else None,
            _lines(options) if options.cli else None,
        )  # fmt: skip


def run_code(
    options: argparse.Namespace, code: CodeType, given: _Given | None = None, *, name: str,
    stem: str,
) -> int:  # fmt: skip
    """Run code under the debugger; return its exit status.

    Args:
        options: The options of ``nodescope run``, with ``spec`` as in `run_script`.
        code: The code.
        given: The parsed options; by default, they are parsed now.
        name: The name of the run.
        stem: The name of its recording's file.
    """
    breakpoints, watches, adapter, lines = given or _Given.of(options)
    script: Path = options.script
    observed = api.Run(
        options.record or api.recording_path(stem, say),
        name=name,
        argv=(str(script), *options.args),
        **kept_by(options.level, options.max_slowdown),
        budget_bytes=options.budget,
        debugger=True,
        stop_on_entry=not options.no_stop_on_entry,
        breakpoints=breakpoints,
        watches=watches,
        # With --exit, nobody is expected to look, so saved breakpoints do not wait for a page.
        saved=ProjectSettings(script, waits=not options.exit),
        opened=options.opened,
        select=options.select,
        say=say,
    )
    if adapter is not None:
        return _under(lambda: _in_editor(observed, adapter), observed, code, options)
    if options.editor:
        return _under(lambda: _let_in(observed, options), observed, code, options)
    if lines is not None:
        return _under(lambda: _in_terminal(observed, options, lines), observed, code, options)
    return _with_page(observed, code, options)


# Modules needed by some runs only are imported where they are needed: the program waits for
# imports.


def _breakpoint(spec: str) -> Breakpoint:
    try:
        return parse_breakpoint(spec)
    except ConditionError as error:  # with several breakpoints, the error does not say which
        raise ConditionError(
            f"{spec!r}: {error.message}", column=error.column, hint=error.hint
        ) from None


def _adapter() -> tuple[str, int, str, bool] | None:
    """The address of the debug adapter that started this process, if one did."""
    from nodescope.cli.dap import lasting_streams
    from nodescope.dap.debuggee import address

    adapter = address()
    if adapter is not None:
        lasting_streams()
    return adapter


def _lines(options: argparse.Namespace) -> tuple[Lines, TextIO]:
    from nodescope.cli.terminal_lines import lines_of

    return lines_of(options.commands, Path(".nodescope", "history"))


def _with_page(observed: api.Run, code: CodeType, options: argparse.Namespace) -> int:
    """Run the script with a server, if possible; return its exit status."""
    server, starting = None, None
    try:
        if options.no_stop_on_entry and not observed.expects_controller:
            starting = Starting(observed, options)  # the program does not wait for the page
        else:
            server = _serve(observed, options)
        observed.start()
        ending = run_script(
            code,
            options.script,
            options.args,
            observed.log,
            observed.uncaught.raised,
            options.spec,
        )
        if is_child(observed):
            return ending.status
        observed.end(ending.status, ending.error)  # now: the run time excludes the server's start
        if starting is not None:
            # After --exit or Ctrl-C, do not wait for a server that is not reachable yet.
            leaves = options.exit or ending.status == INTERRUPTED
            server = starting.leave() if leaves and not starting.there else starting.wait()
    except BaseException as error:
        if not is_child(observed):
            observed.finish(1, last_line(error))
            server = starting.leave() if starting is not None else server
            if server is not None:
                server.stop()
            _tell_recording(observed)
        raise
    try:
        observed.finish(ending.status, ending.error)
        if server is not None:
            server.reopen(Path(observed.info.recording))
        _tell_advice(observed)
        _tell_outcome(observed)
        if server is not None and not options.exit and ending.status != INTERRUPTED:
            _stay(server, ending.status)
    except KeyboardInterrupt:
        pass  # Ctrl-C is how the user leaves; the status is still the program's
    finally:
        if server is not None:
            server.stop()
        _tell_recording(observed)
    return ending.status


def _tell_outcome(observed: api.Run) -> None:
    """Print one line on how the run ended, if anything was observed."""
    path = Path(observed.info.recording)
    if observed.advice is not None or observed.recorder.writer.fault:
        return
    try:
        if path.stat().st_size <= _SUMMED_BYTES:
            with Recording.open(path, whole=False) as recording:
                say(last_words(recording))
    except (OSError, NodescopeError):
        pass  # the page reports a faulty recording


def _tell_recording(observed: api.Run) -> None:
    """Print the last line, however the program ended: the path of its recording."""
    path = observed.info.recording
    if os.path.isfile(path) and not observed.recorder.writer.fault:
        say(f"recorded in {path}; 'nodescope open {shlex.quote(path)}' opens it again")


def kept_by(level: Level | None, limit: float | None) -> dict[str, Any]:
    """The options of `api.Run` for what is kept, from ``--level`` and ``--max-slowdown``.

    Without a level, statistics of everything and the newest steps whole, so that the limit can be
    kept (the default limit, if neither is given); with the limit switched off, every element.
    """
    explicit = level is not None or limit is not None
    if not explicit:
        limit = api.DEFAULT_SLOWDOWN
    newest = bool(limit) and level in (None, "values")
    ceiling = level or ("summary" if limit else "values")
    return {
        "level": ceiling,
        "max_slowdown": limit or None,
        "newest": newest,
        "explicit": explicit,
    }


def watches_of(texts: Iterable[str]) -> Iterator[str]:
    """The watches of the command line as written; ``recommended`` is kept as a word.

    Raises:
        WatchError: A watch is invalid.
    """
    for text in texts:
        if text.strip() == RECOMMENDED:
            yield RECOMMENDED
        else:
            yield from map(describe, parse_watches(text))


def _in_terminal(
    observed: api.Run, options: argparse.Namespace, lines: tuple[Lines, TextIO]
) -> End:
    from nodescope.cli.terminal import Terminal

    terminal = Terminal(observed.controller(), *lines, color=not options.no_color)
    terminal.start()
    return terminal.finish


def _in_editor(observed: api.Run, address: tuple[str, int, str, bool]) -> End:
    from nodescope.cli.dap import reached

    debuggee = reached(observed, address)
    return lambda status: debuggee.finish()


def _let_in(observed: api.Run, options: argparse.Namespace) -> End:
    """Let editors attach and leave."""
    from nodescope.cli.dap import let_in

    door = let_in(observed)
    standing = "" if options.no_stop_on_entry else "; it is stopped before its first node"
    say(f"editors may attach to process {observed.info.pid}{standing}")
    return lambda status: door.close()


def _under(
    begin: Callable[[], End], observed: api.Run, code: CodeType, options: argparse.Namespace
) -> int:
    """Run the script under a debugger without a page, started before the script."""
    status, error, end = 1, "", None
    try:
        end = begin()
        observed.start()
        status, error = run_script(
            code,
            options.script,
            options.args,
            observed.log,
            observed.uncaught.raised,
            options.spec,
        )
    except BaseException as raised:
        error = last_line(raised)
        raise
    finally:
        if not is_child(observed):
            try:
                observed.finish(status, error)
                _tell_advice(observed)
                _tell_outcome(observed)
            finally:  # Ctrl-C may interrupt the writing
                if end is not None:
                    end(status)
                _tell_recording(observed)
                observed.controller(attend=False).close()
                if observed.recorder.writer.ended:  # that was the last reader
                    fold(Path(observed.info.recording))
    return status


def _serve(observed: api.Run, options: argparse.Namespace) -> Server | None:
    server = None
    try:
        server = Server(options.port, background=True)
        observed.connect(server.address, timeout_s=5.0)
    except NodescopeError as error:
        if server is not None:
            server.stop()
        _without_page(observed, error.message)
        return None
    server.show(browser=not options.no_browser)
    server.keep()
    return server


class Starting:
    """A server that starts while the program is already running."""

    def __init__(self, observed: api.Run, options: argparse.Namespace) -> None:
        self._observed, self._browser = observed, not options.no_browser
        self._stream = sys.stderr  # the program may replace it
        self._server = Server(options.port, later=True, background=True)
        self.there = self._left = False
        """Whether the server can be reached."""
        self._begin = threading.Event()
        self._thread = threading.Thread(target=self._reach, name="nodescope-start", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            _without_page(observed, refused(error) or str(error))
            self._left = True

    def wait(self) -> Server | None:
        """The server, once its address has been printed; None if it does not start."""
        if not self._left:
            self._begin.set()
            self._thread.join()
        return self._server if self.there else None

    def leave(self) -> Server:
        """The server in whatever state, to be stopped; nothing more is printed about it."""
        self._left = True
        self._begin.set()
        return self._server

    def _reach(self) -> None:
        server = self._server
        try:
            self._begin.wait(_ALONE_S)
            if self._left:
                return
            server.reach()
            self._observed.connect(server.address, timeout_s=5.0)
            self.there = True
            if not self._left:
                server.show(browser=self._browser, stream=self._stream)
                server.keep()
        except NodescopeError as error:
            if not self._left:
                server.stop()
                _without_page(self._observed, error.message)
        except Exception as error:
            # For instance, the program has closed all open files, including nodescope's.
            if not self._left and not self.there:
                server.stop()
                _without_page(self._observed, f"the server cannot be reached: {error}")


def _without_page(observed: api.Run, reason: str) -> None:
    if observed.gate is not None:
        # No page can connect, so the program must not wait. It may have ended in the meantime.
        with contextlib.suppress(UsageError):
            observed.gate.command(Detach())
    recording = observed.info.recording
    say(f"{reason}; the program runs without a page and is recorded to {recording}")


def _tell_advice(observed: api.Run) -> None:
    """Print what to do about a program in which nothing was observed."""
    for line in lines_of_advice(observed.advice) if observed.advice is not None else ():
        say(line)


def _stay(server: Server, status: int) -> None:
    # The program may have left its own handler installed.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    say(f"The program ended with status {status}. The page stays open; Ctrl-C ends nodescope.")
    server.wait()
