"""Debugger: what a run that can be stopped has besides its recorder: a gate, watches, settings.

Invariant: what a person sets is in force before it is kept; why it could not be kept is said once.
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
    """The gate of a run and the watches beside it, with the settings that are kept for them.

    Args:
        bus: Of the run; its recorder is on it already, so that a stop can be inspected.
        recorder: Of the run.
        stop_on_entry: Stop before the first node and wait for a page.
        breakpoints: Set from the start; stops wait for the first page.
        watches: Watch rules, as they are written.
        saved: Where breakpoints and watches are kept; those are set as well, and wait for nobody.
        on_change: Takes the state of the session whenever it changes.
        recording: Opens what was recorded so far, if that is to be read.
        say: Takes each line that is for the person.

    Raises:
        BreakpointError, ConditionError, WatchError: A breakpoint or a watch makes no sense.
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
        self._recorder = recorder
        self._saved = saved
        self._say = say
        self._unsaved = ""
        faults: list[str] = []
        self.gate = Gate(
            bus, stop_on_entry=stop_on_entry, seq_source=recorder.thread_seq,
            expects_controller=bool(breakpoints or watches), on_change=on_change,
            flush=partial(recorder.flush, elements=False),
        )  # fmt: skip
        kept: tuple[Breakpoint, ...] = ()
        if saved is not None:
            kept, faults = saved.load()
            for fault in faults:
                say(fault)
        if breakpoints or kept:
            new = (breakpoint_ for breakpoint_ in breakpoints if breakpoint_ not in kept)
            self.gate.command(SetBreakpoints((*kept, *new)))
        bus.add(SpokenMessages(say))
        bus.add(self.gate)
        self.watching = LiveWatches(
            bus, self.gate, seq_source=recorder.thread_seq, keep=recorder.keep,
            recording=recording,
        )  # fmt: skip
        kept_watches, more = saved.load_watches() if saved is not None else ((), [])
        for fault in more:
            if fault not in faults:
                say(fault)
        self.watching.replace(kept_watches)
        self.watching.begin(watches)

    def command(self, command: Command) -> None:
        """Take a controller's command, and keep the breakpoints and watches that it sets.

        Raises:
            NodescopeError: It cannot be carried out; nothing has changed.
        """
        if isinstance(command, SetWatches):
            self.watching.replace(command.watches)
        elif isinstance(command, SetKeeping):
            self._recorder.keep_whole(everything=command.everything, nodes=frozenset(command.nodes))
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
