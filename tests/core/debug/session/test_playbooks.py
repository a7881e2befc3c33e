"""A playbook for every command, every reason to stop, and every input of the session.

The tables are complete: an addition to the protocol without a playbook here fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import msgspec
import pytest

from nodescope.debug.breakpoints.matching import Became, Catalog
from nodescope.debug.session import state as inputs
from nodescope.debug.session.state import (
    BreakHere,
    Commanded,
    ConditionResult,
    ControllersChanged,
    Edited,
    GraphKnown,
    GraphSettled,
    Hold,
    Interrupted,
    LinkChanged,
    Log,
    NodeReached,
    ProgramFinished,
    Raised,
    Release,
    StackRead,
    Tick,
    WatchesChanged,
)
from nodescope.errors import UsageError
from nodescope.protocol import (
    CONTROLLER_GRACE_S,
    Breakpoint,
    Command,
    Continue,
    Detach,
    Frame,
    NextStep,
    Pause,
    RunTo,
    SetBreakpoints,
    SetExceptions,
    SetKeeping,
    SetValue,
    SetWatches,
    StepIn,
    StepNode,
    StepOut,
    StepOver,
    StepTwin,
    StopReason,
    WatchStatus,
)
from tests.core.debug.session.playbook import (
    ADD,
    BACK,
    LOG,
    MATMUL,
    MEAN,
    RELU,
    STEP,
    breakpoints,
    effect,
    play,
    reach,
    running,
    session,
    stopped,
)

Playbook = Callable[[], object]

TWIN = msgspec.structs.replace(BACK, forward=LOG.id)
RAISED = Raised(MEAN, 1, 7, 1, "ValueError: no", (Frame("/home/me/train.py", 12, "fit", "int(x)"),))


def at(node=MATMUL):
    """A session that is paused at ``node``."""
    return play(session()).give(Pause(), reach(node)).expect(stopped("pause", node), effect(Hold))


def refused(playing, command: Command, match: str) -> None:
    before = playing.state
    with pytest.raises(UsageError, match=match):
        playing.give(command)
    assert playing.state is before


# ---------------------------------------------------------------- commands


def continues() -> None:
    at().give(Continue()).expect(running, effect(Release)).run(*STEP).expect(running)


def pauses() -> None:
    play(session()).give(Pause()).run(*STEP).expect(stopped("pause", MATMUL))


def steps_a_node() -> None:
    at().give(StepNode()).run(RELU).expect(stopped("step", RELU))
    refused(play(session()), StepNode(), "running")


def steps_in() -> None:
    at().give(StepIn()).run(ADD, RELU).expect(stopped("step", RELU))
    at().give(StepIn(scope="loss")).run(RELU, ADD, LOG).expect(stopped("step", LOG))


def steps_over() -> None:
    at().give(StepOver()).run(RELU, ADD).expect(stopped("step", ADD))
    at().give(StepOver(scope="hidden_1")).run(RELU, ADD, LOG).expect(stopped("step", LOG))


def steps_out() -> None:
    at(RELU).give(StepOut()).run(RELU, ADD).expect(stopped("step", ADD))
    refused(at(MEAN), StepOut(), "no scope to step out of")


def goes_to_the_next_step() -> None:
    played = at().give(NextStep()).run(RELU).expect(running)
    played.run(MATMUL, step=2).expect(stopped("step", MATMUL))


def runs_to_a_node() -> None:
    at().give(RunTo("mean")).run(RELU, LOG, MEAN).expect(stopped("run_to", MEAN))
    at().give(RunTo("nowhere")).expect(running, effect(Log, "no node 'nowhere'"))


def detaches() -> None:
    detached = at().give(breakpoints("op:log"), Detach()).expect(effect(Release))
    detached.run(*STEP).give(RAISED)
    assert detached.state.phase == "detached"
    refused(detached, Continue(), "detached")


def sets_breakpoints() -> None:
    kept = at().give(breakpoints("op:log", "op:relu")).state.breakpoints
    assert [item.breakpoint.id for item in kept] == [1, 2]
    fresh = play(session()).give(breakpoints("op:log [hits == 2, group g]"))
    fresh.run(LOG).expect(running).run(LOG, step=2).expect(stopped("breakpoint", LOG))


def sets_a_value() -> None:
    # The gate has the arrays; the session knows whether the program is stopped at the value.
    refused(play(session()), SetValue(5), "running")
    edited = at().give(Edited("value *= 2")).expect(effect(Log, "edited: value *= 2"))
    assert edited.state.stop.edits == ("value *= 2",)
    edited.give(Continue(), Edited("too late")).expect(running)


def sets_watches() -> None:
    refused(at(), SetWatches(("nan",)), "has no watches")


def lets_exceptions_pass() -> None:
    played = play(session()).give(SetExceptions(False))
    played.give(reach(LOG, error="ShapeError: no")).expect(running).give(RAISED).expect(running)
    played.give(SetExceptions(True), reach(LOG, error="ShapeError: no"))
    played.expect(stopped("exception", LOG))


def goes_to_the_twin() -> None:
    nodes = Catalog((*STEP[:-1], TWIN))
    play(at(LOG).give(Commanded(StepTwin(), nodes)).state).run(MEAN, TWIN).expect(
        stopped("run_to", TWIN, text="a backward node of loss/log")
    )
    with pytest.raises(UsageError, match="loss/log ran before"):
        at(TWIN).give(Commanded(StepTwin(), nodes))
    played = at(LOG).give(Commanded(StepTwin(), nodes))
    assert not [item for item in played.effects if isinstance(item, Log)]
    unknown = Commanded(StepTwin(), Catalog(STEP[:-1]))
    at(LOG).give(unknown).expect(
        effect(Log, "no backward node of loss/log so far: the program runs until there is one")
    )


COMMANDS: dict[type[Command], Playbook] = {
    Continue: continues,
    Pause: pauses,
    StepNode: steps_a_node,
    StepIn: steps_in,
    StepOver: steps_over,
    StepOut: steps_out,
    NextStep: goes_to_the_next_step,
    RunTo: runs_to_a_node,
    Detach: detaches,
    SetBreakpoints: sets_breakpoints,
    SetValue: sets_a_value,
    SetWatches: sets_watches,
    SetExceptions: lets_exceptions_pass,
    StepTwin: goes_to_the_twin,
}

# ---------------------------------------------------------------- reasons to stop


def on_entry() -> None:
    entered = play(session(stop_on_entry=True)).give(reach(MATMUL, "before"))
    entered.expect(stopped("entry", MATMUL, "before", "first node"))


def at_a_breakpoint() -> None:
    """On a node, on a gradient, once, and in groups of which one only logs."""
    play(session()).give(breakpoints("op:log")).run(*STEP).expect(stopped("breakpoint", LOG))
    of_gradient = play(session()).give(breakpoints("op:log if max(grad) > 1"))
    of_gradient.give(reach(LOG)).expect(running)
    at_gradient = msgspec.structs.replace(
        reach(BACK, verdicts=(ConditionResult(1, true=True),)), gradient_of=LOG
    )
    of_gradient.give(at_gradient).expect(stopped("breakpoint", BACK, text="gradient of loss/log"))
    once = play(session()).give(breakpoints("op:log [once]")).run(LOG).expect(stopped("breakpoint"))
    once.give(Continue()).run(LOG, step=2).expect(running)
    logs = Breakpoint("op", "log", log="seen", group="g")
    playbook = play(session()).give(breakpoints(logs, Breakpoint("op", "mean", group="g")))
    playbook.give(reach(LOG, verdicts=(ConditionResult(1, true=True, text="seen"),)))
    playbook.expect(running, effect(Log, "seen")).run(MEAN).expect(stopped("breakpoint", MEAN))
    became = Became(ADD, "merged into hidden_1/act/relu by cse", True)
    merged = play(session()).give(breakpoints("hidden_1/add", nodes=()))
    merged.give(GraphKnown((RELU,), (became,)))
    merged.give(msgspec.structs.replace(reach(RELU), stands_for=(ADD,)))
    merged.expect(stopped("breakpoint", RELU, text="computes hidden_1/add"))


def after_a_step() -> None:
    at().give(StepNode()).run(RELU).expect(stopped("step", RELU, text="Stepped to"))


def when_asked() -> None:
    play(session()).give(BreakHere("ns.breakpoint at train.py:3")).run(RELU).expect(
        stopped("pause", RELU, text="train.py:3")
    )


def where_it_was_to_run() -> None:
    at().give(RunTo("mean")).run(MEAN).expect(stopped("run_to", MEAN))


def at_an_exception() -> None:
    """Raised by an operation, and by the program itself."""
    play(session()).give(reach(LOG, error="ShapeError: no")).expect(stopped("exception", LOG))
    raised = play(session()).give(RAISED)
    raised.expect(effect(Hold), stopped("exception", MEAN, text="ValueError: no at train.py:12"))
    assert raised.state.stop.error == "ValueError: no"
    # The exception was raised in a step that was not observed.
    unseen = msgspec.structs.replace(RAISED, in_step=5)
    play(session()).give(unseen).expect(stopped("exception", MEAN, text="in step 5 or after it"))
    raised.give(StepNode()).expect(running, effect(Release))
    play(session(expects_controller=False)).expect(running).give(RAISED)
    alone = play(session()).give(ControllersChanged(0, 0.0), Tick(CONTROLLER_GRACE_S))
    alone.give(RAISED).expect(running)


def at_a_watch() -> None:
    seen = WatchStatus(3, "tensor_overflow -> stop", "tensor_overflow", hits=1)
    play(session()).give(WatchesChanged((seen,)), BreakHere("Watch 3: NaN", "watch", 3)).run(
        RELU
    ).expect(stopped("watch", RELU, text="Watch 3: NaN"))


REASONS: dict[StopReason, Playbook] = {
    "entry": on_entry,
    "breakpoint": at_a_breakpoint,
    "step": after_a_step,
    "pause": when_asked,
    "run_to": where_it_was_to_run,
    "exception": at_an_exception,
    "watch": at_a_watch,
}

# ---------------------------------------------------------------- what else happens


def a_page_is_lost() -> None:
    lost = at().give(ControllersChanged(0, 100.0), Tick(100 + CONTROLLER_GRACE_S))
    lost.expect(running, effect(Release), effect(Log, "the program continues"))


def the_server_is_lost() -> None:
    lost = play(session(stop_on_entry=True)).give(LinkChanged(True, 0.0), reach(MATMUL, "before"))
    lost.give(LinkChanged(False, 100.0), Tick(100 + CONTROLLER_GRACE_S)).expect(running)


def it_is_interrupted() -> None:
    at().give(Interrupted()).expect(running, effect(Release))


def it_ends() -> None:
    ended = at().give(ProgramFinished()).expect(effect(Release))
    refused(ended, Continue(), "ended")


def the_stack_is_read() -> None:
    assert at().give(StackRead(RAISED.stack)).state.stop.stack == RAISED.stack


def a_step_of_training_ends() -> None:
    playbook = play(session()).give(breakpoints("los/log"), GraphSettled(Catalog(STEP)))
    playbook.expect(effect(Log, "did you mean 'loss/log'?"))


INPUTS: dict[type[inputs.Input], Playbook] = {
    NodeReached: pauses,
    Raised: at_an_exception,
    StackRead: the_stack_is_read,
    Commanded: continues,
    Edited: sets_a_value,
    GraphKnown: at_a_breakpoint,
    GraphSettled: a_step_of_training_ends,
    BreakHere: when_asked,
    WatchesChanged: at_a_watch,
    ControllersChanged: a_page_is_lost,
    LinkChanged: the_server_is_lost,
    Tick: a_page_is_lost,
    Interrupted: it_is_interrupted,
    ProgramFinished: it_ends,
}
ALL = dict.fromkeys((*COMMANDS.values(), *REASONS.values(), *INPUTS.values()))


def test_every_command_reason_and_input_has_a_playbook() -> None:
    # Keeping values is the recorder's task: the run handles that command before the session.
    assert set(COMMANDS) == set(get_args(Command)) - {SetKeeping}
    assert set(REASONS) == set(get_args(StopReason))
    assert set(INPUTS) == set(get_args(inputs.Input))


@pytest.mark.parametrize("playbook", ALL, ids=lambda item: item.__name__)
def test_playbook(playbook: Playbook) -> None:
    playbook()
