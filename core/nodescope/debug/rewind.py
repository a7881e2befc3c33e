"""Rewinding: stepping and continuing through what was recorded, back and forth.

The same commands as on a running program, answered from the recording at once.

Invariant: reads the recording and changes nothing; says what it could not ask.
"""

from __future__ import annotations

from collections.abc import Iterable

from nodescope.debug.conditions import Expression
from nodescope.debug.looking_back import (
    Search,
    goal_of,
    met,
    met_backwards,
    with_previous,
)
from nodescope.debug.moments import History, Moment, Seen
from nodescope.debug.vocabulary import Scene
from nodescope.errors import ConditionError, UsageError
from nodescope.events import Array
from nodescope.protocol import BreakpointStatus, Command, Continue

MOST = 100_000  # executions of which conditions are asked

Found = tuple[Moment | None, str]
"""Where it came to, or None if there is nothing; and one line for a person."""


def moment_at(history: History, seq: int) -> Moment | None:
    """The last execution at or before a seq."""
    return next(iter(history.backwards(seq + 1)), None)


def moved(
    history: History,
    seq: int,
    command: Command,
    *,
    back: bool,
    breakpoints: Iterable[BreakpointStatus] = (),
) -> Found:
    """Where a command leads to from a moment of the recording.

    Args:
        history: Of the run.
        seq: Where one looks from.
        command: A stepping command, or `Continue` for the next breakpoint in that direction.
        back: Towards the beginning.
        breakpoints: For `Continue`; those that log, or are off, are passed over.

    Raises:
        UsageError: The command makes no sense here.
    """
    at = moment_at(history, seq)
    if at is None:
        return None, "nothing is recorded before this"
    if isinstance(command, Continue):
        return _search(history, at, tuple(breakpoints), back)
    goal = goal_of(command, at)
    if goal is None:
        raise UsageError(f"{type(command).__name__} does not move through a recording")
    holds = met_backwards if back else met
    moments = history.backwards(at.seq) if back else history.forwards(at.seq)
    for each in moments:
        if holds(goal, each):
            return each, f"{'Back at' if back else 'At'} {each.node.name}, step {each.step}"
    return None, f"there is no such moment {'before' if back else 'after'} this"


def _search(
    history: History, at: Moment, breakpoints: tuple[BreakpointStatus, ...], back: bool
) -> Found:
    search = Search(breakpoints, lambda expression, moment: scene(history, expression, moment))
    if not any(each.breakpoint.enabled for each in breakpoints):
        return None, "no breakpoint is set"
    places = with_previous(history.backwards(at.seq)) if back else _forwards(history, at)
    for number, (each, previous) in enumerate(places, 1):
        hit = search.hit(each, previous)
        if hit is not None:
            name = f"{each.node.name}, step {each.step}"
            return each, f"{'Back at' if back else 'At'} breakpoint {hit.id}: {name}{search}"
        if number >= MOST:
            return None, f"none of {MOST:,} executions is one that a breakpoint is about{search}"
    return None, f"no breakpoint {'before' if back else 'after'} this{search}"


def _forwards(history: History, at: Moment) -> Iterable[tuple[Moment, Moment | None]]:
    before: dict[int, Moment] = {at.thread: at}
    for each in history.forwards(at.seq):
        yield each, before.get(each.thread)
        before[each.thread] = each


def scene(history: History, expression: Expression, at: Moment) -> Scene:
    """What an expression sees at a recorded moment.

    Raises:
        ConditionError: What it asks for was not recorded; the message says why.
    """
    names = expression.names
    outputs = history.outputs(at, _nothing_live) if "value" in names else ()
    inputs = history.inputs(at, _nothing_live) if "inputs" in names else ()
    gradient = history.gradient(at, _nothing_live) if "grad" in names else None
    return Scene(
        _array(outputs[0]) if outputs else None,
        tuple(_array(each) for each in inputs),
        step=at.step,
        node=at.node.name,
        grad=lambda: None if gradient is None else _array(gradient),
    )


def _nothing_live(value: int) -> None:
    return None


def _array(seen: Seen) -> Array:
    if seen.array is None:
        raise ConditionError(f"{seen.name}: {seen.missing}")
    return seen.array
