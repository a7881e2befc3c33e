"""Playbooks for every command and every reason to stop."""

from __future__ import annotations

import msgspec
import pytest

from nodescope.debug.breakpoints.matching import Catalog
from nodescope.debug.session.state import (
    ConditionResult,
    ControllersChanged,
    GraphKnown,
    GraphSettled,
    Hold,
    Interrupted,
    LinkChanged,
    Log,
    ProgramFinished,
    Release,
    StackRead,
    Tick,
)
from nodescope.errors import BreakpointError, ConditionError, UsageError
from nodescope.protocol import (
    CONTROLLER_GRACE_S,
    Breakpoint,
    Continue,
    Detach,
    Frame,
    NextStep,
    Pause,
    RunTo,
    SetBreakpoints,
    StepIn,
    StepNode,
    StepOut,
    StepOver,
)
from tests.core.debug.session.playbook import (
    ADD,
    BACK,
    LOG,
    MATMUL,
    MEAN,
    RELU,
    STEP,
    W,
    X,
    breakpoints,
    commanded,
    effect,
    play,
    reach,
    running,
    session,
    stopped,
)


def at(node):
    """A session that is paused at ``node``."""
    return play(session()).give(Pause(), reach(node)).expect(stopped("pause", node), effect(Hold))


def test_entry_stops_before_the_first_node_that_computes():
    entry = play(session(stop_on_entry=True))
    entry.give(reach(X, "before"), reach(X), reach(W)).expect(running)
    entry.give(reach(MATMUL, "before")).expect(stopped("entry", MATMUL, "before", "first node"))


def test_a_step_from_entry_stops_after_the_first_node():
    entry = play(session(stop_on_entry=True)).give(reach(MATMUL, "before"))
    entry.give(StepNode()).expect(running, effect(Release))
    entry.give(reach(MATMUL)).expect(stopped("step", MATMUL))


def test_pause_stops_at_the_next_node_that_is_not_a_leaf():
    play(session()).give(Pause()).run(*STEP).expect(stopped("pause", MATMUL))


def test_pause_while_stopped_changes_nothing():
    at(ADD).give(Pause()).expect(stopped("pause", ADD))


@pytest.mark.parametrize(
    ("start", "command", "then", "where"),
    [
        (MATMUL, StepNode(), (RELU, ADD), RELU),
        (MATMUL, StepNode(), (X, W, RELU), RELU),
        (MATMUL, StepIn(), (ADD, RELU), RELU),
        (RELU, StepIn(), (RELU, ADD, MEAN, LOG), LOG),
        (MATMUL, StepOver(), (RELU, ADD), ADD),
        (MATMUL, StepOver(), (RELU, LOG), LOG),
        (MEAN, StepOver(), (BACK, MATMUL, MEAN), MEAN),
        (ADD, StepOver(), (BACK, LOG), LOG),
        (BACK, StepOver(), (LOG,), LOG),
        (MATMUL, StepOver(scope="hidden_1"), (RELU, ADD, LOG), LOG),
        (RELU, StepOut(), (RELU, ADD), ADD),
        (MATMUL, StepOut(), (RELU, ADD, MEAN), MEAN),
        (MATMUL, RunTo("mean"), (RELU, ADD, LOG, MEAN), MEAN),
        (MATMUL, RunTo("hidden_1/w"), (X, W), W),
        (MATMUL, RunTo("log", by_end=True), (RELU, LOG), LOG),
    ],
)
def test_stepping(start, command, then, where):
    reason = "run_to" if isinstance(command, RunTo) else "step"
    at(start).give(command).expect(running, effect(Release)).run(*then).expect(
        stopped(reason, where)
    )


@pytest.mark.parametrize("command", [RunTo("log"), RunTo("og", by_end=True)])
def test_run_to_matches_whole_parts_at_the_end_of_a_name(command):
    at(MATMUL).give(command).run(RELU, LOG, MEAN).expect(running)


def test_next_step_stops_after_the_first_node_of_a_later_step():
    steps = at(MEAN).give(NextStep()).run(BACK).expect(running)
    steps.run(X, MATMUL, step=2).expect(stopped("step", MATMUL))
    assert steps.state.stop.step == 2


def test_stepping_follows_its_own_thread():
    play(at(MATMUL).give(StepNode()).state).give(reach(RELU, thread=2)).expect(running).give(
        reach(ADD, thread=1)
    ).expect(stopped("step", ADD))


def test_step_out_of_the_top_is_refused():
    with pytest.raises(UsageError, match="no scope to step out of"):
        at(MEAN).give(StepOut())


@pytest.mark.parametrize("command", [StepNode(), StepIn(), StepOver(), StepOut(), NextStep()])
def test_steps_while_running_are_refused(command):
    with pytest.raises(UsageError, match="running; pause it first"):
        play(session()).give(command)


def test_continue_runs_to_the_end():
    end = at(MATMUL).give(Continue()).expect(running, effect(Release)).run(*STEP).expect(running)
    end.give(ProgramFinished())
    assert end.state.phase == "finished"


def test_run_to_while_running_and_to_an_unknown_name_says_so():
    play(session()).give(RunTo("hidden_1/matmull")).expect(
        running, effect(Log, "did you mean 'hidden_1/matmul'")
    )


@pytest.mark.parametrize(
    ("spec", "where", "text"),
    [
        ("hidden_1/add", ADD, "Breakpoint 1: hidden_1/add"),
        ("op:log", LOG, "loss/log (op:log)"),
        ("scope:loss", LOG, "(scope:loss)"),
        ("scope:hidden_1", MATMUL, "(scope:hidden_1)"),
        ("*/relu", RELU, "(glob:*/relu)"),
        ("hidden_1/w", W, "hidden_1/w"),
    ],
)
def test_breakpoints_stop(spec, where, text):
    hit = play(session()).give(breakpoints(spec)).run(*STEP)
    hit.expect(stopped("breakpoint", where, text=text))
    assert hit.state.stop.breakpoint == 1
    assert hit.state.breakpoints[0].hits == 1


def test_scope_breakpoint_stops_once_per_entry():
    play(session()).give(
        breakpoints("scope:hidden_1"), reach(RELU, previous=("hidden_1", 1))
    ).expect(running).give(reach(RELU, previous=("hidden_1", 0))).expect(stopped("breakpoint"))


def test_conditions_decide():
    playbook = play(session()).give(breakpoints("op:log if value.max() > 3"))
    playbook.give(reach(LOG, verdicts=(ConditionResult(1, true=False),))).expect(running)
    playbook.give(reach(LOG, verdicts=(ConditionResult(1, true=True),))).expect(
        stopped("breakpoint", LOG, text="value.max() > 3 on loss/log")
    )


def test_a_failing_condition_disables_its_breakpoint_and_says_so():
    playbook = play(session()).give(breakpoints("op:log if value > 3"))
    playbook.give(reach(LOG, verdicts=(ConditionResult(1, error="use any()"),)))
    playbook.expect(running, effect(Log, "disabled at loss/log: use any()"))
    status = playbook.state.breakpoints[0]
    assert not status.breakpoint.enabled
    assert "use any()" in status.message


def test_breakpoint_wins_over_a_step_and_ends_it():
    hit = at(MATMUL).give(breakpoints("op:relu"), StepOut()).run(RELU)
    hit.expect(stopped("breakpoint", RELU)).give(Continue()).run(ADD, LOG, MEAN).expect(running)


def test_before_breakpoints_stop_before():
    playbook = play(session()).give(breakpoints(Breakpoint("op", "log", when="before")))
    playbook.give(reach(LOG)).expect(running)
    playbook.give(reach(LOG, "before")).expect(stopped("breakpoint", LOG, "before"))


def test_disabled_breakpoints_do_not_stop():
    off = Breakpoint("op", "log", enabled=False)
    play(session()).give(breakpoints(off)).run(*STEP).expect(running)


def test_replacing_keeps_ids_and_hits_and_gives_new_ids():
    first = play(session()).give(breakpoints("op:log", "op:relu")).run(*STEP).give(Continue())
    kept = first.state.breakpoints[1].breakpoint
    first.give(breakpoints(msgspec.structs.replace(kept, log="seen"), "mean", kept))
    assert [(item.breakpoint.id, item.hits) for item in first.state.breakpoints] == [
        (2, 1),
        (3, 0),
        (4, 0),
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"condition": "step > 3"}, {"target": "exp"}, {"hits": ">= 5"}, {"when": "before"},
        {"phase": "forward"}, {"first_step": 1}, {"last_step": 9}, {"kind": "glob"},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_a_breakpoint_with_new_criteria_counts_from_zero(change):
    changed = play(session()).give(breakpoints("op:relu")).run(*STEP).give(Continue())
    status = changed.state.breakpoints[0]
    assert status.hits == 1
    changed.give(breakpoints(msgspec.structs.replace(status.breakpoint, **change)))
    [status] = changed.state.breakpoints
    assert (status.breakpoint.id, status.hits) == (1, 0)


@pytest.mark.parametrize(
    "change", [{"enabled": False}, {"log": "x"}, {"once": True}, {"group": "g"}]
)
def test_a_breakpoint_with_other_options_keeps_its_hits(change):
    kept = play(session()).give(breakpoints("op:relu")).run(*STEP).give(Continue())
    status = kept.state.breakpoints[0]
    kept.give(breakpoints(msgspec.structs.replace(status.breakpoint, **change)))
    assert kept.state.breakpoints[0].hits == 1


def test_a_hit_count_restarts_with_a_new_condition():
    asked = play(session()).give(breakpoints("op:relu [hits >= 2]")).run(RELU)
    [status] = asked.state.breakpoints
    asked.give(breakpoints(msgspec.structs.replace(status.breakpoint, condition="step > 0")))
    held = (ConditionResult(1, true=True),)
    asked.give(reach(RELU, verdicts=held)).expect(running)
    asked.give(reach(RELU, verdicts=held)).expect(stopped("breakpoint", RELU))


def test_unknown_targets_stay_armed_and_are_verified_later():
    playbook = play(session()).give(breakpoints("los/mean", nodes=()))
    assert playbook.state.breakpoints[0].message == ""
    playbook.give(GraphSettled(Catalog(STEP))).expect(effect(Log, "stays armed"))
    assert "no node 'los/mean' so far" in playbook.state.breakpoints[0].message
    late = msgspec.structs.replace(MEAN, name="los/mean")
    playbook.give(GraphKnown((late,)))
    assert playbook.state.breakpoints[0].verified
    assert playbook.state.breakpoints[0].message == ""
    playbook.run(late).expect(stopped("breakpoint", late))


def test_a_disabled_breakpoint_is_verified_too():
    playbook = play(session()).give(breakpoints(MEAN.name, nodes=()))
    playbook.give(GraphSettled(Catalog((MATMUL,))))
    off = msgspec.structs.replace(playbook.state.breakpoints[0].breakpoint, enabled=False)
    playbook.give(breakpoints(off, nodes=(MATMUL,)))
    assert "no node" in playbook.state.breakpoints[0].message
    playbook.give(GraphKnown((MEAN,)))
    assert playbook.state.breakpoints[0].verified
    assert playbook.state.breakpoints[0].message == ""


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (Breakpoint("op", " "), BreakpointError),
        (Breakpoint("op", "log", condition="__import__('os')"), ConditionError),
        (Breakpoint("op", "log", condition="value.max()>1", when="before"), ConditionError),
        (Breakpoint("node", "x" * 5000), BreakpointError),
    ],
)
def test_senseless_breakpoints_are_refused_and_change_nothing(wanted, error):
    playbook = play(session()).give(breakpoints("op:log"))
    before = playbook.state
    with pytest.raises(error):
        playbook.give(commanded(SetBreakpoints((wanted,))))
    assert playbook.state is before


def test_exceptions_stop_and_continue():
    failed = play(session()).give(reach(LOG, error="ShapeError: no"))
    failed.expect(stopped("exception", LOG, text="loss/log raises ShapeError: no"))
    failed.give(Continue()).expect(running)
    play(session(stop_on_exception=False, expects_controller=True)).give(
        reach(LOG, error="ShapeError: no")
    ).expect(running)


def test_detach_is_final():
    detached = at(MATMUL).give(breakpoints("op:log"), Detach()).expect(effect(Release))
    detached.run(*STEP)
    assert detached.state.phase == "detached"
    with pytest.raises(UsageError, match="detached"):
        detached.give(Pause())
    detached.give(Detach(), ProgramFinished())
    with pytest.raises(UsageError, match="ended"):
        detached.give(Continue())


def test_the_stack_arrives_at_the_stop():
    frame = Frame("train.py", 3, "<module>", "x @ w")
    playbook = at(MATMUL).give(StackRead((frame,)))
    assert playbook.state.stop.stack == (frame,)
    playbook.give(Continue(), StackRead((frame,))).expect(running)


def test_interrupt_releases():
    at(MATMUL).give(Interrupted()).expect(running, effect(Release)).give(Interrupted())


# ---------------------------------------------------------------- attendance


def test_entry_waits_without_limit_for_the_first_page():
    playbook = play(session(stop_on_entry=True)).give(reach(MATMUL, "before"))
    playbook.give(Tick(1e6)).expect(stopped("entry", when="before"))
    playbook.give(ControllersChanged(1, 1e6), Tick(2e6)).expect(stopped("entry", when="before"))


def test_a_lost_page_resumes_after_its_grace():
    playbook = at(MATMUL).give(ControllersChanged(0, 100.0), Tick(100 + CONTROLLER_GRACE_S - 0.01))
    playbook.expect(stopped("pause")).give(Tick(100 + CONTROLLER_GRACE_S))
    playbook.expect(running, effect(Release), effect(Log, "the program continues"))
    assert CONTROLLER_GRACE_S <= 10


def test_a_page_that_comes_back_in_time_keeps_the_stop():
    playbook = at(MATMUL).give(ControllersChanged(0, 100.0), ControllersChanged(1, 105.0))
    playbook.give(Tick(200.0)).expect(stopped("pause"))


def test_a_lost_server_resumes_even_the_entry_stop():
    playbook = play(session(stop_on_entry=True)).give(
        LinkChanged(True, 0.0), reach(MATMUL, "before")
    )
    playbook.give(LinkChanged(False, 100.0), Tick(104.0)).expect(stopped("entry", when="before"))
    playbook.give(Tick(105.0)).expect(running)


def test_a_server_that_comes_back_lets_the_entry_wait_again():
    playbook = play(session(stop_on_entry=True)).give(
        LinkChanged(True, 0.0), reach(MATMUL, "before")
    )
    playbook.give(LinkChanged(False, 100.0), LinkChanged(True, 103.0), Tick(500.0))
    playbook.expect(stopped("entry", when="before"))


def test_unattended_runs_do_not_stop():
    alone = play(session()).give(breakpoints("op:log"), ControllersChanged(0, 0.0))
    alone.give(reach(LOG, now_s=3.0)).expect(stopped("breakpoint")).give(Continue())
    alone.give(reach(LOG, now_s=9.0)).expect(running)
    alone.give(ControllersChanged(1, 10.0)).give(reach(LOG, now_s=11.0)).expect(
        stopped("breakpoint")
    )


def test_finishing_while_stopped_releases():
    at(MATMUL).give(ProgramFinished()).expect(effect(Release))
