"""Looking back: the meaning of stepping and breakpoints at recorded moments.

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
    """Asks breakpoints of recorded moments, and remembers what could not be asked.

    Those that only log stop nothing here either. One that is to stop once stops wherever it would:
    to look changes nothing, so it is not used up.

    Args:
        statuses: The breakpoints.
        scene: What a condition sees at a moment.
        history: Of the run; it tells which kernels do the work of nodes that do not run.
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
        """Whether a breakpoint asks how often it has held: that goes by all moments in order."""
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
        """The node that a breakpoint is about and whose work is done at a moment by another one."""
        if covers(breakpoint, at.node):
            return None
        merged = self._compilations.stands_for(at.node)
        return next((node for node in merged if covers(breakpoint, node)), None) or self._inside(
            breakpoint, at
        )

    def _inside(self, breakpoint: Breakpoint, at: Moment) -> Node | None:
        """The node within a kernel, if it was not run and recorded by itself besides."""
        if breakpoint.kind == "scope":
            return None  # to enter a scope is seen at its kernels as well
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
    """Each of moments that go back in time, with the one before it on its thread, leaves apart."""
    waiting: deque[Moment] = deque()
    before: dict[int, Moment] = {}  # by seq of the later one
    latest: dict[int, int] = {}  # by thread, the seq that waits for the one before
    resolved: set[int] = set()
    for moment in moments:
        waiting.append(moment)
        if moment.node.is_leaf:
            resolved.add(moment.seq)  # whoever asks about leaves does not ask for that
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
    """The goal that a stepping command searches the recording for; None for other commands."""
    match command:
        case RunTo(node=name, by_end=by_end):
            return Goal("run_to", node=name, by_end=by_end)
        case StepTwin():
            return twin_goal(at.node)
    node = at.node
    return step_goal(command, name=node.name, scope=node.scope, step=at.step, thread=at.thread)


def leads_back(command: Command, at: Moment) -> bool:
    """Whether a command goes towards the beginning from here, whichever way was asked for."""
    return isinstance(command, StepTwin) and at.node.forward is not None


def met(goal: Goal, at: Moment) -> bool:
    """Whether a step forward ends at a moment."""
    return meets(goal, at.node, "after", at.step, at.thread)


def met_backwards(goal: Goal, at: Moment) -> bool:
    """Whether a step backward does."""
    return at.step < goal.step if goal.kind == "step" else met(goal, at)
