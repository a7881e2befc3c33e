"""Debugger: the parts of a stoppable run besides its recorder: a gate, watches, settings.

Invariant: a setting takes effect before it is saved; a failure to save is reported once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from nodescope.debug.gate.gate import Gate
from nodescope.debug.project_settings import ProjectSettings
from nodescope.debug.report.captured_output import SpokenMessages
from nodescope.debug.watch.live_watches import LiveWatches
from nodescope.events import Bus
from nodescope.protocol import (
    Breakpoint,
    Command,
    SessionInfo,
    SetBreakpoints,
    SetKeeping,
    SetWatches,
)
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording


class Debugger:
    """The gate and the watches of a run, with their saved settings.

    Args:
        bus: The run's bus, with its recorder already added, so that a stop can be inspected.
        recorder: The run's recorder.
        stop_on_entry: Stop before the first node and wait for a page.
        breakpoints: Set from the start; stops wait for the first page.
        watches: Watch rules as text.
        saved: The saved breakpoints and watches; these are set as well, without waiting for a page.
        on_change: Called with the state of the session whenever it changes.
        recording: Opens the recording so far, for reading.
        say: Prints each message to the user.

    Raises:
        BreakpointError, ConditionError, WatchError: A breakpoint or a watch is invalid.
    """

    def __init__(
        self,
        bus: Bus,
        recorder: Recorder,
        *,
        stop_on_entry: bool,
        breakpoints: tuple[Breakpoint, ...],
        watches: Sequence[str],
        saved: ProjectSettings | None,
        on_change: Callable[[SessionInfo], None],
        recording: Callable[[], Recording | None],
        say: Callable[[str], None],
    ) -> None:
        self._bus, self._recorder = bus, recorder
        self._saved = saved
        self._say = say
        self._unsaved = ""
        kept, faults = saved.load() if saved is not None else ((), [])
        kept_watches, more = saved.load_watches() if saved is not None else ((), [])
        for fault in dict.fromkeys((*faults, *more)):
            say(fault)
        waits_at_saved = saved is not None and saved.waits and bool(kept or kept_watches)
        self.expects_controller = bool(breakpoints or watches or waits_at_saved)
        self.gate = Gate(
            bus, stop_on_entry=stop_on_entry, seq_source=recorder.thread_seq,
            expects_controller=self.expects_controller, on_change=on_change,
            flush=partial(recorder.flush, elements=False),
        )  # fmt: skip
        if breakpoints or kept:
            new = (breakpoint_ for breakpoint_ in breakpoints if breakpoint_ not in kept)
            self.gate.command(SetBreakpoints((*kept, *new)))
        bus.add(SpokenMessages(say))
        bus.add(self.gate)
        self.watching = LiveWatches(
            bus, self.gate, seq_source=recorder.thread_seq, keep=recorder.keep,
            recording=recording,
        )  # fmt: skip
        self.watching.replace(kept_watches)
        self.watching.begin(watches)

    def command(self, command: Command) -> None:
        """Execute a controller's command, and save the breakpoints and watches that it sets.

        Raises:
            NodescopeError: The command cannot be carried out; nothing has changed.
        """
        if isinstance(command, SetWatches):
            self.watching.replace(command.watches)
        elif isinstance(command, SetKeeping):
            self._recorder.keep_whole(everything=command.everything, nodes=frozenset(command.nodes))
            self._bus.renew()
        else:
            self.gate.command(command)
        if self._saved is None:
            return
        fault = ""
        if isinstance(command, SetBreakpoints):
            fault = self._saved.save(command.breakpoints)
        elif isinstance(command, SetWatches):
            fault = self._saved.save_watches(self.watching.texts)
        if fault and fault != self._unsaved:
            self._unsaved = fault
            self._say(fault)
