"""Random programs under a real gate: they stop exactly where the model says, and never hang."""

from __future__ import annotations

import faulthandler
import itertools
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
import msgspec
from hypothesis import strategies as st

from nodescope.debug.gate.gate import Gate
from nodescope.engine import tracer
from nodescope.errors import UsageError
from nodescope.events import Bus, Event, Logged
from nodescope.protocol import (
    Breakpoint,
    Command,
    Continue,
    Detach,
    NextStep,
    Pause,
    RunTo,
    SessionInfo,
    SetBreakpoints,
    SetExceptions,
    SetValue,
    StepIn,
    StepNode,
    StepOut,
    StepOver,
    StepTwin,
    Stop,
)
from tests.depth import examples
from tests.integration import stop_programs
from tests.integration.stop_model import CONDITIONS, Armed, Listening, Model, Stopped, with_kernels
from tests.integration.stop_programs import Running, programs

WAIT_S = 60.0
GRADIENT = next(item for item in CONDITIONS if "grad" in item)
MOST_STOPS = 60

_lines = Path(stop_programs.__file__).read_text().splitlines()
LINES = [
    f"stop_programs.py:{number}"
    for number, line in enumerate(_lines, 1)
    if any(item in line for item in ("np.tanh(x)", "* self.a", "np.log(x)", "return np.sum"))
]
TARGETS = {
    "op": ["tanh", "multiply", "add", "exp", "log", "sum", "matmul", "fused", "parameter"],
    "scope": ["a", "b", "c", "a/b", "b/a", "call0", "call0/inner", "backward", "backward/a",
              "optimizer"],
    "glob": ["*", "*tanh*", "a/*", "*/b/*", "backward/*", "call*/*", "optimizer/*"],
    "regex": [".*/exp.*", "(a|b)/.*", "backward/.*", "sum|matmul"],
    "source": LINES,
}  # fmt: skip


@st.composite
def breakpoints(draw: st.DrawFn) -> Breakpoint:
    """Random breakpoints; a target ``#7`` is the seventh name of the program."""
    kind = draw(st.sampled_from(["node", "node", *TARGETS]))
    target = (
        f"#{draw(st.integers(0, 40))}" if kind == "node" else draw(st.sampled_from(TARGETS[kind]))
    )
    when = draw(st.sampled_from(["after", "after", "before"]))
    # Few nodes have gradients, so ask for gradients often.
    asked = ["", "", "", *CONDITIONS, GRADIENT, GRADIENT]
    conditions = ["", "", "step > 1"] if when == "before" else asked
    return Breakpoint(
        kind,
        target,
        when=when,
        condition=draw(st.sampled_from(conditions)),
        enabled=draw(st.sampled_from([True, True, True, False])),
        phase=draw(st.sampled_from(["", "", "", "forward", "backward", "optimizer"])),
        first_step=draw(st.sampled_from([0, 0, 2])),
        last_step=draw(st.sampled_from([None, None, 2])),
        hits=draw(st.sampled_from(["", "", "== 2", ">= 2", "% 3"])),
        log=draw(st.sampled_from(["", "", "", "said"])),
        once=draw(st.sampled_from([False, False, True])),
    )


_sets = st.lists(breakpoints(), max_size=4)
_settings = st.one_of(
    st.tuples(st.just("breakpoints"), st.booleans(), _sets),
    st.tuples(st.just("exceptions"), st.booleans()),
    st.just(("edit",)),
    st.just(("pause",)),
    st.just(("page",)),
)
_scopes = st.sampled_from([None, "a", "b", "call0", "backward"])
_moves: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([Continue(), Continue(), StepNode(), StepOut(), NextStep(), StepTwin()]),
    st.builds(StepIn, scope=_scopes),
    st.builds(StepOver, scope=_scopes),
    st.builds(RunTo, st.integers(0, 40).map("#{}".format)),
    st.sampled_from([Detach(), Continue()]),
)
answers = st.lists(st.tuples(st.lists(_settings, max_size=2), _moves), max_size=12)


@dataclass
class Seen:
    """A run under a gate.

    Attributes:
        stops: The stops, in order.
        taken: The accepted commands at each stop.
        said: The ids of the breakpoints that logged, in order.
    """

    stops: list[Stop] = field(default_factory=list)
    taken: list[list[Command]] = field(default_factory=list)
    faults: list[BaseException] = field(default_factory=list)
    said: int = 0
    hits: dict[int, int] = field(default_factory=dict)

    def emit(self, event: Event) -> None:
        if isinstance(event, Logged) and event.text == "said":
            self.said += 1


class Controlled:
    """A gate with a controller on another thread, which answers each stop."""

    def __init__(self, bus: Bus, seen: Seen, names: list[str], entry: bool) -> None:
        self.bus, self.seen, self.names = bus, seen, names
        self.news: queue.Queue[SessionInfo | None] = queue.Queue()
        self.gate = Gate(
            bus, stop_on_entry=entry, seq_source=itertools.count().__next__, flush=lambda: True,
            on_change=self.news.put,
        )  # fmt: skip
        bus.add(seen)
        bus.add(self.gate)
        bus.on_fault = lambda probe, error: seen.faults.append(error)
        self.gate.controllers(1)

    def follow(self, script: list[Any]) -> None:
        """Answer the stops until the program ends."""
        latest = -1
        while (info := self.news.get()) is not None:
            if info.stop is None or info.stop.seq == latest:
                continue  # The same stop, announced again with an edit or a breakpoint.
            latest = info.stop.seq
            try:
                self._answer(info.stop, script)
            except BaseException as error:
                self.seen.faults.append(error)
                self.gate.command(Detach())

    def _answer(self, stop: Stop, script: list[Any]) -> None:
        number = len(self.seen.stops)
        self.seen.stops.append(stop)
        self.seen.taken.append([])
        settings, move = script[number % len(script)] if script else ([], Continue())
        if number >= MOST_STOPS:
            move = Detach()
        for setting in settings:
            self._set(*setting)
        if isinstance(move, RunTo):
            move = RunTo(self.named(move.node))
        try:
            self._give(move)
        except UsageError:
            self._give(Continue())

    def _set(self, kind: str, *rest: Any) -> None:
        gate = self.gate
        match kind:
            case "breakpoints":
                keep, new = rest
                kept = [item.breakpoint for item in gate.info.breakpoints] if keep else []
                self.replace((*kept, *new))
            case "exceptions":
                self._give(SetExceptions(rest[0]))
            case "edit":
                for value, array in list(gate._live.items())[:1]:
                    if array.dtype.kind == "f":
                        gate.command(SetValue(value, how="scale", number=1.0))
            case "pause":
                gate.command(Pause())
            case "page":
                gate.controllers(0)
                gate.controllers(1)

    def replace(self, wanted: tuple[Breakpoint, ...]) -> None:
        named = tuple(msgspec.structs.replace(item, target=self.named(item.target))
                      if item.kind == "node" else item for item in wanted)  # fmt: skip
        self.gate.command(SetBreakpoints(named))
        now = tuple(item.breakpoint for item in self.gate.info.breakpoints)
        if self.seen.taken:
            self.seen.taken[-1].append(SetBreakpoints(now))

    def named(self, target: str) -> str:
        return self.names[int(target[1:]) % len(self.names)] if target.startswith("#") else target

    def _give(self, command: Command) -> None:
        self.seen.taken[-1].append(command)
        try:
            self.gate.command(command)
        except UsageError:
            self.seen.taken[-1].pop()
            raise


def in_time(*works: Callable[[], Any]) -> list[Any]:
    """Run functions in parallel threads, and return their results. A hang is a failure."""
    result: list[Any] = [None] * len(works)
    raised: list[BaseException] = []

    def run(number: int) -> None:
        try:
            result[number] = works[number]()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(k,), daemon=True) for k in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    if any(thread.is_alive() for thread in threads):
        faulthandler.dump_traceback()
        raise AssertionError(f"a program hangs for {WAIT_S:g} s; see the threads on stderr")
    if raised:
        raise raised[0]
    return result


def observed(bus: Bus, work: Callable[[], Any]) -> Any:
    tracer.observe(bus)
    try:
        return in_time(work)[0]
    finally:
        tracer.unobserve()


def all_of(program: dict[str, Any]) -> tuple[Model, bytes]:
    """The model of a program, and the program's results."""
    lists = []
    for opened in (False, True):
        listening = Listening(Bus(), opened=opened)
        bus = listening.bus
        result = observed(bus, Running(program).run)
        lists.append(listening.all)
    return Model(with_kernels(*lists), []), result


@hypothesis.settings(max_examples=examples(60), deadline=None)
@hypothesis.given(program=programs, first=_sets, script=answers, entry=st.booleans())
def test_a_program_stops_where_the_model_says(
    program: dict[str, Any], first: list[Breakpoint], script: list[Any], entry: bool
) -> None:
    model, result = all_of(program)
    names = [*sorted({event.node.name for event in model.happened}), "no/such"]
    bus, seen = Bus(), Seen()
    controlled = Controlled(bus, seen, names, entry)
    controlled.replace(tuple(first))
    breakpoints_set = tuple(item.breakpoint for item in controlled.gate.info.breakpoints)

    follower = threading.Thread(target=controlled.follow, args=(script,), daemon=True)
    follower.start()
    try:
        computed = observed(bus, Running(program).run)
    finally:
        controlled.news.put(None)
        follower.join(WAIT_S)
    assert seen.faults == []
    assert computed == result, "the debugger changed what the program computes"
    model.armed = [Armed(item, on=item.enabled) for item in breakpoints_set]
    model.entry = entry
    decisions = iter(seen.taken)

    def as_given(stop: Stopped) -> Iterator[Command]:
        return iter(next(decisions, ()))

    expected = model.stops(as_given)
    assert [
        Stopped(stop.reason, stop.when, stop.node_name, stop.step, stop.breakpoint)
        for stop in seen.stops
    ] == expected
    if not model.detached:
        now = {item.breakpoint.id: (item.hits, item.breakpoint.enabled)
               for item in controlled.gate.info.breakpoints}  # fmt: skip
        assert now == {item.breakpoint.id: (item.hits, item.on) for item in model.armed}
        assert seen.said == len(model.log)
