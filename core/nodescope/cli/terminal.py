"""The terminal debugger: ``nodescope run --cli``.

The program keeps the main thread; commands are read on a thread of their own, and only while the
program is stopped. Ctrl-C pauses a running program. At the prompt it gives a new prompt, as in
other debuggers; if the program does not reach a node, or a command does not finish, a second Ctrl-C
goes to the program, as without nodescope.

Invariant: reading ends with the program, and the terminal is left as it was found.
"""

from __future__ import annotations

import os
import secrets
import signal
import threading
from queue import SimpleQueue
from types import FrameType
from typing import Any, Final, TextIO

from nodescope.cli.terminal_commands import Console
from nodescope.cli.terminal_lines import FileLines, Lines, Woken, show_at_once
from nodescope.console_output import last_line, own_print, visible
from nodescope.debug.controller import Controller
from nodescope.errors import NodescopeError
from nodescope.protocol import Pause, SessionInfo

PROMPT: Final = "(nodescope) "
# Stands for the ESC of nodescope's own colours until a line is printed; no text of a program can
# contain it.
_ESCAPE: Final = f"\0{secrets.token_hex(8)}\0"
_COLOURS: Final = {"bold": "1", "node": "36", "error": "31", "dim": "2"}
_JOIN_S: Final = 1.0
_AT_PROMPT: Final = "(c continues, q detaches, kill ends it)"
_BUSY: Final = "(the command is still running; Ctrl-C again ends the program)"


class Terminal:
    """Debugs a run from the terminal, or from a file of commands.

    Args:
        controller: The run's controller, before the run starts.
        lines, out: The source of commands, and the stream for answers.
        color: Whether to use colours where they are supported.
    """

    def __init__(
        self, controller: Controller, lines: Lines, out: TextIO, *, color: bool = True
    ) -> None:
        self._controller = controller
        self._news: SimpleQueue[tuple[int, SessionInfo] | str] = SimpleQueue()
        self._lines, self._out = lines, out
        lines.complete = self._complete
        self._color = color and colors_of(self._out)
        self._console = Console(controller, self._say, self._paint)
        self._pausing = self._reading = self._warned = False
        # Stops are numbered as they are announced; `_told` is the last one printed.
        self._stops = self._told = 0
        self._held = False
        self._ended = False
        self._handler: Any = None
        self._thread = threading.Thread(target=self._work, name="nodescope-terminal", daemon=True)

    def start(self) -> None:
        """Begin to take commands; called on the main thread."""
        self._controller.listeners = (*self._controller.listeners, self._changed)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._handler = signal.signal(signal.SIGINT, self._interrupt)
        self._thread.start()

    def finish(self, status: int) -> None:
        """Report that the program has ended, and leave the terminal alone."""
        self._ended = True
        if self._handler is not None and signal.getsignal(signal.SIGINT) == self._interrupt:
            signal.signal(signal.SIGINT, self._handler)
        self._news.put("end")
        self._lines.wake()
        # A thread waiting in readline cannot be woken; it ends with the process.
        self._thread.join(_JOIN_S)
        self._lines.close()
        lines = self._lines
        if isinstance(lines, FileLines) and lines.left:
            self._say(f"the program ended with {lines.left} commands of {lines.name} left to run")
        self._say(f"the program ended with status {status}")
        self._controller.close()

    # ------------------------------------------------------------ the main thread

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        # This can interrupt the program's thread anywhere, so it takes no lock.
        if self._console.killing:
            self._console.killing = False
            signal.default_int_handler(number, frame)
        if self._held and not self._ended and self._stands():
            return
        if self._ended or self._pausing or self._controller.info.phase != "running":
            signal.default_int_handler(number, frame)
        self._pausing = True
        self._news.put("pause")

    def _stands(self) -> bool:
        """Handle Ctrl-C while the program is stopped; return whether it is fully handled."""
        if self._reading:
            return self._lines.prompt_again(_AT_PROMPT)
        if isinstance(self._lines, FileLines) or self._warned:
            return False
        self._warned = True
        return show_at_once(self._out, f"\n{_BUSY}\n")

    def _changed(self, info: SessionInfo) -> None:
        stopped = info.stop is not None
        if stopped and not self._held:
            self._stops += 1
        self._held = stopped
        self._news.put((self._stops, info))
        if not stopped and self._reading:
            self._lines.wake()

    # ------------------------------------------------------------ the terminal's thread

    def _work(self) -> None:
        while True:
            news = self._news.get()
            if news == "end":
                return
            try:
                if news == "pause":
                    self._pause()
                elif isinstance(news, tuple):
                    self._take(*news)
            except Exception as error:
                self._say(f"the debugger failed ({last_line(error)}); the program continues")
                self._controller.leave()

    def _pause(self) -> None:
        try:
            self._controller.command(Pause())
        except NodescopeError:
            return  # the program has ended, or is stopped by now
        self._say("\npausing at the next node; Ctrl-C again ends the program")

    def _take(self, number: int, info: SessionInfo) -> None:
        if info.stop is None or number == self._told:
            return  # the program runs, or a value or a breakpoint was changed
        self._told, self._pausing = number, False
        if self._console.stopped(info.stop):
            return
        while (line := self._read(number)) is not None:
            if isinstance(self._lines, FileLines):
                self._console.place = self._lines.place
            self._console.width = width_of(self._out)
            if self._console.run(line):
                return
            if not self._still(number):
                return

    def _read(self, number: int) -> str | None:
        """The next command; None if the program is no longer stopped, or at the end of commands."""
        self._reading, self._warned = True, False
        try:
            while self._still(number):
                try:
                    line = self._lines.read(PROMPT)
                except Woken:
                    continue
                if not self._still(number):
                    return None  # it has continued since: Ctrl-C was the program's
                if line is None:
                    self._console.run("detach")
                return line
        finally:
            self._reading = False
        return None

    def _still(self, number: int) -> bool:
        return self._held and self._stops == number and not self._ended

    # ------------------------------------------------------------ text

    def _say(self, text: str) -> None:
        try:
            # Colours are nodescope's; any other control sequences come from the program.
            parts = map(visible, text.split(_ESCAPE))
            own_print("\x1b".join(parts), file=self._out, flush=True)
        except (OSError, ValueError):
            pass  # the reader is gone

    def _paint(self, text: str, colour: str) -> str:
        return f"{_ESCAPE}[{_COLOURS[colour]}m{text}{_ESCAPE}[0m" if self._color else text

    def _complete(self, text: str, line: str) -> list[str]:
        return self._console.complete(text, line)


def width_of(out: TextIO) -> int:
    """The width of a terminal in columns; 100 if it is not a terminal."""
    try:
        return max(20, os.get_terminal_size(out.fileno()).columns or 100)
    except (OSError, ValueError):
        return 100


def colors_of(out: TextIO) -> bool:
    """Whether a stream is a terminal that shows colours, and the user has not disabled them."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    try:
        return out.isatty()
    except ValueError:
        return False
