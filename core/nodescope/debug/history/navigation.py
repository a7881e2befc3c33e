"""Navigation: stepping and continuing through the recording, in both directions.

The commands are the same as for a running program, but answered at once from the recording.

Invariant: reads the recording and changes nothing; reports conditions it could not evaluate.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from nodescope.arrays.lazy import HeldArray
from nodescope.debug.breakpoints.syntax import describe
from nodescope.debug.expressions.builtins import Scene, scene_of
from nodescope.debug.expressions.compiler import Expression
from nodescope.debug.history.breakpoint_search import (
    Search,
    goal_of,
    leads_back,
    met,
    met_backwards,
    with_previous,
)
from nodescope.debug.history.history import History, LiveArray, Moment, ValueAtMoment, nothing
from nodescope.debug.history.recorded_array import RecordedArray
from nodescope.debug.session.state import Goal
from nodescope.errors import ConditionError, UsageError
from nodescope.protocol import Breakpoint, BreakpointStatus, Command, Continue

MAX_LOOKED_AT: Final = 100_000  # limit of executions at which conditions are evaluated


class SearchResult(NamedTuple):
    """The result of a search.

    Attributes:
        moment: The moment searched for; None if not found.
        breakpoint: The breakpoint that matched, if one was searched for.
        last: The last moment examined.
        note: A description of what could not be evaluated, or ``""``.
    """

    moment: Moment | None
    breakpoint: Breakpoint | None = None
    last: Moment | None = None
    note: str = ""


def step(
    history: History, at: Moment, goal: Goal | None, *, back: bool, until: int | None = None
) -> Moment | None:
    """The first moment after ``at`` that meets a goal; without a goal, the very next.

    Args:
        history: The run's history.
        at: The starting moment, which is excluded.
        goal: The goal of a stepping command.
        back: Whether to search towards the beginning.
        until: Forward only: the last seq to examine.
    """
    holds = met_backwards if back else met
    moments = history.backwards(_end(at)) if back else history.forwards(at.seq, until)
    return next((moment for moment in moments if goal is None or holds(goal, moment)), None)


def to_breakpoint(
    history: History,
    at: Moment,
    statuses: tuple[BreakpointStatus, ...],
    *,
    back: bool,
    until: int | None = None,
    live: LiveArray = nothing,
) -> SearchResult:
    """The first moment after ``at`` at which an enabled breakpoint would stop.

    Conditions are evaluated on recorded values, and hits are counted from the beginning. Arguments
    are as for `step`.
    """
    search = Search(
        statuses, lambda expression, moment: scene(history, expression, moment, live), history
    )
    if search.counts:
        return _counted(history, at, search, back=back, until=until)
    before = with_previous(history.backwards(_end(at), leaves=True))
    places = before if back else _on(history, at, until)
    last: Moment | None = None
    for number, (moment, previous) in enumerate(places, 1):
        last = last if moment.node.is_leaf else moment
        hit = search.hit(moment, previous)
        if hit is not None:
            return SearchResult(moment, hit, last, _note(search, hit, moment))
        if number >= MAX_LOOKED_AT:
            break
    return SearchResult(None, None, last, str(search))


def _counted(
    history: History, at: Moment, search: Search, *, back: bool, until: int | None
) -> SearchResult:
    """The same if the number of hits matters: from the beginning."""
    first: Moment | None = None
    match: tuple[Moment, Breakpoint] | None = None
    before: dict[int, Moment] = {}
    note = "; hits are counted from the beginning of the recording"
    last = _end(at) - 1 if back else until
    for number, moment in enumerate(history.forwards(0, last, leaves=True), 1):
        hit = search.hit(moment, before.get(moment.thread))
        if not moment.node.is_leaf:
            first = first or moment
            before[moment.thread] = moment
        if hit is not None and (back or moment.seq > at.seq):
            match = moment, hit
            if not back:
                break
        if number >= MAX_LOOKED_AT:
            note += f", of which only the first {number:,} executions were searched"
            break
    if match is None:
        return SearchResult(None, None, first if back else None, f"{search}{note}")
    return SearchResult(*match, match[0], f"{_note(search, match[1], match[0])}{note}")


def _note(search: Search, hit: Breakpoint, at: Moment) -> str:
    replaced = search.stands_for(hit, at)
    work = "" if replaced is None else f", which computes {replaced.name}"
    return f"{work}{search}"


def _end(at: Moment) -> int:
    # A stop before a node comes after the execution given by its seq.
    return at.seq + 1 if at.when == "before" else at.seq


def _on(history: History, at: Moment, until: int | None) -> Iterable[tuple[Moment, Moment | None]]:
    # Before a node or at a leaf, another moment was the last on this thread.
    behind = (moment for moment in history.backwards(at.seq + 1) if moment.thread == at.thread)
    previous = next(behind, None)
    before = {} if previous is None else {at.thread: previous}
    for moment in history.forwards(at.seq, until, leaves=True):
        yield moment, before.get(moment.thread)
        if not moment.node.is_leaf:
            before[moment.thread] = moment


def navigate(
    history: History,
    seq: int,
    command: Command,
    *,
    back: bool,
    breakpoints: Iterable[BreakpointStatus] = (),
    stopped_at: Moment | None = None,
) -> tuple[Moment | None, str]:
    """The moment to which a command leads from a moment of the recording, and a one-line message.

    Going to the forward node of a backward node always leads back, whatever ``back`` is.

    Args:
        history: The run's history.
        seq: The starting point: the last execution at or before it; without one, the point before
            the first execution.
        command: A stepping command, or `Continue` for the next breakpoint in that direction.
        back: Whether to go towards the beginning.
        breakpoints: Breakpoints for `Continue`; those that log or are disabled are skipped.
        stopped_at: Where the program is stopped, if that is the starting point: used in place of
            ``seq``.

    Raises:
        UsageError: The command is not valid here.
    """
    leaves = isinstance(command, Continue)  # a breakpoint may be at a leaf
    at = stopped_at or next(iter(history.backwards(seq + 1, leaves=leaves)), None)
    if at is None:
        first = None if back else next(iter(history.forwards(0, leaves=leaves)), None)
        if first is None:
            return None, f"nothing is recorded {'before' if back else 'after'} this"
        at = msgspec.structs.replace(first, seq=first.seq - 1, when="before")
    back = back or leads_back(command, at)
    direction, side = ("Back at", "before") if back else ("At", "after")
    if isinstance(command, Continue):
        statuses = tuple(status for status in breakpoints if status.breakpoint.enabled)
        if not statuses:
            return None, "no breakpoints are set"
        result = to_breakpoint(history, at, statuses, back=back)
        if result.moment is None or result.breakpoint is None:
            return None, f"no breakpoint {side} this{result.note}"
        moment = result.moment
        name = f"{moment.node.name}, step {moment.step}: breakpoint {describe(result.breakpoint)}"
        return moment, f"{direction} {name}{result.note}"
    goal = goal_of(command, at)
    if goal is None:
        raise UsageError(f"{type(command).__name__} cannot move through a recording")
    stepped = step(history, at, goal, back=back)
    if stepped is None:
        return None, f"nothing to step to {side} this"
    return stepped, f"{direction} {stepped.node.name}, step {stepped.step}"


def scene(history: History, expression: Expression, at: Moment, live: LiveArray = nothing) -> Scene:
    """The variables of an expression at a moment.

    Raises:
        ConditionError: A required value is unavailable; the message says why.
    """
    names = expression.names
    outputs = history.outputs(at, live) if "value" in names else ()
    inputs = history.inputs(at, live) if "inputs" in names else ()
    gradient = history.gradient(at, live) if "grad" in names else None
    return scene_of(
        array_of(outputs[0]) if outputs else None,
        tuple(map(array_of, inputs)),
        step=at.step,
        node=at.node.name,
        elapsed=history.holds.ran_ns(at.time_ns) / 1e9,
        grad=lambda: None if gradient is None else array_of(gradient),
    )


def array_of(value: ValueAtMoment) -> HeldArray:
    """A value, as far as it is known.

    Raises:
        ConditionError: Nothing is known of the value. If only its statistics are known, the error
            is raised when its elements are read.
    """
    if value.array is not None:
        return value.array
    missing = f"{value.name} is not available: {value.missing}"
    if value.summary is None:
        raise ConditionError(missing)
    return RecordedArray(value.summary, missing)
