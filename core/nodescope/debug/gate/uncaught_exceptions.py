"""Uncaught exceptions: those that end the program, or one of its threads, outside operations.

At that point Python has unwound the stack: the raising line comes from the traceback, and the last
node from the recording.

Invariant: the exception propagates unchanged, whatever happens here.
"""

from __future__ import annotations

import linecache
import sys
import threading
from collections.abc import Callable
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from nodescope.debug.gate.gate import Gate
from nodescope.debug.gate.python_stack import MAX_CODE, MAX_FRAMES, error_line, is_hidden
from nodescope.debug.session.state import Raised
from nodescope.interactive import cell_name
from nodescope.protocol import Frame
from nodescope.record.recording import Recording

if TYPE_CHECKING:
    from nodescope.debug.history.history import Moment

_OVER: Final = ("finished", "detached")
_MOST: Final = 10_000  # limit of executions searched for one on the raising thread


class Uncaught:
    """Stops a program that is about to end by an exception of its own.

    Attributes:
        gate: The run's; None if it cannot be stopped.

    Args:
        seq_source: Returns the calling thread's last recorded seq.
        step_source: Returns the number of the current step.
        recording: Opens the recording, written up to now; returns None if there is none.
        say: Prints a message to the user.
    """

    def __init__(
        self,
        seq_source: Callable[[], int],
        step_source: Callable[[], int],
        recording: Callable[[], Recording | None],
        say: Callable[[str], None],
    ) -> None:
        self.gate: Gate | None = None
        self._seq_source, self._step_source = seq_source, step_source
        self._recording, self._say = recording, say
        self._hooks: list[tuple[Any, str, Any, Any]] = []

    def raised(self, error: BaseException | None) -> None:
        """Stop, if a controller is present; return when the exception may propagate.

        Interrupting the stop ends the program.
        """
        gate = self.gate
        if gate is None or not isinstance(error, Exception) or gate.info.phase in _OVER:
            return
        thread = threading.get_ident()
        try:
            seq = self._seq_source()
            last = self._last(seq, thread)
            if last is None or last.error == error_line(error):
                return  # nothing to show, or the raising node has stopped already
            step = max(self._step_source(), last.step)  # it may have been left out
            gate.raised(
                Raised(last.node, last.step, last.seq, thread, error_line(error), frames_of(error),
                       in_step=step)
            )  # fmt: skip
        except KeyboardInterrupt:
            pass
        except Exception as fault:
            self._say(f"cannot stop at {type(error).__name__}: {type(fault).__name__}: {fault}")

    def _last(self, seq: int, thread: int) -> Moment | None:
        """The last execution on a thread; if it has none, the last one of all threads."""
        recording = self._recording()
        if recording is None:
            return None
        from nodescope.debug.history.history import History  # needed after errors only

        with recording:
            history = History(recording)
            history.refresh()
            moments = list(islice(history.backwards(seq + 1), _MOST))
        own_moments = (moment for moment in moments if moment.thread == thread)
        return next(own_moments, next(iter(moments), None))

    # ------------------------------------------------------------ hooks

    def begin(self) -> None:
        """Install the hook for threads that end by an exception."""
        if self.gate is not None:
            self._hook(threading, "excepthook", lambda arguments: arguments.exc_value)

    def begin_main(self) -> None:
        """Install the hook for the main thread, for runners that do not call `raised`."""
        self._hook(sys, "excepthook", lambda kind, error, trace: error)

    def end(self) -> None:
        """Remove the hooks. A hook that the program has installed since stays."""
        for module, name, before, replacement in self._hooks:
            if getattr(module, name) is replacement:
                setattr(module, name, before)
        self._hooks = []

    def forked(self) -> None:
        """In a forked child, nothing stops."""
        if self.gate is not None:
            self.gate.forked()

    def _hook(self, module: Any, name: str, of: Callable[..., BaseException | None]) -> None:
        before = getattr(module, name)

        def hook(*arguments: Any) -> None:
            self.raised(of(*arguments))
            before(*arguments)

        setattr(module, name, hook)
        self._hooks.append((module, name, before, hook))


def frames_of(error: BaseException) -> tuple[Frame, ...]:
    """The user's frames of a traceback, innermost first, at most `MAX_FRAMES`."""
    frames: list[Frame] = []
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not is_hidden(code.co_filename):
            text = linecache.getline(code.co_filename, trace.tb_lineno, trace.tb_frame.f_globals)
            frames.append(
                Frame(
                    cell_name(code.co_filename),
                    trace.tb_lineno,
                    code.co_qualname,
                    text.strip()[:MAX_CODE],
                )
            )
        trace = trace.tb_next
    return tuple(reversed(frames))[:MAX_FRAMES]
