"""Looking back: what stepping and breakpoints mean for moments that were recorded.

Invariant: pure but for reading values through the scene that is given; what cannot be asked of the
recording is counted, never taken for false in silence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from nodescope.debug.breakpoints import condition_of, counts, covers, is_leaf, of_gradients, within
from nodescope.debug.conditions import Expression
from nodescope.debug.moments import History, Moment
from nodescope.debug.state import Goal
from nodescope.debug.stepping import meets, twin_goal
from nodescope.debug.vocabulary import Scene
from nodescope.errors import ConditionError, UsageError
from nodescope.ir.graph import Node
from nodescope.ir.scopes import is_within
from nodescope.protocol import (
    Breakpoint,
    BreakpointStatus,
    Command,
    NextStep,
    RunTo,
    StepIn,
    StepNode,
    StepOut,
    StepOver,
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
            each.breakpoint
            for each in statuses
            if each.breakpoint.enabled and not each.breakpoint.log.strip()
        )
        self._unasked: dict[int, tuple[int, str]] = {}

    @property
    def counts(self) -> bool:
        """Whether a breakpoint asks how often it has held: that goes by all moments in order."""
        return any(each.hits.strip() for each in self._wanted)

    def hit(self, at: Moment, previous: Moment | None) -> Breakpoint | None:
        """The first breakpoint that would stop at a moment."""
        found: Breakpoint | None = None
        for each in self._wanted:
            if (found is None or each.hits.strip()) and self._holds(each, at, previous):
                hits = self._hits[each.id] = self._hits.get(each.id, 0) + 1
                if found is None and counts(each, hits):
                    found = each
        return found

    def stands_for(self, breakpoint: Breakpoint, at: Moment) -> Node | None:
        """The node that a breakpoint is about and whose work is done at a moment by another one."""
        if covers(breakpoint, at.node):
            return None
        whole = self._compilations.stands_for(at.node)
        return next((each for each in whole if covers(breakpoint, each)), None) or self._inside(
            breakpoint, at
        )

    def _inside(self, breakpoint: Breakpoint, at: Moment) -> Node | None:
        """The node within a kernel, if it was not run and recorded by itself besides."""
        if breakpoint.kind == "scope":
            return None  # to enter a scope is seen at its kernels as well
        for each in self._compilations.inside(at.node):
            if covers(breakpoint, each):
                number = self._history.names.get(each.name)
                own = None if number is None else self._history.last_of(number, at.seq)
                before = self._history.last_of(at.node.id, at.seq - 1)
                if own is None or (before is not None and own.seq < before.seq):
                    return each
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
                    f"the value of {inner.name} inside {at.node.name} is not recorded",
                    hint="open the kernel when the program runs: --open",
                )
            return condition(self._scene(condition, at))
        except (ConditionError, UsageError) as error:
            count, _ = self._unasked.get(breakpoint.id, (0, ""))
            self._unasked[breakpoint.id] = (count + 1, str(error))
            return False

    def __str__(self) -> str:
        said = (
            f"; breakpoint {number} could not be evaluated {count} times: {why}"
            for number, (count, why) in self._unasked.items()
        )
        return "".join(said)


def with_previous(moments: Iterable[Moment]) -> Iterable[tuple[Moment, Moment | None]]:
    """Each of moments that go back in time, with the one before it on its thread, leaves apart."""
    waiting: deque[Moment] = deque()
    before: dict[int, Moment] = {}  # by seq of the later one
    latest: dict[int, int] = {}  # by thread, the seq that waits for the one before
    known: set[int] = set()
    for each in moments:
        waiting.append(each)
        if is_leaf(each.node):
            known.add(each.seq)  # whoever asks about leaves does not ask for that
        else:
            if (later := latest.get(each.thread)) is not None:
                before[later] = each
                known.add(later)
            latest[each.thread] = each.seq
        while waiting and waiting[0].seq in known:
            first = waiting.popleft()
            known.discard(first.seq)
            yield first, before.pop(first.seq, None)
    for each in waiting:
        yield each, before.get(each.seq)


def goal_of(command: Command, at: Moment) -> Goal | None:
    """What a stepping command looks for in the recording; None for other commands."""
    match command:
        case StepNode():
            return Goal("step_node", thread=at.thread)
        case StepIn(scope=str() as scope) if scope:
            return Goal("inside", scope=scope, thread=at.thread)
        case StepIn():
            return Goal("step_in", scope=at.node.scope, thread=at.thread)
        case StepOver(scope=str() as scope) if scope:
            return Goal("outside", scope=scope, thread=at.thread)
        case StepOver():
            return Goal("shallow", scope=at.node.scope, thread=at.thread)
        case StepOut():
            if not at.node.scope:
                raise UsageError(f"{at.node.name} is in no scope to step out of")
            return Goal("outside", scope=at.node.scope, thread=at.thread)
        case NextStep():
            return Goal("step", step=at.step)
        case RunTo(node=name):
            return Goal("run_to", node=name)
        case StepTwin():
            return twin_goal(at.node)
    return None


def leads_back(command: Command, at: Moment) -> bool:
    """Whether a command goes towards the beginning from here, whichever way was asked for."""
    return isinstance(command, StepTwin) and at.node.forward is not None


def met(goal: Goal, at: Moment) -> bool:
    """Whether a step forward ends at a moment."""
    return meets(goal, at.node, "after", at.step, at.thread)


def met_backwards(goal: Goal, at: Moment) -> bool:
    """Whether a step backward does."""
    return at.step < goal.step if goal.kind == "step" else met(goal, at)
