"""The session under random programs and commands, compared with a model of the stops."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from nodescope.debug.breakpoints.matching import Catalog, covers
from nodescope.debug.session.state import (
    Announce,
    Commanded,
    ConditionResult,
    ControllersChanged,
    Hold,
    Input,
    Interrupted,
    LinkChanged,
    Log,
    NodeReached,
    Release,
    SessionState,
    Tick,
    new_session,
)
from nodescope.debug.session.transition import candidates, info_of, may_stop, transition
from nodescope.errors import NodescopeError
from nodescope.ir.graph import Node
from nodescope.protocol import (
    Breakpoint,
    Command,
    Continue,
    Detach,
    NextStep,
    Pause,
    RunTo,
    SetBreakpoints,
    StepIn,
    StepNode,
    StepOut,
    StepOver,
)
from tests.depth import examples

SCOPES = ("", "a", "a/b", "c", "backward/a")
OPS = ("exp", "log", "parameter")
NODES = tuple(
    Node(number, f"{scope}/{op}".lstrip("/"), op, "elementwise", scope=scope,
         phase="backward" if scope.startswith("backward") else "forward")
    for number, (scope, op) in enumerate(((s, o) for s in SCOPES for o in OPS), 1)
)  # fmt: skip
CATALOG = Catalog(NODES)

breakpoints = st.builds(
    Breakpoint,
    kind=st.sampled_from(["node", "op", "scope", "glob", "regex"]),
    target=st.sampled_from(["a/exp", "exp", "log", "a", "c", "*/exp", ".*/log", "no/such"]),
    id=st.integers(0, 4),
    when=st.sampled_from(["before", "after"]),
    condition=st.sampled_from(["", "step > 1"]),
    enabled=st.booleans(),
    phase=st.sampled_from(["", "", "backward", "forward"]),
    first_step=st.integers(0, 2),
    last_step=st.sampled_from([None, None, 2, 4]),
    hits=st.sampled_from(["", "", "== 2", ">= 2", "% 2"]),
    log=st.sampled_from(["", "", "at {node}"]),
    once=st.booleans(),
)
commands = st.one_of(
    st.sampled_from([
        Continue(), Pause(), StepNode(), StepIn(), StepOver(), StepOver(scope="a"), StepOut(),
        NextStep(), RunTo("a/exp"), RunTo("no/such"),
    ]),
    st.builds(SetBreakpoints, st.lists(breakpoints, max_size=4).map(tuple)),
)  # fmt: skip


def told(state: SessionState) -> tuple[Any, ...]:
    """The state that is announced immediately: everything except hits."""
    breakpoints_told = [
        (item.breakpoint, item.verified, item.message) for item in state.breakpoints
    ]
    return state.phase, state.stop, breakpoints_told, state.controllers > 0


def holds(breakpoint: Breakpoint, node: Node, when: str, step: int) -> bool:
    """Whether a breakpoint that does not wait for the entry into a scope counts here."""
    return (
        breakpoint.enabled
        and breakpoint.when == when
        and breakpoint.kind != "scope"
        and covers(breakpoint, node)
        and breakpoint.phase in ("", node.phase)
        and breakpoint.first_step <= step <= (breakpoint.last_step or step)
    )


def counted(wanted: str, hits: int) -> bool:
    match wanted.split():
        case ["==", count]:
            return hits == int(count)
        case [">=", count]:
            return hits >= int(count)
        case ["%", count]:
            return hits % int(count) == 0
    return True


class Sessions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.state = new_session(stop_on_entry=True)
        self.now_s = 0.0
        self.step = 1
        self.seq = 0
        self.held = False
        self.logged: list[str] = []

    def give(self, event: Input) -> None:
        before = self.state
        try:
            self.state, effects = transition(before, event)
        except NodescopeError:
            return
        for effect in effects:
            if isinstance(effect, Hold):
                assert not self.held
                self.held = True
            if isinstance(effect, Release):
                assert self.held
                self.held = False
        changed = told(self.state) != told(before)
        announced = [effect.info for effect in effects if isinstance(effect, Announce)]
        assert announced == ([info_of(self.state)] if changed else [])
        assert self.state.version == before.version + changed
        self.logged = [effect.text for effect in effects if isinstance(effect, Log)]

    @rule(
        node=st.sampled_from(NODES),
        true=st.booleans(),
        thread=st.integers(1, 2),
        when=st.sampled_from(["before", "after"]),
        place=st.sampled_from(SCOPES),
    )
    def reach(self, node: Node, true: bool, thread: int, when: str, place: str) -> None:
        if self.state.phase == "stopped":
            return  # The gate holds every thread, so none reaches a node.
        self.seq += 1
        previous = (place, self.step)
        before = self.state
        reached = NodeReached(node, when, self.step, self.seq, thread, self.now_s, previous)
        verdicts = tuple(
            ConditionResult(
                candidate.id, true=true or not candidate.condition, text=f"log {candidate.id}"
            )
            for candidate in candidates(before, reached)
            if candidate.condition or candidate.log
        )
        self.give(msgspec.structs.replace(reached, verdicts=verdicts))
        if before.phase != "running" or not before.controllers:
            return
        held_threads = [
            status
            for status in before.breakpoints
            if holds(status.breakpoint, node, when, self.step)
            and (true or not status.breakpoint.condition)
        ]
        hits = {item.breakpoint.id: item.hits for item in self.state.breakpoints}
        counting = [item for item in held_threads if counted(item.breakpoint.hits, item.hits + 1)]
        for status in held_threads:
            assert hits[status.breakpoint.id] == status.hits + 1
        for status in counting:
            assert not status.breakpoint.log or f"log {status.breakpoint.id}" in self.logged
            after = next(
                item.breakpoint
                for item in self.state.breakpoints
                if item.breakpoint.id == status.breakpoint.id
            )
            assert after.enabled != status.breakpoint.once
        if any(not item.breakpoint.log for item in counting):
            assert self.state.phase == "stopped", "a stop was missed"
            assert self.state.stop.reason == "breakpoint"
        if self.state.phase == "stopped":
            assert before.phase == "running"
            assert may_stop(before)
            assert self.state.stop.seq == self.seq

    @rule()
    def next_step(self) -> None:
        self.step += 1

    @rule(command=commands)
    def command(self, command: Command) -> None:
        self.give(Commanded(command, CATALOG))

    @rule(count=st.integers(0, 2))
    def controllers(self, count: int) -> None:
        self.give(ControllersChanged(count, self.now_s))

    @rule(up=st.booleans())
    def link(self, up: bool) -> None:
        self.give(LinkChanged(up, self.now_s))

    @rule(seconds=st.floats(0, 20))
    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.give(Tick(self.now_s))
        if self.state.phase == "stopped" and seconds >= 10:
            assert self.state.controllers or self.state.awaiting, "nobody is coming back"

    @rule()
    def interrupt(self) -> None:
        self.give(Interrupted())
        assert self.state.phase != "stopped"

    @rule(really=st.integers(0, 9))
    def detach(self, really: int) -> None:
        if not really:
            self.give(Commanded(Detach(), CATALOG))
            assert self.state.phase == "detached"
            assert not self.held

    @invariant()
    def stops_and_holds_agree(self) -> None:
        assert self.held == (self.state.phase == "stopped") == (self.state.stop is not None)
        ids = [item.breakpoint.id for item in self.state.breakpoints]
        assert len(set(ids)) == len(ids)
        assert all(0 < id_ < self.state.next_id for id_ in ids)


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
