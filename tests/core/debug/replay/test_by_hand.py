"""Values that the user changed at a stop: later executions take the new value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.debug.gate.gate import Gate
from nodescope.debug.replay import Replay
from nodescope.debug.why import spread, why
from nodescope.debug.why.rendering import sentence
from nodescope.protocol import Command, Continue, SetValue, Stop
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from tests.core.debug.debugged import debugged
from tests.core.debug.replay.checking import check
from tests.core.debug.replay.programs import without_arrays
from tests.core.debug.replay.test_replay import value_of


def changed(
    path: Path, program: Callable[[], None], where: str, how: Callable[[int], SetValue]
) -> Recording:
    """The recording of a program in which a node's output was changed at a breakpoint."""
    recorder = Recorder(path, level="values")

    def then(stop: Stop, gate: Gate) -> Command:
        gate.command(how(gate._catalog.nodes[stop.node].outputs[0]))
        return Continue()

    with debugged(where, then=then, first=recorder), np.errstate(all="ignore"):
        program()
    recorder.close()
    return Recording.open(path)


def logarithm() -> None:
    power = np.exp(ns.tensor([1.0, 2.0], name="a"))
    np.log(power * 3.0)


def negative(value: int) -> SetValue:
    return SetValue(value, "set", -5.0, "0")


def training() -> None:
    w = ns.parameter(np.array([1.0, -2.0, 3.0]), name="w")
    optimizer = ns.optim.SGD([w], lr=0.1)
    for x in ns.steps([1.0, 0.5, 2.0]):
        loss = np.sum(np.square(w * x))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def test_an_element_changed_by_hand_has_no_other_origin(tmp_path: Path) -> None:
    with changed(tmp_path / "r.nscope", logarithm, "op:exp", negative) as recording:
        end = why(recording, "log[0]").root.chain()[-1]
        assert (end.kind, end.name, end.number, end.at) == ("leaf", "exp", -5.0, (0,))
        assert end.words == "changed by hand in step 0 (exp[0] set to -5); it was 2.718 before"
        assert end.seq == recording.edits()[0].seq
        other = why(recording, "log[1]").root.chain()
        assert [item.name for item in other] == ["log", "multiply", "exp", "a"]
        assert not any("of another step" in item.words for item in other)
        assert Replay(recording).value(value_of(recording, "exp")).array[0] == -5.0


def test_why_explains_a_change_by_hand(tmp_path: Path) -> None:
    with changed(tmp_path / "r.nscope", logarithm, "op:exp", negative) as recording:
        # Without the edit, the largest element would be explained.
        assert why(recording, "exp[1]").root.number == np.exp(2.0)
        answer = why(recording, "exp")
        assert (answer.root.at, answer.root.number) == ((0,), -5.0)
        assert sentence(answer.root).startswith(
            "exp at [0] is -5 in step 0: changed by hand in step 0 (exp[0] set to -5); "
            "it was 2.718 before (test_by_hand.py:"
        )


def test_a_nan_that_was_set_by_hand_is_where_it_began(tmp_path: Path) -> None:
    def how(value: int) -> SetValue:
        return SetValue(value, "set", float("nan"), "0")

    with changed(tmp_path / "r.nscope", logarithm, "op:exp", how) as recording:
        (born,) = spread(recording).births
        assert (born.node, born.words) == ("exp", "changed by hand: exp[0] set to nan")
        assert born.seq == recording.edits()[0].seq
        assert born.reached == 2


def test_a_nan_replaced_by_hand_spreads_no_further(tmp_path: Path) -> None:
    def program() -> None:
        np.log(ns.tensor([-1.0, 2.0], name="a")) * 3.0

    def how(value: int) -> SetValue:
        return SetValue(value, "set", 0.0, "isnan")

    with changed(tmp_path / "r.nscope", program, "op:log", how) as recording:
        result = spread(recording)
        assert [birth.node for birth in result.births] == ["log"]
        assert (result.passed, result.healed) == ((), ())


def test_a_fork_after_a_change_by_hand_continues_from_it(tmp_path: Path) -> None:
    with changed(tmp_path / "r.nscope", logarithm, "op:exp", negative) as recording:
        replay = Replay(recording)
        assert check(replay).differences == ()
        power = value_of(recording, "exp")
        branch = replay.what_if({power: np.array([-5.0, 4.0])})
        assert branch.changes[0].old.tolist() == [-5.0, np.exp(2.0)]
        assert branch.value(value_of(recording, "multiply")).new.tolist() == [-15.0, 12.0]
        assert branch.blocked == ()


def test_a_fork_before_a_change_by_hand_does_not_guess_at_it(tmp_path: Path) -> None:
    with changed(tmp_path / "r.nscope", logarithm, "op:exp", negative) as recording:
        replay = Replay(recording)
        branch = replay.what_if({value_of(recording, "a"): np.array([0.0, 0.0])})
        assert [change.node for change in branch.changes] == ["a", "exp"]
        assert [event.node for event in branch.blocked] == ["exp", "multiply", "log"]
        assert "changed by hand (exp[0] set to -5)" in branch.blocked[0].reason


@pytest.mark.parametrize("where", ["w [step 2]", "optimizer/w/subtract [step 1]"])
def test_a_parameter_changed_by_hand_continues_to_train(tmp_path: Path, where: str) -> None:
    def how(value: int) -> SetValue:
        return SetValue(value, "add", 1.5, "1")

    with changed(tmp_path / "r.nscope", training, where, how) as recording:
        for step in (1, 2, 3):
            checked = check(Replay(recording, step))
            assert (checked.differences, checked.missing) == ((), {})
        w = value_of(recording, "w")
        last = Replay(recording, 3).value(w).array
    with Recording.open(without_arrays(tmp_path / "r.nscope", keep=("leaf",))) as recording:
        result = Replay(recording, 2).value(value_of(recording, "square"))
        assert result.how == "recomputed"
        assert last.shape == result.array.shape


def test_a_change_by_hand_keeps_the_memory_layout(tmp_path: Path) -> None:
    def program() -> None:
        x = ns.tensor(np.random.default_rng(0).standard_normal((50, 40)), name="x")
        np.sum(np.transpose(np.exp(x)) * 3.0)

    def how(value: int) -> SetValue:
        return SetValue(value, "scale", 1.7)

    with changed(tmp_path / "r.nscope", program, "op:multiply", how) as recording:
        (edit,) = recording.edits()
        assert recording.strides(edit.value, edit.seq) == (8, 320)
        assert check(Replay(recording)).differences == ()
