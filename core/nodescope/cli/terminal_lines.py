"""Sources of the terminal debugger's commands: a file, a terminal, a terminal with readline.

Invariant: nothing is read while the program runs, so that its own input stays its own; and a
waiting reader never keeps the process from ending.
"""

from __future__ import annotations

import builtins
import errno
import os
import selectors
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol, TextIO

from nodescope.console_output import own_print
from nodescope.errors import UsageError
from nodescope.plain_files import is_plain, read_plain
from nodescope.record.files.descriptors import high

HISTORY_LINES: Final = 1000
_MOST_BYTES: Final = 16 << 20
_input: Final = builtins.input  # the program may have its own module of that name
Complete = Callable[[str, str], list[str]]


class Woken(Exception):
    """The line being read is no longer needed."""


class Lines(Protocol):
    """A source of commands.

    Attributes:
        complete: Returns completions of the last word of a line, from that word and the line.
    """

    complete: Complete

    def read(self, prompt: str) -> str | None:
        """The next line; None at the end.

        Raises:
            Woken: `wake` was called.
        """

    def wake(self) -> None:
        """Make a waiting `read` raise `Woken`."""

    def prompt_again(self, note: str) -> bool:
        """Show the prompt again below a note, after Ctrl-C; False if there is no prompt.

        Called by a signal handler while another thread reads.
        """

    def close(self) -> None:
        """Leave the terminal as it was found."""


class FileLines:
    """Commands from a file, echoed with their prompt; empty lines and ``#`` comments are skipped.

    Attributes:
        place: File and line of the last command read.
    """

    def __init__(self, path: Path, out: TextIO) -> None:
        try:
            text = _stdin_text() if str(path) == "-" else _file_text(path)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            hint = "- reads them from standard input" if path.exists() else ""
            raise UsageError(
                f"cannot read the commands in {str(path)!r}: {reason}", hint=hint
            ) from None
        self.complete: Complete = _nothing
        self.name = str(path)
        self._out = out
        self.place = ""
        lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
        self._rest: list[tuple[int, str]]
        self._rest = [entry for entry in lines if entry[1] and not entry[1].startswith("#")]

    @property
    def left(self) -> int:
        """The number of commands not read yet."""
        return len(self._rest)

    def read(self, prompt: str) -> str | None:
        """The next command."""
        if not self._rest:
            return None
        number, line = self._rest.pop(0)
        self.place = f"{self.name}:{number}: "
        own_print(f"{prompt}{line}", file=self._out, flush=True)
        return line

    def wake(self) -> None:
        """Do nothing: a file never waits."""

    def prompt_again(self, note: str) -> bool:
        """False: a file has no prompt."""
        return False

    def close(self) -> None:
        """Do nothing."""


def _file_text(path: Path) -> str:
    return "" if str(path) == os.devnull else read_plain(path, _MOST_BYTES).decode()


def _stdin_text() -> str:
    text = sys.stdin.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise OSError(errno.EFBIG, f"more than {_MOST_BYTES >> 20} MiB")
    return text


def _readable(*descriptors: int) -> set[int]:
    """Wait until descriptors are readable; return those that are.

    Avoids `select.select` where possible: it accepts no descriptor beyond 1023.
    """
    selector = getattr(selectors, "PollSelector", selectors.SelectSelector)()
    with selector:
        for descriptor in descriptors:
            selector.register(descriptor, selectors.EVENT_READ)
        return {key.fd for key, _ in selector.select()}


class PlainLines:
    """Lines from a terminal, with the terminal's own editing."""

    def __init__(self, descriptor: int, out: TextIO) -> None:
        self.complete: Complete = _nothing
        self._descriptor = descriptor
        self._out = out
        self._rest = b""
        self._prompt = ""
        with high():  # where the program runs as well
            self._woken, self._wake = os.pipe()

    def read(self, prompt: str) -> str | None:
        """The next line."""
        self._prompt = prompt
        self._out.write(prompt)
        self._out.flush()
        while b"\n" not in self._rest:
            if self._woken in _readable(self._descriptor, self._woken):
                os.read(self._woken, 4096)
                raise Woken
            try:
                received = os.read(self._descriptor, 4096)
            except OSError:  # the terminal is gone
                received = b""
            if not received:
                self._rest = b""
                self._out.write("\n")
                return None
            self._rest += received
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode("utf-8", "replace")

    def wake(self) -> None:
        """Make a waiting `read` raise."""
        os.write(self._wake, b".")

    def prompt_again(self, note: str) -> bool:
        """Show the prompt again; the terminal has dropped the line being typed."""
        return show_at_once(self._out, f"\n{note}\n{self._prompt}")

    def close(self) -> None:
        """Do nothing: nothing was changed."""


class ReadLines:
    """Lines from the terminal with editing, completion and history, by the module ``readline``.

    If the program has replaced the standard streams, lines are plain: Python's `input` would write
    the prompt to the one and read the program's input from the other.

    A read cannot be woken: a line typed after the program has continued is dropped by its reader.
    """

    def __init__(self, readline: Any, history: Path | None, plain: PlainLines) -> None:
        self.complete: Complete = _nothing
        self._plain = plain
        self._readline = readline
        self._history = history
        self._completions: list[str] = []
        self._prompt = ""  # while readline reads
        self._saved = _terminal_state(0)
        # Lines read by the program itself are neither kept nor completed.
        readline.set_auto_history(False)
        readline.set_completer_delims(" \t")
        apple = "libedit" in (getattr(readline, "__doc__", "") or "")
        readline.parse_and_bind("bind ^I rl_complete" if apple else "tab: complete")
        readline.set_history_length(HISTORY_LINES)
        if history is not None:
            try:
                readline.read_history_file(history)
            except OSError:
                pass  # there is none yet

    def read(self, prompt: str) -> str | None:
        """The next line."""
        if not _streams_are_terminals():
            return self._plain.read(prompt)
        self._readline.set_completer(self._completion)
        self._prompt = prompt
        try:
            line = _input(prompt)
        except EOFError:
            own_print(file=sys.__stdout__)
            return None
        finally:
            self._readline.set_completer(None)
            self._prompt = ""
        if line.strip():
            self._readline.add_history(line)
        return line

    def _completion(self, text: str, state: int) -> str | None:
        if state == 0:
            self._completions = self.complete(text, self._readline.get_line_buffer())
        return self._completions[state] if state < len(self._completions) else None

    def wake(self) -> None:
        """Do nothing, except where lines are plain."""
        self._plain.wake()

    def prompt_again(self, note: str) -> bool:
        """Show the prompt with the text typed so far, which readline keeps."""
        if not self._prompt:
            return self._plain.prompt_again(note)
        typed = self._readline.get_line_buffer()
        return show_at_once(sys.__stdout__, f"\n{note}\n{self._prompt}{typed}")

    def close(self) -> None:
        """Save the history; leave the terminal as it was found, even in the middle of a line."""
        self._readline.set_auto_history(True)
        if self._history is not None:
            try:
                self._readline.write_history_file(self._history)
            except OSError:
                pass  # the folder is not writable; there is just no history
        _restore_terminal(0, self._saved)


def _nothing(text: str, line: str) -> list[str]:
    return []


def show_at_once(out: TextIO | None, text: str) -> bool:
    """Write past the stream's buffer, which an interrupted thread may be about to change."""
    try:
        if out is not None:
            os.write(out.fileno(), text.encode())
    except (OSError, ValueError):
        pass  # the reader is gone
    return True


def _terminal_state(descriptor: int) -> Any:
    try:
        import termios

        return termios.tcgetattr(descriptor)
    except Exception:  # no such module, or no terminal
        return None


def _restore_terminal(descriptor: int, saved: Any) -> None:
    if saved is not None:
        import termios

        try:
            termios.tcsetattr(descriptor, termios.TCSADRAIN, saved)
        except termios.error:
            pass  # it is gone


def lines_of(commands: Path | None, history: Path | None = None) -> tuple[Lines, TextIO]:
    """The appropriate source of commands, and the stream for answers.

    Commands come from the file if given; otherwise from the terminal, bypassing the program's own
    standard input if that is something else.

    Raises:
        UsageError: There is no terminal, and no file.
    """
    stderr = sys.__stderr__ or sys.stderr
    if commands is not None:
        return FileLines(commands, stderr), stderr
    if _is_terminal(sys.stdin) and _is_terminal(sys.stdout):
        readline = _readline()
        if readline is not None:
            history_file = history.absolute() if history is not None else None
            if history_file is not None and history_file.exists() and not is_plain(history_file):
                history_file = None
            out = _terminal() or sys.stdout
            return ReadLines(readline, history_file, PlainLines(sys.stdin.fileno(), out)), out
        return PlainLines(sys.stdin.fileno(), sys.stdout), sys.stdout
    terminal = _terminal()
    if terminal is not None:
        return PlainLines(terminal.fileno(), terminal), terminal
    raise UsageError(
        "no terminal to debug in",
        hint="give commands in a file with -x, or leave out --cli",
    )


def _readline() -> Any:
    if os.environ.get("TERM") == "dumb":
        return None
    try:
        import readline
    except ImportError:
        return None
    return readline


def _terminal() -> TextIO | None:
    try:
        # Commands are read from its descriptor.
        with high():
            descriptor = os.open("/dev/tty", os.O_RDWR)
        return open(descriptor, "w", buffering=1, errors="replace")
    except (OSError, ValueError):
        return None


def _streams_are_terminals() -> bool:
    """Whether the standard streams are the original ones, as `input` requires for editing."""
    streams: tuple[Any, ...] = tuple(getattr(sys, name, None) for name in ("stdin", "stdout"))
    try:
        unchanged = all(
            stream.fileno() == number and stream.isatty() for number, stream in enumerate(streams)
        )
    except Exception:  # whatever the program has installed there
        return False
    return unchanged and getattr(sys, "stderr", None) is not None


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError, OSError):
        return False
