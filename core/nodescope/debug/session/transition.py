"""Session: all decisions of the debugger, as one pure function `transition`.

The gate reports events (a node was reached, a command arrived, the page disconnected), and receives
the new state and the effects to carry out. Evaluating conditions and reading stacks is the gate's
task: the results arrive as inputs.

Invariant: no IO, no clock, no threads, no arrays. An invalid input raises a `NodescopeError` and
changes nothing. The cursor is the execution that has just finished (before the first node: the one
that is about to run).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import msgspec

from nodescope.debug.breakpoints.breakpoint_set import (
    mark_compiled,
    mark_unmatched,
    mark_verified,
    replace_breakpoints,
)
from nodescope.debug.breakpoints.matching import (
    Catalog,
    counts,
    covers,
    of_gradients,
    within,
)
from nodescope.debug.breakpoints.syntax import describe
from nodescope.debug.session.state import (
    Announce,
    BreakHere,
    Commanded,
    ControllersChanged,
    Edited,
    Effect,
    Goal,
    GraphKnown,
    GraphSettled,
    Hold,
    Input,
    Interrupted,
    LinkChanged,
    Log,
    NodeReached,
    ProgramFinished,
    Raised,
    Release,
    Result,
    SessionState,
    StackRead,
    Tick,
    WatchesChanged,
)
from nodescope.debug.session.step_targets import (
    alone_of,
    goal_reason,
    meets,
    seen_from,
    step_goal,
    twin_goal,
)
from nodescope.errors import UsageError
from nodescope.events import Demand, Opens
from nodescope.ir.demands import StopsAt
from nodescope.ir.scopes import is_within
from nodescope.protocol import (
    CONTROLLER_GRACE_S,
    Breakpoint,
    BreakpointStatus,
    Command,
    Continue,
    Detach,
    Pause,
    RunTo,
    SessionInfo,
    SessionPhase,
    SetBreakpoints,
    SetExceptions,
    SetValue,
    SetWatches,
    StepTwin,
    Stop,
    StopReason,
)


def transition(state: SessionState, event: Input) -> Result:
    """Process one input.

    Raises:
        UsageError: The command does not fit the state, such as a step while running.
        BreakpointError, ConditionError: A breakpoint is invalid.
    """
    after, effects = _take(state, event)
    if after is not state and _visible(after) != _visible(state):
        after = msgspec.structs.replace(after, version=state.version + 1)
        effects = (*effects, Announce(info_of(after)))
    return after, effects


def info_of(state: SessionState) -> SessionInfo:
    """The state in the form shown to controllers."""
    return SessionInfo(
        phase=state.phase,
        version=state.version,
        stop=state.stop,
        breakpoints=state.breakpoints,
        attended=state.controllers > 0,
        watches=state.watches,
    )


def may_stop(state: SessionState) -> bool:
    """Whether a controller is present, was so a moment ago, or is sure to come."""
    if state.phase in ("finished", "detached"):
        return False
    return state.controllers > 0 or state.awaiting or state.lost_at is not None


def demand_of(
    state: SessionState, active: Sequence[Breakpoint], gradients: Sequence[Breakpoint],
    opened: tuple[Opens, ...], ops: StopsAt,
) -> Demand:  # fmt: skip
    """What must be emitted for the program to stop where it has to.

    Args:
        state: The current state.
        active: Its armed breakpoints.
        gradients: Those of them that stop at gradients.
        opened: Compiled kernels to be run node by node.
        ops: Where the breakpoints stop.
    """
    if not may_stop(state):
        return Demand(gradients=bool(gradients), opened=opened)
    goal = state.goal
    entry = goal is not None and goal.kind == "entry"
    starts = entry or any(breakpoint.when == "before" for breakpoint in active)
    stops = "a breakpoint is set" if active else "the program is about to stop" if goal else ""
    return Demand(
        starts, bool(gradients), opened=opened, stops=stops,
        stops_at=StopsAt(
            None if goal is not None and goal.kind in ("entry", "pause") else ops.starts,
            None if goal is not None and not entry else ops.ends,
            state.stop_on_exception,
        ),
    )  # fmt: skip


def may_go(state: SessionState, thread: int) -> bool:
    """Whether a thread may continue from its node."""
    return state.phase != "stopped" and (not state.alone or thread in state.alone)


def armed(state: SessionState) -> tuple[Breakpoint, ...]:
    """The breakpoints that can stop the program now."""
    if not may_stop(state):
        return ()
    return tuple(status.breakpoint for status in state.breakpoints if status.breakpoint.enabled)


def candidates(state: SessionState, at: NodeReached) -> tuple[Breakpoint, ...]:
    """The armed breakpoints that stop here if their conditions hold."""
    gradient = at.gradient_of
    covered = (at.node, *at.stands_for) if gradient is None else (gradient,)
    return tuple(
        breakpoint
        for breakpoint in armed(state)
        if breakpoint.when == at.when
        and within(breakpoint, at.step)
        and of_gradients(breakpoint) == (gradient is not None)
        and any(covers(breakpoint, node) for node in covered)
        and (breakpoint.kind != "scope" or gradient is not None or _enters(breakpoint.target, at))
    )


def _enters(scope: str, at: NodeReached) -> bool:
    previous = at.previous
    return previous is None or previous[1] != at.step or not is_within(previous[0], scope)


def _visible(state: SessionState) -> tuple[object, ...]:
    # Hits of log breakpoints may come by the thousand: they are reported with the next change.
    breakpoints = tuple(
        (status.breakpoint, status.verified, status.message) for status in state.breakpoints
    )
    watches = tuple(
        (watch.text, watch.enabled, watch.message, _announced_hits(watch.hits))
        for watch in state.watches
    )
    return (state.phase, state.stop, breakpoints, state.controllers > 0, watches)


def _announced_hits(hits: int) -> tuple[int, int]:
    """A number that changes with each of the first hits, then whenever their number doubles."""
    return min(hits, 8), hits.bit_length()


def _take(state: SessionState, event: Input) -> Result:
    match event:
        case NodeReached():
            return _reach(_expire(state, event.now_s), event)
        case Raised():
            return _raised(state, event)
        case Commanded(command=command, catalog=catalog, held_scopes=held_scopes):
            return _command(state, command, catalog, held_scopes)
        case GraphKnown(nodes=nodes, became=became):
            statuses = mark_compiled(mark_verified(state.breakpoints, nodes), became)
            return msgspec.structs.replace(state, breakpoints=statuses), ()
        case GraphSettled(catalog=catalog):
            statuses, messages = mark_unmatched(state.breakpoints, catalog)
            after = msgspec.structs.replace(state, breakpoints=statuses)
            return after, tuple(Log(message) for message in messages)
        case StackRead(stack=stack):
            if state.stop is None:
                return state, ()
            stop = msgspec.structs.replace(state.stop, stack=stack)
            return msgspec.structs.replace(state, stop=stop), ()
        case Edited(how=how, note=note):
            if state.stop is None:
                return state, ()
            stop = msgspec.structs.replace(state.stop, edits=(*state.stop.edits, how))
            message = f"edited: {how}; {note}" if note else f"edited: {how}"
            return msgspec.structs.replace(state, stop=stop), (Log(message, stop.step),)
        case BreakHere(text=text, reason=reason, watch=watch):
            if state.phase != "running" or not may_stop(state):
                return state, ()
            goal = Goal("pause", text=text, reason=reason, watch=watch)
            return msgspec.structs.replace(state, goal=goal), ()
        case WatchesChanged(watches=watches):
            return msgspec.structs.replace(state, watches=watches), ()
        case ControllersChanged(count=count, now_s=now_s):
            return _attend(state, count, now_s), ()
        case LinkChanged(up=up, now_s=now_s):
            if up:
                expects = state.expects_controller and not state.ever_attended
                return msgspec.structs.replace(state, awaiting=expects), ()
            return _attend(state, 0, now_s, link_lost=True), ()
        case Tick(now_s=now_s, ended=ended):
            return _tick(state, now_s, ended)
        case Interrupted():
            return _resume(state) if state.phase == "stopped" else (state, ())
        case ProgramFinished():
            return _released(state, "finished")


# ---------------------------------------------------------------- nodes


def _reach(state: SessionState, at: NodeReached) -> Result:
    if state.phase != "running" or not may_stop(state):
        return state, ()
    effects: list[Effect] = []
    state = _disable_failed(state, at, effects)
    state, hits = _count(state, at, effects)
    name = at.node.name
    if at.error and state.stop_on_exception:
        reason: StopReason = "exception"
        text = f"{name} raises {at.error}"
    elif at.error:
        return state, tuple(effects)
    elif hits:
        reason, first = "breakpoint", hits[0]
        text = f"Breakpoint {first.id}: {_why(first, at)}"
    elif (
        state.goal is not None
        and at.gradient_of is None
        and meets(state.goal, at.node, at.when, at.step, at.thread)
    ):
        reason, text = goal_reason(state.goal, name, at.when)
    else:
        return state, tuple(effects)
    stop = Stop(
        reason=reason,
        node=at.node.id,
        node_name=name,
        scope=at.node.scope,
        when=at.when,
        step=at.step,
        seq=at.seq,
        thread=at.thread,
        breakpoint=hits[0].id if reason == "breakpoint" else 0,
        text=text,
        watch=state.goal.watch if reason == "watch" and state.goal is not None else 0,
    )
    after = msgspec.structs.replace(state, phase="stopped", stop=stop, goal=None, alone=())
    return after, (*effects, Hold(stop))


def _raised(state: SessionState, at: Raised) -> Result:
    if state.phase != "running" or not may_stop(state) or not state.stop_on_exception:
        return state, ()
    where = f" at {os.path.basename(at.stack[0].file)}:{at.stack[0].line}" if at.stack else ""
    ran = f"{at.node.name} ran last"
    if at.in_step > at.step:
        where += f" in step {at.in_step} or after it, where nothing was observed"
        ran += f", in step {at.step}"
    stop = Stop(
        reason="exception",
        node=at.node.id,
        node_name=at.node.name,
        scope=at.node.scope,
        when="after",
        step=at.step,
        seq=at.seq,
        thread=at.thread,
        text=f"The program raises {at.error}{where}; {ran}",
        error=at.error,
    )
    after = msgspec.structs.replace(state, phase="stopped", stop=stop, goal=None, alone=())
    return after, (Hold(stop),)


def _why(breakpoint: Breakpoint, at: NodeReached) -> str:
    """A description of the hit."""
    name = at.node.name
    if at.gradient_of is not None:
        name = f"gradient of {at.gradient_of.name}"
    elif not covers(breakpoint, at.node):
        merged = next(node for node in at.stands_for if covers(breakpoint, node))
        name = f"{name}, which computes {merged.name}"
    if breakpoint.condition:
        return f"{breakpoint.condition} on {name}"
    return name if breakpoint.kind == "node" else f"{name} ({breakpoint.kind}:{breakpoint.target})"


def _count(
    state: SessionState, at: NodeReached, effects: list[Effect]
) -> tuple[SessionState, list[Breakpoint]]:
    """Count hits here, and log for log breakpoints; return the breakpoints that stop the
    program.
    """
    verdicts = {verdict.breakpoint: verdict for verdict in at.verdicts}
    held_breakpoints: set[int] = set()
    for breakpoint in candidates(state, at):
        verdict = verdicts.get(breakpoint.id)
        if (verdict is None and not breakpoint.condition.strip()) or (
            verdict is not None and verdict.true and not verdict.error
        ):
            held_breakpoints.add(breakpoint.id)
    if not held_breakpoints:
        return state, []
    stops: list[Breakpoint] = []
    statuses: list[BreakpointStatus] = []
    for status in state.breakpoints:
        breakpoint = status.breakpoint
        if breakpoint.id in held_breakpoints:
            hits, message = status.hits + 1, status.message
            if counts(breakpoint, hits) and not at.error:
                if breakpoint.log.strip():
                    text = (
                        verdicts[breakpoint.id].text
                        if breakpoint.id in verdicts
                        else breakpoint.log
                    )
                    effects.append(Log(text, at.step))
                else:
                    stops.append(breakpoint)
                if breakpoint.once:
                    breakpoint = msgspec.structs.replace(breakpoint, enabled=False)
                    message = "done: it was set to stop once"
            status = msgspec.structs.replace(
                status, breakpoint=breakpoint, hits=hits, verified=True, message=message
            )
        statuses.append(status)
    return msgspec.structs.replace(state, breakpoints=tuple(statuses)), stops


def _disable_failed(state: SessionState, at: NodeReached, effects: list[Effect]) -> SessionState:
    """Disable breakpoints whose conditions cannot be evaluated here, with a message."""
    errors = {verdict.breakpoint: verdict.error for verdict in at.verdicts if verdict.error}
    if not errors:
        return state
    statuses = []
    for status in state.breakpoints:
        error = errors.get(status.breakpoint.id)
        if error is not None and status.breakpoint.enabled:
            message = f"disabled at {at.node.name}: {error}"
            disabled = msgspec.structs.replace(status.breakpoint, enabled=False)
            status = msgspec.structs.replace(status, breakpoint=disabled, message=message)
            effects.append(
                Log(f"breakpoint {disabled.id} ({describe(disabled)}) {message}", at.step)
            )
        statuses.append(status)
    return msgspec.structs.replace(state, breakpoints=tuple(statuses))


# ---------------------------------------------------------------- commands


def _command(
    state: SessionState, command: Command, catalog: Catalog, held_scopes: Mapping[int, str]
) -> Result:
    if isinstance(command, SetBreakpoints):
        statuses, next_id = replace_breakpoints(
            state.breakpoints, command.breakpoints, state.next_id, catalog
        )
        return msgspec.structs.replace(state, breakpoints=statuses, next_id=next_id), ()
    if isinstance(command, SetExceptions):
        return msgspec.structs.replace(state, stop_on_exception=command.stop), ()
    if isinstance(command, SetWatches):
        raise UsageError("this run has no watches", hint="start it with nodescope run")
    if state.phase == "finished":
        raise UsageError("the program has ended")
    if isinstance(command, Detach):
        return _released(state, "detached")
    if state.phase == "detached":
        raise UsageError("the debugger is detached from this run", hint="start the program again")
    stop = state.stop
    if isinstance(command, Pause):
        if stop is not None:
            return state, ()
        if state.alone and state.goal == Goal("pause"):
            # Requested again: the thread that runs alone reaches no node, so the others may run.
            return _released(state, "running", state.goal)
        return msgspec.structs.replace(state, goal=Goal("pause")), ()
    if isinstance(command, Continue):
        if stop is not None:
            return _resume(state, alone=alone_of(command, stop))
        if not state.alone:
            # The user does not intend to continue past the entry stop that is still to come.
            return state, ()
        released = (command.thread,) if command.alone and command.thread is not None else ()
        return _released(
            state, "running", state.goal, (*state.alone, *released) if released else ()
        )
    if isinstance(command, RunTo):
        goal = Goal("run_to", node=command.node, by_end=command.by_end)
        target = Breakpoint(kind="node", target=command.node)
        matched = not catalog.nodes or catalog.matches(target)
        text = f"run to: {catalog.near(target)}; it may still run"
        effects: tuple[Effect, ...] = () if matched else (Log(text),)
        after, resumed = _resume(state, goal)
        return after, (*effects, *resumed)
    if stop is None:
        raise UsageError("the program is running", hint="pause it first")
    if isinstance(command, SetValue):
        return state, ()  # left to the gate, which has the arrays
    if isinstance(command, StepTwin):
        node = catalog.nodes.get(stop.node)
        if node is None:
            raise UsageError(f"{stop.node_name} is not known yet, so it has no counterpart")
        goal = twin_goal(node)
        if goal.kind == "forward":
            forward = catalog.nodes.get(goal.of)
            name = "its forward node" if forward is None else forward.name
            raise UsageError(f"{name} ran before {node.name}: the program cannot run backwards",
                             hint="go back to it in the recording")  # fmt: skip
        after, resumed = _resume(state, goal)
        if not catalog.has_twin(stop.node):
            text = (
                f"no backward node of {stop.node_name} so far: the program runs until there is one"
            )
            return after, (Log(text), *resumed)
        return after, resumed
    seen = seen_from(command, stop, held_scopes)
    step = step_goal(
        command, name=seen.node_name, scope=seen.scope, step=seen.step, thread=seen.thread
    )
    if step is None:
        raise UsageError(f"{type(command).__name__} is not a command of this version")
    return _resume(state, step, alone_of(command, stop))


def _resume(state: SessionState, goal: Goal | None = None, alone: tuple[int, ...] = ()) -> Result:
    return _released(state, "running", goal, alone)


def _released(
    state: SessionState, phase: SessionPhase, goal: Goal | None = None, alone: tuple[int, ...] = ()
) -> Result:
    after = msgspec.structs.replace(state, phase=phase, stop=None, goal=goal, alone=alone)
    return after, (Release(),) if state.phase == "stopped" or state.alone else ()


# ---------------------------------------------------------------- attendance


def _attend(
    state: SessionState, count: int, now_s: float, *, link_lost: bool = False
) -> SessionState:
    if count > 0:
        return msgspec.structs.replace(
            state, controllers=count, awaiting=False, ever_attended=True, lost_at=None
        )
    had_someone = state.controllers > 0 or (link_lost and state.awaiting)
    return msgspec.structs.replace(
        state,
        controllers=0,
        awaiting=state.awaiting and not link_lost,
        lost_at=now_s if had_someone else state.lost_at,
    )


def _expire(state: SessionState, now_s: float) -> SessionState:
    if state.lost_at is None or now_s - state.lost_at < CONTROLLER_GRACE_S:
        return state
    # An unfinished step belongs to the page that is gone.
    return msgspec.structs.replace(state, lost_at=None, goal=None, alone=())


def _tick(state: SessionState, now_s: float, ended: bool) -> Result:
    if ended and state.alone:
        goal = Goal("pause", text="Stopped: the thread that was stepping alone has ended")
        return _released(state, "running", goal)
    after = _expire(state, now_s)
    if after is state or after.awaiting or state.phase != "stopped":
        return after, ()
    resumed, effects = _resume(after)
    text = f"no debugger for {CONTROLLER_GRACE_S:g} s: the program continues"
    return resumed, (*effects, Log(text))
