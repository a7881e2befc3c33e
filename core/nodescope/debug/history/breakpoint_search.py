"""Breakpoint search: the meaning of stepping and breakpoints at recorded moments.

Invariant: pure except for reading values through the given scene; a condition that cannot be
evaluated on the recording is counted, never silently taken for false.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from nodescope.debug.breakpoints.matching import (
    condition_of,
    counts,
    covers,
    of_gradients,
    within,
)
from nodescope.debug.breakpoints.syntax import describe
from nodescope.debug.expressions.builtins import Scene
from nodescope.debug.expressions.compiler import Expression
from nodescope.debug.history.history import History, Moment
from nodescope.debug.session.state import Goal
from nodescope.debug.session.step_targets import meets, step_goal, twin_goal
from nodescope.errors import ConditionError, UsageError
from nodescope.ir.graph import Node
from nodescope.ir.scopes import is_within
from nodescope.protocol import (
    Breakpoint,
    BreakpointStatus,
    Command,
    RunTo,
    StepTwin,
)

SceneOf = Callable[[Expression, Moment], Scene]


class Search:
    """Evaluates breakpoints at recorded moments, and remembers those that could not be evaluated.

    Breakpoints that only log do not stop here either. A one-time breakpoint stops at every match,
    because looking back does not use it up.

    Args:
        statuses: The breakpoints.
        scene: Returns the scene of a condition at a moment.
        history: The run's history, which knows the kernels that do the work of nodes that do not
            run.
    """

    def __init__(
        self, statuses: tuple[BreakpointStatus, ...], scene: SceneOf, history: History
    ) -> None:
        self._scene, self._history = scene, history
        self._compilations = history.compilations
        self._hits: dict[int, int] = {}
        self._wanted = tuple(
            status.breakpoint
            for status in statuses
            if status.breakpoint.enabled and not status.breakpoint.log.strip()
        )
        self._unasked: dict[str, tuple[int, str]] = {}

    @property
    def counts(self) -> bool:
        """Whether a breakpoint depends on its number of hits, which requires all moments in
        order.
        """
        return any(breakpoint.hits.strip() for breakpoint in self._wanted)

    def hit(self, at: Moment, previous: Moment | None) -> Breakpoint | None:
        """The first breakpoint that would stop at a moment."""
        hit: Breakpoint | None = None
        for breakpoint in self._wanted:
            if (hit is None or breakpoint.hits.strip()) and self._holds(breakpoint, at, previous):
                hits = self._hits[breakpoint.id] = self._hits.get(breakpoint.id, 0) + 1
                if hit is None and counts(breakpoint, hits):
                    hit = breakpoint
        return hit

    def stands_for(self, breakpoint: Breakpoint, at: Moment) -> Node | None:
        """The node that a breakpoint covers and whose work another node does at a moment."""
        if covers(breakpoint, at.node):
            return None
        merged = self._compilations.stands_for(at.node)
        return next((node for node in merged if covers(breakpoint, node)), None) or self._inside(
            breakpoint, at
        )

    def _inside(self, breakpoint: Breakpoint, at: Moment) -> Node | None:
        """The node within a kernel, if it was not run and recorded separately."""
        if breakpoint.kind == "scope":
            return None  # entering a scope is noticed at its kernels as well
        for node in self._compilations.inside(at.node):
            if covers(breakpoint, node):
                number = self._history.names.get(node.name)
                separate = None if number is None else self._history.last_of(number, at.seq)
                before = self._history.last_of(at.node.id, at.seq - 1)
                if separate is None or (before is not None and separate.seq < before.seq):
                    return node
        return None

    def _holds(self, breakpoint: Breakpoint, at: Moment, previous: Moment | None) -> bool:
        if not within(breakpoint, at.step):
            return False
        if not covers(breakpoint, at.node) and self.stands_for(breakpoint, at) is None:
            return False
        if breakpoint.kind == "scope" and not of_gradients(breakpoint):
            inside = previous is not None and previous.step == at.step
            if (
                inside
                and previous is not None
                and is_within(previous.node.scope, breakpoint.target)
            ):
                return False
        condition = condition_of(breakpoint)
        if condition is None:
            return True
        try:
            inner = None if covers(breakpoint, at.node) else self._inside(breakpoint, at)
            if inner is not None and not condition.names.isdisjoint(("value", "inputs", "grad")):
                raise ConditionError(
                    f"the value of {inner.name} inside {at.node.name} was not recorded",
                    hint="open the kernel while the program runs: --open",
                )
            return condition(self._scene(condition, at))
        except (ConditionError, UsageError) as error:
            name = describe(breakpoint)
            count, _ = self._unasked.get(name, (0, ""))
            self._unasked[name] = (count + 1, str(error))
            return False

    def __str__(self) -> str:
        notes = (
            f"; breakpoint {name} could not be evaluated {count} time{'s'[: count != 1]}: {reason}"
            for name, (count, reason) in self._unasked.items()
        )
        return "".join(notes)


def with_previous(moments: Iterable[Moment]) -> Iterable[tuple[Moment, Moment | None]]:
    """Moments in reverse order, each with the previous one on its thread, excluding leaves."""
    waiting: deque[Moment] = deque()
    before: dict[int, Moment] = {}  # by seq of the later moment
    latest: dict[int, int] = {}  # by thread, the seq that waits for its predecessor
    resolved: set[int] = set()
    for moment in moments:
        waiting.append(moment)
        if moment.node.is_leaf:
            resolved.add(moment.seq)  # for leaves, it does not matter
        else:
            if (later := latest.get(moment.thread)) is not None:
                before[later] = moment
                resolved.add(later)
            latest[moment.thread] = moment.seq
        while waiting and waiting[0].seq in resolved:
            first = waiting.popleft()
            resolved.discard(first.seq)
            yield first, before.pop(first.seq, None)
    for moment in waiting:
        yield moment, before.get(moment.seq)


def goal_of(command: Command, at: Moment) -> Goal | None:
    """The goal for which a stepping command searches the recording; None for other commands."""
    match command:
        case RunTo(node=name, by_end=by_end):
            return Goal("run_to", node=name, by_end=by_end)
        case StepTwin():
            return twin_goal(at.node)
    node = at.node
    return step_goal(command, name=node.name, scope=node.scope, step=at.step, thread=at.thread)


def leads_back(command: Command, at: Moment) -> bool:
    """Whether a command leads towards the beginning, whichever direction was requested."""
    return isinstance(command, StepTwin) and at.node.forward is not None


def met(goal: Goal, at: Moment) -> bool:
    """Whether a step forward ends at a moment."""
    return meets(goal, at.node, "after", at.step, at.thread)


def met_backwards(goal: Goal, at: Moment) -> bool:
    """Whether a step backward ends at a moment."""
    return at.step < goal.step if goal.kind == "step" else met(goal, at)
