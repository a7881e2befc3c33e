"""Composition root: wires engine, recorder, gate and link into a run.

Invariant: the only module that knows all of them. At most one run is active per process; a forked
child has none. A failure here is reported in one line, and the program continues.
"""

from __future__ import annotations

import atexit
import math
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from importlib.metadata import version as _installed_version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from nodescope import console_output, interactive
from nodescope.adapters.attached import Attached, framework_of, known_adapters
from nodescope.debug.breakpoints.node_selectors import SelectionUse
from nodescope.debug.debugger import Debugger
from nodescope.debug.gate.explicit_breakpoint import ask
from nodescope.debug.gate.gate import Gate
from nodescope.debug.gate.uncaught_exceptions import Uncaught
from nodescope.debug.project_settings import ProjectSettings
from nodescope.debug.report.advice import advise_program
from nodescope.debug.report.captured_output import CapturedOutput
from nodescope.debug.watch.live_watches import LiveWatches
from nodescope.emit import state as emit_state
from nodescope.emit.emitter import Emitter, activate
from nodescope.errors import LinkError, NodescopeError, RecordingError, UsageError
from nodescope.events import (
    LEVELS,
    Bus,
    Demand,
    FrameworkAttached,
    Level,
    Logged,
    Opens,
    RunFinished,
    RunStarted,
)
from nodescope.ir.capabilities import Framework
from nodescope.link.address import Address, find
from nodescope.protocol import Breakpoint, Command, RunInfo, SessionInfo
from nodescope.ranks import rank_of
from nodescope.record import shutdown
from nodescope.record.backpressure import QUEUE_BYTES, Backpressure
from nodescope.record.governor.governor import Governor
from nodescope.record.host_sampler import Sampler
from nodescope.record.kept.waiting_packs import MOST_S
from nodescope.record.paths import recording_path as recording_path
from nodescope.record.queue_writer import MIB
from nodescope.record.recent import remember
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.rows import Advice

if TYPE_CHECKING:
    from nodescope.debug.controller import Controller
    from nodescope.link.client import Link

DEFAULT_SLOWDOWN: Final = 2.0

_current: Run | None = None


class Run:
    """One observed run of this process.

    Args:
        recording: The file of the recording.
        name, argv: Name and command line for the list of runs.
        level: Capture level.
        budget_bytes: Upper limit of full arrays in the recording; None for the default.
        value_steps: Keep full arrays of this many first training steps only.
        newest: Keep the newest training steps whole, whatever the level.
        explicit: Whether the user chose level and limit; if not, messages omit details about them.
        debugger: Whether the run can be stopped: it gets a gate.
        stop_on_entry: Stop before the first node and wait for a page.
        breakpoints: Set from the start; stops wait for the first page.
        watches: Watch rules as text; ``recommended`` stands for those recommended for the program,
            which are set after its first training step.
        saved: The file of the project's breakpoints and watches; these are set as well, without
            waiting for a page.
        opened: Patterns of node names: compiled kernels with a matching name, or that cover a
            matching node, are also run node by node for inspection.
        max_slowdown: Record less, so that the run takes at most this many times as long; a number
            above 1.
        select: Levels of some nodes, as ``scope:encoder=values``, which are kept whatever they
            cost.
        waits: The program waits for the recording instead of losing any of it.
        say: Prints each message to the user.

    Raises:
        UsageError: The level does not exist.
        RecordingError: The recording cannot be written.
        BreakpointError, ConditionError, WatchError: A breakpoint or a watch is invalid.
    """

    def __init__(
        self,
        recording: str | os.PathLike[str],
        *,
        name: str = "",
        argv: tuple[str, ...] = (),
        level: Level = "summary",
        budget_bytes: int | None = None,
        value_steps: int | None = None,
        newest: bool = False,
        explicit: bool = True,
        debugger: bool = False,
        stop_on_entry: bool = False,
        breakpoints: tuple[Breakpoint, ...] = (),
        saved: ProjectSettings | None = None,
        watches: Sequence[str] = (),
        opened: Sequence[str] = (),
        max_slowdown: float | None = None,
        select: Sequence[str] = (),
        waits: bool = False,
        say: Callable[[str], None] | None = None,
    ) -> None:
        if level not in LEVELS:
            raise UsageError(f"unknown capture level {level!r}", hint=f"one of {', '.join(LEVELS)}")
        self._selected = SelectionUse(select)
        self._say = say or console_output.say
        self._debugger: Debugger | None = None
        self._link: Link | None = None
        self._controller: Controller | None = None
        self._active = False
        self._sampler: Sampler | None = None
        self._samples = not waits  # times of a program that waits for its recording mean nothing
        self.advice: Advice | None = None
        """After the run: what to do if nothing was observed in the program."""
        self.refused: set[str | None] = set()
        """Conditions of `breakpoint` that failed; each is reported once."""
        self._started_unix_ns = time.time_ns()
        self.bus = self._new_bus(opened)
        self.emitter = Emitter(self.bus)
        self._written = CapturedOutput(self.bus.emit)
        governor: Governor | None = None
        if max_slowdown is not None:
            governor = Governor(max_slowdown, tell=self._tell, bus=self.bus, chosen=explicit)
        self.recorder = Recorder(
            Path(recording), level=level, chosen=self._selected.selections,
            budget_bytes=budget_bytes, value_steps=value_steps, policy=governor, newest=newest,
            chosen_level=explicit, on_commit=self._committed, on_fault=self._gave_up,
            on_room=self._room, queue_bytes=QUEUE_BYTES if waits else 64 * MIB,
            arrays_wait_s=math.inf if waits else MOST_S,
        )  # fmt: skip
        if governor is not None:
            governor.govern(self.recorder)
        self._adapters = Attached(known_adapters(self._say), self._say, self._observes)
        self.info = RunInfo(
            id=secrets.token_hex(8), name=console_output.printable(_run_name(name)),
            argv=tuple(map(console_output.printable, argv or sys.argv)), pid=os.getpid(),
            started_unix_ns=self._started_unix_ns, level=level,
            recording=str(Path(recording).absolute()),
        )  # fmt: skip
        self.uncaught = Uncaught(self.recorder.thread_seq, lambda: self.step,
                                 self._readable, self._say)  # fmt: skip
        self._still_s = shutdown.PATIENT_S if waits else shutdown.STILL_S
        if waits:
            self.bus.add(Backpressure(self.recorder))
        self.bus.add(self.recorder)
        levels = {level, *(chosen for _, chosen in self._selected.selections)}
        arrays = debugger or newest or not levels.isdisjoint(("summary", "values"))
        self.bus.want(self.recorder, Demand(arrays=arrays, values="values" in levels))
        if debugger:
            try:
                self._debugger = Debugger(
                    self.bus, self.recorder, stop_on_entry=stop_on_entry, breakpoints=breakpoints,
                    watches=watches, saved=saved, on_change=self._changed,
                    recording=self._readable, say=self._say,
                )  # fmt: skip
            except NodescopeError:
                self.recorder.close()
                raise
            self.uncaught.gate = self._debugger.gate

    def _new_bus(self, opened: Sequence[str]) -> Bus:
        """The run's bus; kernels with nodes named by the patterns ``opened`` run node by node."""
        bus = Bus()
        if opened:
            names: Opens = lambda node: any(fnmatchcase(node.name, pattern) for pattern in opened)  # noqa: E731
            bus.want(self, Demand(opened=(names,)))
        bus.on_fault = lambda probe, error: self._say(
            f"{type(probe).__name__} failed and was disabled; your program continues "
            f"({console_output.last_line(error)})"
        )
        return bus

    def _readable(self) -> Recording | None:
        """The recording, with everything emitted so far; None if it cannot be read."""
        if not self._active:
            return None
        self.recorder.flush()
        try:
            return Recording.open(self.info.recording)
        except RecordingError:
            return None

    def command(self, command: Command) -> None:
        """Take a controller's command; see `Debugger.command`."""
        if self._debugger is None:
            raise UsageError("a run without a debugger accepts no commands")
        self._debugger.command(command)

    @property
    def expects_controller(self) -> bool:
        """Whether there are breakpoints or watches at which the run waits for a page."""
        return self._debugger is not None and self._debugger.expects_controller

    @property
    def gate(self) -> Gate | None:
        """The gate where the run stops; None without a debugger."""
        return None if self._debugger is None else self._debugger.gate

    @property
    def watching(self) -> LiveWatches | None:
        """The watches of the run; None without a debugger."""
        return None if self._debugger is None else self._debugger.watching

    @property
    def step(self) -> int:
        """The training step that is running; 0 before the first."""
        return self.emitter.step

    def __repr__(self) -> str:
        state = "recording" if self._active else "ended"
        return f"<nodescope run {self.info.name!r}: {state}, {self.info.recording}>"

    def controller(self, *, attend: bool = True) -> Controller:
        """A controller in this process, for which the run stops: now, or once it attends."""
        if self.gate is None:
            raise UsageError("a run without a debugger cannot be controlled")
        from nodescope.debug.controller import Controller  # programs need not wait for this import

        if self._controller is None:
            self._controller = Controller(
                self.gate, self.info.recording,
                elapsed=lambda: self.bus.ran_ns() / 1e9, flush=self.recorder.flush,
            )  # fmt: skip
            self._controller.watching = self.watching
            if attend:
                self._controller.attend()
        return self._controller

    def connect(self, address: Address, *, timeout_s: float = 0.25) -> None:
        """Connect to a server, whose pages can then stop this run.

        Raises:
            LinkError: No server listens within ``timeout_s``, or it refuses; the run is unattended.
        """
        gate = self.gate
        if gate is None:
            raise UsageError("a run without a debugger cannot be connected")
        from nodescope.link.client import Handlers, Link

        handlers = Handlers(
            command=self.command, controllers=gate.controllers, live_value=gate.live_value,
            up=gate.link_up, lost=gate.link_lost, warn=self._say,
        )  # fmt: skip
        self._link = link = Link(
            address.link, address.token, self.info, handlers, version=version()
        )
        link.session(gate.info)
        try:
            link.connect(timeout_s)
        except LinkError:
            self._link = None
            gate.link_lost()
            raise
        link.session(gate.info)  # it may have changed in the meantime

    def start(self) -> None:
        """Observe the program from now on.

        Raises:
            UsageError: Another run is active.
        """
        global _current
        # The clock starts here, so that time spent starting a server does not count.
        self._started_unix_ns = self.bus.begin()
        self._adapters.begin(self.emitter)
        activate(self.emitter)
        remember(self.recorder.path)
        self.uncaught.begin()
        _current = self
        self._active = True
        if self.info.level != "graph" and self._samples:
            self._sampler = Sampler(
                self.bus.emit, now_ns=self.bus.now_ns, seq=lambda: self.recorder.progress,
                step=lambda: (self.step, not self.emitter.resting),
                threads=self.recorder.writer.threads, progress=lambda: self.bus.progress,
            )  # fmt: skip
            self._sampler.start()
            self.emitter.on_rest = self._sampler.rest
        info, first = self.info, framework_of(self._adapters.first)
        self.bus.emit(
            RunStarted(
                info.id,
                info.name,
                info.argv,
                info.pid,
                self._started_unix_ns,
                first,
                threading.main_thread().ident or 0,
            )
        )
        for framework in info.frameworks:
            self.bus.emit(FrameworkAttached(framework))

    def log(self, stream: Any, text: str) -> None:
        """Record a line of the program's ``stdout`` or ``stderr``; see `CapturedOutput`."""
        if self._active:
            line = Logged(stream, console_output.printable(text), self.step, self.bus.now_ns())
            self._written.take(line)

    def end(self, status: int = 0, error: str = "") -> None:
        """Stop observing: the program ends at this moment."""
        global _current
        if _current is self:
            _current = None
        if self._active:
            self._active = False
            if self._sampler is not None:
                self._sampler.stop()
            self._adapters.end()
            self.emitter.end_step()
            activate(None)
            self._written.finish()
            for complaint in self._selected.complaints():
                self._tell(complaint)
            self._advise(error if status else "")
            self.bus.emit(RunFinished(status, error, self.bus.now_ns()))

    def finish(self, status: int = 0, error: str = "") -> None:
        """`end`, complete the recording and tell the server; see `Recorder.close`."""
        self.end(status, error)
        self.uncaught.end()
        if self.recorder.forked:  # the recording and the server are the parent's
            return
        try:
            closed = self.recorder.close(self._still_s, slow=self._slow)
            unwritten = self.recorder.writer.unwritten
            if unwritten and unwritten.cause == "full":
                self._room(True, str(unwritten))
            elif not closed and not self.recorder.writer.fault:
                self._say(
                    "the disk was too slow for the end of the recording: "
                    f"{self.recorder.writer.left_out} could not be written"
                )
        finally:
            if self._link is not None:
                self._committed(self.recorder.writer.committed_seq)
                self._link.goodbye(status, error)

    def _advise(self, error: str) -> None:
        """Record advice if there was no operation to record."""
        if self.recorder.operations:
            return
        script = Path(self.info.argv[0] if self.info.argv else self.info.name)
        try:
            self.advice = advise_program(
                script, leaves=self.recorder.leaves, error=error, frameworks=self.info.frameworks
            )
        except Exception as failed:  # a failure here must not spoil the program's end
            self._say(f"no advice: {console_output.last_line(failed)}")
            return
        self.recorder.add(self.advice)

    def _slow(self) -> None:
        if self.recorder.writer.written:
            self._say("everything is recorded; merging it into one file (Ctrl-C: do that later)")
        else:
            self._say("writing the rest of the recording; press Ctrl-C to skip it")

    def _tell(self, text: str) -> None:
        """Record a message of the recorder, and print it."""
        if self.gate is None:  # with a gate, every logged line is printed anyway
            self._say(text)
        self.bus.emit(Logged("nodescope", text, self.step, self.bus.now_ns()))

    def _observes(self, framework: Framework) -> None:
        """Note that a framework has been attached: at the start, or when it was imported."""
        frameworks = (*self.info.frameworks, framework)
        self.info = msgspec.structs.replace(self.info, frameworks=frameworks)
        if self._active:
            self.bus.emit(FrameworkAttached(framework))
        if self._link is not None:
            self._link.observed(frameworks)

    def _committed(self, seq: int) -> None:
        if self._link is not None:
            self._link.committed(seq, owes=self.recorder.writer.owes)

    def _gave_up(self, text: str) -> None:
        self._say(text)
        if self._link is not None:
            self._link.trouble(text)

    def _room(self, full: bool, text: str) -> None:
        """Report to the page and the user that the disk is full, or has room again."""
        if not full:  # a gap is recorded separately
            self.recorder.remark(text, self.step, self.bus.now_ns())
        self._say(text)
        if self._link is not None:
            self._link.trouble(text if full else "")

    def _changed(self, info: SessionInfo) -> None:
        self.recorder.writer.attended(info.attended)
        if self._link is not None:
            self._link.session(info)
        if self._controller is not None:
            self._controller.changed(info)


def attach(
    address: str | None = None, *, level: Level = "summary", stop_on_entry: bool = False
) -> Run | None:
    """Connect this process to a waiting debugger (``nodescope serve``).

    Under ``nodescope run``, returns the existing run. If no server is found, which takes 250 ms at
    most, prints one line, and the program continues unobserved.

    Args:
        address: ``ws://127.0.0.1:7711/link``; by default, the server that was started last.
        level: Capture level.
        stop_on_entry: Whether to stop before the next node and wait for a page.

    Returns:
        The run, or None if no server was found.
    """
    if _current is not None:
        return _current
    try:
        where = find(address)
        stem = Path(interactive.program_name()).stem.replace(" ", "-") or "program"
        recording = recording_path(stem, console_output.say)
        run = Run(recording, level=level, debugger=True, stop_on_entry=stop_on_entry)
        try:
            # The rest of the 250 ms is for the recording, which is created and removed again.
            run.connect(where, timeout_s=0.2)
            run.start()
        except NodescopeError:
            run.finish()
            Path(run.info.recording).unlink(missing_ok=True)
            raise
    except NodescopeError as error:
        console_output.say(f"not attached: {error}")
        return None
    atexit.register(_finish_at_exit, run)
    run.uncaught.begin_main()
    return run


def _run_name(given: str) -> str:
    rank, name = rank_of(os.environ), given or interactive.program_name()
    return name if rank is None else f"{name}, {rank.words}"


def watch(model: Any, name: str = "", *, level: Level = "summary") -> Run | None:
    """Observe a model of another library, such as a PyTorch module, from here on.

    Within a run, as under ``nodescope run``, only names the model; otherwise connects to a waiting
    debugger, like `attach`.

    Args:
        model: The outermost module.
        name: The name of its scope; by default, its class.
        level: Capture level, if the run begins here.

    Returns:
        The run, or None if no server was found.
    """
    run = attach(level=level)
    if run is not None and name:
        for attachment in run.emitter.attachments:
            name_model = getattr(attachment, "name_model", None)
            if name_model is not None:
                name_model(model, name)
    return run


@contextmanager
def record(
    path: str | os.PathLike[str],
    level: Level = "summary",
    *,
    opened: Sequence[str] = (),
    max_slowdown: float | None = None,
    select: Sequence[str] = (),
) -> Iterator[Run]:
    """Record the engine's operations inside the block into ``path``, without a debugger.

    Inside a run that is already recorded, the block belongs to that recording; one line says so.

    Args:
        path: The ``.nscope`` file.
        level: ``graph``, ``timing``, ``summary`` or ``values``.
        opened: Patterns of node names, such as ``"encoder/*"``: compiled kernels with a matching
            name, or that cover a matching node, also run node by node, on their real inputs.
            Results do not change.
        max_slowdown: The limit as a multiple of the unobserved time, such as 1.5. To stay below it,
            less is recorded, and whatever was left out is reported. ``level`` is
            then the most that is kept.
        select: Levels of single nodes, as ``"scope:encoder=values"``, exempt from the limit.

    Raises:
        RecordingError: The path cannot be written.
        UsageError: The level, the slowdown or a selection is invalid.
    """
    if _current is not None:
        console_output.say(
            f"this run is already recorded, in {_current.info.recording}; {path} is not written"
        )
        yield _current
        return
    run = Run(path, level=level, opened=opened, max_slowdown=max_slowdown, select=select)
    run.start()
    try:
        yield run
    except BaseException as error:
        run.finish(1, console_output.last_line(error))
        raise
    run.finish()


def breakpoint(when: str | None = None, on: Any = None) -> None:
    """Stop the program at its next node, if a debugger is attached.

    Args:
        when: A condition that must be true, such as ``"isnan(value).any()"``.
        on: The tensor or array that ``value`` in the condition refers to. An error in evaluating
            the condition is reported once, and the program does not stop.

    Raises:
        UsageError: The condition is not a string, with or without a debugger.
    """
    if when is not None and not isinstance(when, str):
        raise UsageError(
            f"breakpoint: the condition must be a string, not a {type(when).__name__}",
            hint="such as ns.breakpoint('value > 3', on=x)",
        )
    run = emit_state.worker or _current
    if run is None or run.gate is None:
        return
    if when is not None:
        when = console_output.printable(str.__str__(when))
        answer = ask(when, on, step=run.step, elapsed_s=run.bus.ran_ns() / 1e9)
        if answer.fault and when not in run.refused:
            run.refused.add(when)
            line = f"ns.breakpoint({when!r}): {answer.fault}"
            run.bus.emit(Logged("nodescope", line, run.step, run.bus.now_ns()))
        if not answer.true:
            return
    caller = sys._getframe(1)
    where = f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno}"
    run.gate.break_here(f"ns.breakpoint at {where}" + (f": {when}" if when else ""))


def version() -> str:
    """The installed version of nodescope."""
    return _installed_version("nodescope")


def _finish_at_exit(run: Run) -> None:
    if run.info.pid != os.getpid():
        return
    # A prompt continues after an error, so the last exception is not how the program ended.
    error = None if interactive.is_interactive() else getattr(sys, "last_value", None)
    run.finish(
        1 if error is not None else 0, console_output.last_line(error) if error is not None else ""
    )


def _go_inert_in_child() -> None:
    """Silence a forked child, which must touch neither the recording nor the parent's socket."""
    global _current
    if _current is not None:
        _current._adapters.forked()
        activate(None)
        _current.bus.probes = ()
        _current.uncaught.forked()
        if _current._sampler is not None:
            _current._sampler.forked()
        _current._active = False
        _current = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_go_inert_in_child)
