"""Branches of branches, and values that are unknown in a branch."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.debug.replay import Replay
from nodescope.errors import ReplayError
from nodescope.record.recording import Recording
from tests.core.debug.replay.programs import recorded
from tests.core.debug.replay.test_replay import value_of


def training(first: float = 1.0, shift: float = 2.0) -> None:
    w = ns.parameter(np.array([1.0, -2.0, 3.0]), name="w")
    optimizer = ns.optim.SGD([w], lr=0.1)
    for i, x in enumerate(ns.steps([1.0, 0.5, 2.0])):
        given = ns.tensor(np.full(3, first if not i else x), name="x")
        other = ns.tensor(np.full(3, shift if not i else 2.0), name="y")
        loss = np.sum(np.square(w * given + other))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def test_a_branch_continues_where_the_one_before_it_ended(tmp_path: Path) -> None:
    """The parent branch ends with the first step, and the branch with the last one."""
    first = recorded(tmp_path / "one.nscope", training)
    for shift in (2.0, 6.0):  # 2.0 is the recorded y, so that edit changes nothing.
        two = recorded(tmp_path / f"{shift}.nscope", lambda shift=shift: training(3.0, shift))
        with Recording.open(first) as here, Recording.open(two) as there:
            replay = Replay(here, 1)
            parent = replay.what_if({value_of(here, "x"): np.full(3, 3.0)})
            edit = {value_of(here, "y"): np.full(3, shift)}
            child = replay.what_if(edit, parent=parent.name, until=here.last_seq())
            assert child.blocked == ()
            truth = Replay(there, 3).value(value_of(there, "w")).array
            assert child.value(value_of(here, "w")).new.tolist() == truth.tolist()


def indexed() -> None:
    taken = ns.tensor(np.arange(4.0), name="a")[ns.tensor(np.array([1, 2]), name="i")]
    taken * ns.tensor(np.array([2.0, 3.0]), name="b") + 1.0


def test_what_a_branch_does_not_know_its_children_do_not_know(tmp_path: Path) -> None:
    with Recording.open(recorded(tmp_path / "r.nscope", indexed)) as recording:
        replay = Replay(recording)
        at, other = value_of(recording, "i"), value_of(recording, "b")
        parent = replay.what_if({at: np.array([1, 9])})
        assert [event.node for event in parent.blocked] == ["getitem", "multiply", "add"]
        child = replay.what_if({other: np.array([5.0, 7.0])}, parent=parent.name)
        assert [change.node for change in child.changes] == ["b"]
        assert [event.node for event in child.blocked] == ["multiply", "add"]
        assert child.blocked[0].reason == "getitem could not be run"
        mended = replay.what_if({at: np.array([1, 2])}, parent=child.name)
        assert mended.blocked == ()
        assert mended.value(value_of(recording, "add")).new.tolist() == [6.0, 15.0]
        assert mended.same == ("getitem",)


def test_a_node_that_raises_again_is_not_a_change(tmp_path: Path) -> None:
    def program() -> None:
        a = ns.tensor(np.array([[1.0, 2.0], [2.0, 1.0]]), name="a")
        try:
            np.linalg.cholesky(a)
        except np.linalg.LinAlgError:
            a * 2.0

    with Recording.open(recorded(tmp_path / "r.nscope", program)) as recording:
        replay, a = Replay(recording), value_of(recording, "a")
        branch = replay.what_if({a: np.array([[1.0, 5.0], [5.0, 1.0]])})
        assert (branch.blocked, [change.node for change in branch.changes]) == (
            (),
            ["a", "multiply"],
        )
        healed = replay.what_if({a: np.eye(2)})
        (told,) = healed.blocked
        assert told.node == "cholesky"
        assert "it raised MatrixError" in told.reason
        assert "now it would not" in told.reason


def test_a_parameter_that_the_program_wrote_to_itself_is_not_guessed_at(tmp_path: Path) -> None:
    def program() -> None:
        w = ns.parameter(np.array([1.0, -2.0]), name="w")
        for _ in ns.steps([1, 2]):
            with ns.no_grad():
                ns.assign(w, w * 3.0)
            w.data = np.clip(w.data, -1.0, 1.0)

    with Recording.open(recorded(tmp_path / "r.nscope", program)) as recording:
        product = value_of(recording, "multiply")
        edit = {product: np.array([5.0, 0.0])}
        branch = Replay(recording, 1).what_if(edit, until=recording.last_seq())
        assert [change.node for change in branch.changes] == ["multiply", "assign"]
        assert branch.blocked[0].node == "w"
        assert "the program has since changed w" in branch.blocked[0].reason


def test_what_depends_on_an_edit_and_on_what_was_lost_is_listed(tmp_path: Path) -> None:
    def program() -> None:
        first, other = ns.tensor([1.0], name="one"), ns.tensor([2.0], name="other")
        np.exp(first) + np.sin(other)
        np.cos(other)

    path = recorded(tmp_path / "r.nscope", program)
    database = sqlite3.connect(path)
    database.execute("DELETE FROM execution WHERE node = (SELECT id FROM node WHERE op = 'sin')")
    database.commit()
    database.close()
    with Recording.open(path) as recording:
        branch = Replay(recording).what_if({value_of(recording, "one"): np.array([3.0])})
        assert [change.node for change in branch.changes] == ["one", "exp"]
        (told,) = branch.blocked
        assert (told.node, "sin was not recorded" in told.reason) == ("add", True)


def without_operands(path: Path) -> None:
    """Make it like a file of an earlier release, without the executions that wrote operands."""
    database = sqlite3.connect(path)
    database.execute("DROP TABLE operand")
    database.commit()
    database.close()


def recurrent() -> None:
    state = ns.tensor(np.array([1.0, -0.5]), name="start")
    for x in ns.steps([0.25, 0.5, 0.75]):
        state = np.tanh(state + ns.tensor(np.full(2, x), name="x"))


def without_step(path: Path, step: int) -> None:
    """Remove a step, as if it had not been observed."""
    database = sqlite3.connect(path)
    database.execute("UPDATE step SET observed = 0 WHERE step = ?", (step,))
    first, last = database.execute(
        "SELECT start_seq, end_seq FROM step WHERE step = ?", (step,)
    ).fetchone()
    for table in ("execution", "summary", "blob"):
        database.execute(f"DELETE FROM {table} WHERE seq BETWEEN ? AND ?", (first, last))
    # With its operand table, the file would still describe the deleted executions.
    database.execute("DROP TABLE operand")
    database.commit()
    database.close()


def test_a_fork_is_not_carried_over_a_step_that_was_left_out(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.nscope", recurrent)
    without_step(path, 2)
    with Recording.open(path) as recording:
        edit = {value_of(recording, "start"): np.array([0.0, 0.0])}
        branch = Replay(recording, 1).what_if(edit, until=recording.last_seq())
        assert [change.node for change in branch.changes] == ["start", "add", "tanh"]
        assert [event.node for event in branch.blocked] == ["add", "tanh"]
        assert "its inputs are unknown" in branch.blocked[0].reason


def test_nothing_is_computed_again_over_a_step_that_was_left_out(tmp_path: Path) -> None:
    def program() -> None:
        w = ns.parameter(np.arange(1.0, 17.0), name="w")  # More elements than a preview holds.
        for _ in ns.steps([1, 2, 3]):
            with ns.no_grad():
                ns.assign(w, w * 3.0)

    path = recorded(tmp_path / "r.nscope", program)
    without_step(path, 2)
    database = sqlite3.connect(path)
    database.execute("DELETE FROM blob WHERE seq > (SELECT start_seq FROM step WHERE step = 3)")
    database.commit()
    database.close()
    with Recording.open(path) as recording:
        first = Replay(recording, 1).value(value_of(recording, "assign")).array
        np.testing.assert_array_equal(first, 3 * np.arange(1.0, 17.0))
        with pytest.raises(ReplayError, match="the value of assign at that time is unknown"):
            Replay(recording, 3).value(value_of(recording, "multiply"))


def test_what_was_kept_for_many_steps_is_not_guessed_at(tmp_path: Path) -> None:
    def program() -> None:
        kept = []
        for x in ns.steps([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]):
            kept.append(np.exp(ns.tensor([x], name="x")))
            if len(kept) == 6:
                np.sin(kept[0])

    path = recorded(tmp_path / "r.nscope", program)
    with Recording.open(path) as recording:
        edit = {value_of(recording, "exp"): np.array([7.0])}
        branch = Replay(recording, 1).what_if(edit, until=recording.last_seq())
        assert [(change.node, float(change.new[0])) for change in branch.changes] == [
            ("exp", 7.0), ("sin", np.sin(7.0)),
        ]  # fmt: skip
        assert branch.blocked == ()
    without_operands(path)
    with Recording.open(path) as recording:
        branch = Replay(recording, 1).what_if(edit, until=recording.last_seq())
        (told,) = branch.blocked
        assert (told.node, "its inputs are unknown" in told.reason) == ("sin", True)
