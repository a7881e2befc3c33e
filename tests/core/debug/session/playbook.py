"""Playbooks: feed events to a session one by one, and check its state after each.

``play(session()).give(reach(A)).expect(stopped("step", A))``
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import msgspec

from nodescope.debug.breakpoints.matching import Catalog
from nodescope.debug.breakpoints.syntax import parse_breakpoint
from nodescope.debug.session.state import (
    Announce,
    Commanded,
    ConditionResult,
    ControllersChanged,
    Effect,
    Input,
    NodeReached,
    SessionState,
    new_session,
)
from nodescope.debug.session.transition import info_of, transition
from nodescope.ir.graph import Node
from nodescope.protocol import Breakpoint, Command, SessionInfo, SetBreakpoints, When

_seq = itertools.count(1)

X = Node(1, "images", "tensor", "leaf", outputs=(1,), role="input")
W = Node(2, "hidden_1/w", "parameter", "leaf", outputs=(2,), scope="hidden_1", role="parameter")
MATMUL = Node(3, "hidden_1/matmul", "matmul", "matmul", (1, 2), outputs=(3,), scope="hidden_1")
RELU = Node(4, "hidden_1/act/relu", "relu", "activation", (3,), (), (4,), scope="hidden_1/act")
ADD = Node(5, "hidden_1/add", "add", "elementwise", (4,), outputs=(5,), scope="hidden_1")
LOG = Node(6, "loss/log", "log", "elementwise", (5,), outputs=(6,), scope="loss")
MEAN = Node(7, "mean", "mean", "reduction", (6,), outputs=(7,))
BACK = Node(8, "backward/loss/mul", "mul", "elementwise", (7,), (), (8,), scope="backward/loss")
STEP = (X, W, MATMUL, RELU, ADD, LOG, MEAN, BACK)


def session(**options: Any) -> SessionState:
    """A session with one controller, or with the options given."""
    state = new_session(**options)
    if not options:
        state, _ = transition(state, ControllersChanged(1, 0.0))
    return state


def reach(
    node: Node,
    when: When = "after",
    *,
    step: int = 1,
    thread: int = 1,
    now_s: float = 0.0,
    previous: tuple[str, int] | None = None,
    error: str = "",
    verdicts: tuple[ConditionResult, ...] = (),
) -> NodeReached:
    return NodeReached(node, when, step, next(_seq), thread, now_s, previous, verdicts, error)


def commanded(command: Command, *nodes: Node) -> Commanded:
    return Commanded(command, Catalog(nodes))


def breakpoints(*specs: str | Breakpoint, nodes: tuple[Node, ...] = STEP) -> Commanded:
    parsed = tuple(parse_breakpoint(spec) if isinstance(spec, str) else spec for spec in specs)
    return Commanded(SetBreakpoints(parsed), Catalog(nodes))


Check = Callable[[SessionState, tuple[Effect, ...]], None]


def _told(info: SessionInfo) -> SessionInfo:
    """The state without hits, which are announced only with the next change, and the version."""
    breakpoints_told = tuple(msgspec.structs.replace(item, hits=0) for item in info.breakpoints)
    return msgspec.structs.replace(info, breakpoints=breakpoints_told, version=0)


class play:
    """Feeds inputs to a session, and checks that every change visible to a page is announced."""

    def __init__(self, state: SessionState) -> None:
        self.state = state
        self.effects: tuple[Effect, ...] = ()

    def give(self, *inputs: Input | Command) -> play:
        for value in inputs:
            if isinstance(value, Command):
                value = commanded(value, *STEP)
            before = _told(info_of(self.state))
            self.state, self.effects = transition(self.state, value)
            after = info_of(self.state)
            announced = [item.info for item in self.effects if isinstance(item, Announce)]
            assert announced == ([after] if _told(after) != before else [])
        return self

    def run(self, *nodes: Node, step: int = 1) -> play:
        """Run nodes on one thread until the session stops."""
        previous: tuple[str, int] | None = None
        for node in nodes:
            self.give(reach(node, step=step, previous=previous))
            if self.state.phase == "stopped":
                break
            if not node.is_leaf:
                previous = (node.scope, step)
        return self

    def expect(self, *checks: Check) -> play:
        for check in checks:
            check(self.state, self.effects)
        return self


def stopped(reason: str, node: Node | None = None, when: When = "after", text: str = "") -> Check:
    def check(state: SessionState, effects: tuple[Effect, ...]) -> None:
        assert state.phase == "stopped"
        assert state.stop is not None
        assert state.stop.reason == reason
        assert node is None or state.stop.node_name == node.name
        assert state.stop.when == when
        assert text in state.stop.text

    return check


def running(state: SessionState, effects: tuple[Effect, ...]) -> None:
    assert state.phase == "running"
    assert state.stop is None


def effect(kind: type[Effect], text: str = "") -> Check:
    def check(state: SessionState, effects: tuple[Effect, ...]) -> None:
        results = [item for item in effects if isinstance(item, kind)]
        assert results, f"no {kind.__name__} in {effects}"
        assert text in str(results[0])

    return check
