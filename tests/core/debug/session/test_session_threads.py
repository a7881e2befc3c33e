"""The session and several threads: which continue, which are held, and which step."""

from __future__ import annotations

import pytest

from nodescope.debug.breakpoints.matching import Catalog
from nodescope.debug.session.state import (
    Commanded,
    ControllersChanged,
    ProgramFinished,
    Release,
    Tick,
)
from nodescope.debug.session.transition import may_go
from nodescope.errors import UsageError
from nodescope.protocol import (
    CONTROLLER_GRACE_S,
    Command,
    Continue,
    Detach,
    Pause,
    SetExceptions,
    StepNode,
    StepOut,
    StepOver,
)
from tests.core.debug.session.playbook import (
    ADD,
    LOG,
    MATMUL,
    RELU,
    breakpoints,
    play,
    reach,
    session,
)


def stopped() -> play:
    """Thread 1 has stopped at the first node of a layer."""
    played = play(session()).give(breakpoints("op:matmul", "op:log")).give(reach(MATMUL))
    assert played.state.stop is not None
    return played


def going(played: play) -> list[int]:
    return [thread for thread in (1, 2, 3) if may_go(played.state, thread)]


def releases(played: play) -> bool:
    return any(isinstance(effect, Release) for effect in played.effects)


def test_all_threads_stop_and_continue_together():
    played = stopped()
    assert going(played) == []
    assert going(played.give(Continue(thread=2))) == [1, 2, 3]
    assert releases(played)


def test_one_thread_continues_alone_until_the_next_stop():
    played = stopped().give(Continue(thread=2, alone=True))
    assert going(played) == [2]
    played.give(reach(LOG, thread=2))
    assert played.state.stop is not None
    assert played.state.stop.thread == 2
    assert going(played) == []
    assert going(played.give(Continue(alone=True))) == [2]  # The thread that stopped.


def test_other_threads_may_continue_too_and_all_be_released():
    played = stopped().give(Continue(alone=True), Continue(thread=3, alone=True))
    assert going(played) == [1, 3]
    assert releases(played)
    assert going(played.give(Continue())) == [1, 2, 3]
    assert releases(played)


def test_second_pause_releases_other_threads_when_lone_thread_reaches_no_node():
    played = stopped().give(Continue(thread=2, alone=True), Pause())
    assert going(played) == [2]
    assert going(played.give(Pause())) == [1, 2, 3]
    assert played.give(reach(ADD)).state.stop is not None


def test_the_end_of_a_lone_thread_pauses_the_others():
    played = stopped().give(Continue(thread=2, alone=True), Tick(1.0))
    assert going(played) == [2]
    assert going(played.give(Tick(1.1, ended=True))) == [1, 2, 3]
    stop = played.give(reach(RELU)).state.stop
    assert stop is not None
    assert stop.text == "Stopped: the thread that was stepping alone has ended"


@pytest.mark.parametrize("end", [Detach(), ProgramFinished()])
def test_the_end_releases_all_threads(end):
    played = stopped().give(Continue(thread=2, alone=True), end)
    assert going(played) == [1, 2, 3]
    assert releases(played)


def test_a_lost_controller_releases_all_threads():
    played = stopped().give(Continue(thread=2, alone=True), ControllersChanged(0, 1.0))
    assert going(played.give(Tick(1.0 + CONTROLLER_GRACE_S))) == [1, 2, 3]


def stepped(command: Command, **standing: str) -> play:
    scopes = {int(name[1:]): scope for name, scope in standing.items()}
    return stopped().give(breakpoints()).give(Commanded(command, Catalog(()), scopes))


def test_a_step_applies_to_the_requested_thread():
    played = stepped(StepNode(thread=2))
    assert going(played) == [1, 2, 3]
    assert played.give(reach(RELU)).state.stop is None
    assert played.give(reach(ADD, thread=2)).state.stop is not None


def test_another_thread_steps_from_where_it_is_held():
    played = stepped(StepOver(thread=2, alone=True), t2="loss")
    assert going(played) == [2]
    assert played.give(reach(LOG, thread=2)).state.stop is not None
    played = stepped(StepOut(thread=2), t2="hidden_1/act")
    assert played.give(reach(RELU, thread=2)).state.stop is None
    assert played.give(reach(ADD, thread=2)).state.stop is not None
    with pytest.raises(UsageError, match="has not reached a node"):
        stepped(StepOver(thread=2))


def test_exceptions_stop_unless_that_is_switched_off():
    played = play(session()).give(SetExceptions(False), reach(LOG, error="ValueError: x"))
    assert played.state.stop is None
    played.give(SetExceptions(True), reach(LOG, error="ValueError: x"))
    assert played.state.stop is not None
    assert played.state.stop.reason == "exception"
