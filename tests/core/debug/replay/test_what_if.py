"""What if: only nodes that depend on an edit are rerun, with the results of an edited program."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.debug.replay import Replay
from nodescope.errors import ReplayError
from nodescope.record.recording import Recording
from tests.core.debug.replay.checking import check
from tests.core.debug.replay.programs import recorded
from tests.core.debug.replay.test_replay import value_of


def program(scale: float = 1.0, shift: float = 0.0) -> None:
    w = ns.parameter(np.array([1.0, -2.0, 3.0]), name="w")
    optimizer = ns.optim.SGD([w], lr=0.1)
    for x in ns.steps([np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.0, -1.0])]):
        a = ns.tensor(x, name="a") * scale
        b = w * 2.0 + shift
        with ns.name_scope("loss"):
            loss = np.sum(np.square(a * b))
        with ns.name_scope("other"):
            np.maximum(b, 100.0)
            np.exp(a * 0.1)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.fixture
def recording(tmp_path: Path) -> object:
    with Recording.open(recorded(tmp_path / "r.nscope", program)) as result:
        yield result


def test_only_what_depends_on_the_edit_runs(recording: Recording) -> None:
    replay = Replay(recording, 1)
    branch = replay.what_if({value_of(recording, "multiply"): np.array([10.0, 20.0, 30.0])})
    assert branch.blocked == ()
    assert (branch.changes[0].node, branch.changes[0].edited) == ("multiply", True)
    names = [change.node for change in branch.changes]
    assert "loss/sum" in names
    assert any(name.startswith("backward/") for name in names)
    assert any(name.startswith("optimizer/") for name in names)
    assert "other/maximum" not in [*names, *branch.same]


def test_a_parameter_carries_an_edit_into_the_next_step(recording: Recording) -> None:
    replay = Replay(recording, 1)
    edit = {value_of(recording, "multiply"): np.array([10.0, 20.0, 30.0])}
    branch = replay.what_if(edit, until=recording.last_seq())
    (_, end), (start, _) = (replay.book.step_range(item) for item in (1, 2))
    later = [change.node for change in branch.changes if change.seq > start]
    assert end < start
    assert later[:2] == ["w", "multiply_1"]
    assert "loss/sum" in later


def test_a_branch_gives_the_results_of_the_edited_program(tmp_path: Path) -> None:
    """Compare scaling the data by an edit with scaling it in the program."""
    first = recorded(tmp_path / "one.nscope", lambda: program())
    two = recorded(tmp_path / "two.nscope", lambda: program(scale=3.0))
    with Recording.open(first) as here, Recording.open(two) as there:
        replay, other = Replay(here, 1), Replay(there, 1)
        edit = other.value(value_of(there, "multiply")).array
        branch = replay.what_if({value_of(here, "multiply"): edit})
        compared = 0
        for change in branch.changes:
            result = other.value(value_of(there, change.node)).array
            assert result.tobytes() == change.new.tobytes()
            compared += 1
        assert compared > 8


def test_an_unchanged_value_ends_the_cone(recording: Recording) -> None:
    replay = Replay(recording, 2)
    edited = value_of(recording, "add")  # The output of w * 2 + 0, far below 100.
    branch = replay.what_if({edited: np.array([5.0, 6.0, 7.0])}, name="less")
    assert "other/maximum" in branch.same
    assert "other/exp" not in [*branch.same, *(change.node for change in branch.changes)]


def test_an_edit_of_nothing_changes_nothing(recording: Recording) -> None:
    replay = Replay(recording, 1)
    edited = value_of(recording, "multiply")
    branch = replay.what_if({edited: replay.value(edited).array})
    assert [change.edited for change in branch.changes] == [True]
    assert branch.changes[0].difference.count == 0


def test_branches_have_names_and_a_tree(recording: Recording) -> None:
    replay = Replay(recording, 1)
    edited, w = value_of(recording, "multiply"), value_of(recording, "add")
    replay.what_if({edited: np.ones(3)}, name="ones")
    child = replay.what_if({w: np.zeros(3)}, parent="ones")
    assert child.name == "branch 2"
    loss = value_of(recording, "loss/sum")
    change = child.value(loss)
    assert change is not None
    # `old` is the value in the parent branch; `new` has the edits of both branches.
    assert change.old == np.sum(np.square(replay.value(w).array))
    assert change.new == 0.0
    assert list(replay.branches) == ["ones", "branch 2"]
    assert child.parent == "ones"
    with pytest.raises(ReplayError, match="already"):
        replay.what_if({edited: np.ones(3)}, name="ones")
    with pytest.raises(ReplayError, match="no branch named 'none'"):
        replay.what_if({edited: np.ones(3)}, parent="none")
    replay.drop("ones")
    assert replay.branches == {}


def test_edits_that_do_not_fit(recording: Recording) -> None:
    replay = Replay(recording, 1)
    edited = value_of(recording, "multiply")
    with pytest.raises(ReplayError, match=r"shape \(3,\); it cannot be set to shape \(2,\)"):
        replay.what_if({edited: np.ones(2)})
    with pytest.raises(ReplayError, match="complex128 cannot be converted"):
        replay.what_if({edited: np.ones(3, complex)})
    assert replay.branches == {}


def test_what_cannot_run_is_listed_with_what_depends_on_it(tmp_path: Path) -> None:
    def indexed() -> None:
        at = ns.tensor(np.array([0, 2]))
        np.exp(ns.tensor(np.arange(3.0))[at]) + 1.0

    with Recording.open(recorded(tmp_path / "r.nscope", indexed)) as recording:
        replay = Replay(recording)
        at = next(r.node.inputs[1] for r in recording.nodes() if r.node.op == "getitem")
        branch = replay.what_if({at: np.array([0, 7])})
    assert [event.node for event in branch.blocked] == ["getitem", "exp", "add"]
    assert "out of bounds" in branch.blocked[0].reason
    assert branch.blocked[1].reason == "getitem could not be run"


def accumulating(third: float = 3.0) -> None:
    """Gradients of two steps are added: both are values of one node."""
    w = ns.parameter(np.ones(3), name="w")
    for x in ns.steps([2.0, third, 5.0, 7.0]):
        np.sum(np.square(ns.tensor(np.full(3, x), name="x") * w)).backward()
        if x in (third, 7.0):
            with ns.no_grad():
                ns.assign(w, w - 0.01 * w.grad)
            w.grad = None


@pytest.mark.parametrize("step", [1, 2])
def test_gradients_that_are_added_up_over_steps(step: int, tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.nscope", accumulating)
    with Recording.open(path) as recording:
        replay = Replay(recording, step)
        x = value_of(recording, "x")
        branch = replay.what_if({x: np.full(3, 11.0)}, until=recording.last_seq())
        (added, _) = (change for change in branch.changes if change.node == "backward/add")
        first, second = (2.0, 11.0) if step == 2 else (11.0, 3.0)
        assert added.new.tolist() == [2 * first**2 + 2 * second**2] * 3
        w = 1 - 0.01 * added.new
        assert branch.value(value_of(recording, "w")).new.tolist() == w.tolist()


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_an_edit_continues_through_an_optimizer_kernel(optimizer: str, tmp_path: Path) -> None:
    def program(scale: float) -> None:
        w = ns.parameter(np.linspace(0.5, 2.0, 6), name="w")
        settings = {"lr": 0.1, "momentum": 0.9} if optimizer == "SGD" else {"lr": 0.1}
        moving = getattr(ns.optim, optimizer)([w], **settings)

        @ns.compile(backend="c")
        def step(x: ns.Tensor) -> ns.Tensor:
            loss = np.sum(np.square(x * w - 1.0))
            moving.zero_grad()
            loss.backward()
            moving.step()
            return loss

        for i, x in enumerate(ns.steps([0.3, 0.5, 0.7])):
            step(ns.tensor(np.full(6, x * (scale if not i else 1.0)), name="x"))

    first = recorded(tmp_path / "one.nscope", lambda: program(1.0))
    two = recorded(tmp_path / "two.nscope", lambda: program(2.0))
    with Recording.open(first) as here, Recording.open(two) as there:
        assert check(Replay(here, 2)).missing == {}
        until = here.last_seq()
        branch = Replay(here, 1).what_if({value_of(here, "x"): np.full(6, 0.6)}, until=until)
        assert branch.blocked == ()
        truth = Replay(there, 3).value(value_of(there, "w")).array
        np.testing.assert_allclose(branch.value(value_of(here, "w")).new, truth, rtol=1e-12)


def test_a_loop_that_has_no_end_on_other_numbers_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @ns.compile
    def f(x: ns.Tensor) -> ns.Tensor:
        return np.sum(ns.while_loop(lambda a: np.sum(a) < 100, lambda a: a * 2 + 1, x)) * 2.0

    path = recorded(tmp_path / "r.nscope", lambda: f(ns.tensor([1.0, 2.0], name="x")))
    with Recording.open(path) as recording:
        x = value_of(recording, "x")
        fine = Replay(recording).what_if({x: np.array([3.0, 2.0])})
        assert fine.value(value_of(recording, "while_loop")).new.tolist() == [63.0, 47.0]
        assert check(Replay(recording)).differences == ()
        monkeypatch.setattr("nodescope.debug.replay.engine_dialect.LONGEST_LOOP_S", 0.0)
        branch = Replay(recording).what_if({x: np.array([-1.0, -1.0])})
        assert branch.blocked[0].node == "while_loop"
        assert "was stopped" in branch.blocked[0].reason
        assert {change.node for change in branch.changes} == {"x"}


@pytest.mark.parametrize("form", ["eager", "called twice", "two in one", "one kernel"])
def test_a_parameter_that_is_updated_twice_in_a_step(form: str, tmp_path: Path) -> None:
    def program(first: float = 1.0) -> None:
        w = ns.parameter(np.array([1.0, -2.0, 3.0]), name="w")
        optimizer = ns.optim.SGD([w], lr=0.1, momentum=0.5)

        def step(x: ns.Tensor) -> ns.Tensor:
            optimizer.zero_grad()
            np.sum(np.square(x * w)).backward()
            optimizer.step()
            return x * 1.0

        def both(x: ns.Tensor, y: ns.Tensor) -> ns.Tensor:
            return step(x) + step(y)

        backend = "c" if form == "one kernel" else "numpy"
        once = step if form == "eager" else ns.compile(step, backend=backend)
        twice = ns.compile(both, backend=backend)
        for i, x in enumerate(ns.steps([1.0, 0.5, 2.0])):
            given = ns.tensor(np.full(3, x * (first if not i else 1.0)), name="x")
            other = ns.tensor(np.full(3, 0.25), name="y")
            if form in ("two in one", "one kernel"):
                twice(given, other)
            else:
                once(given)
                once(other)

    left_one = recorded(tmp_path / "one.nscope", program)
    two = recorded(tmp_path / "two.nscope", lambda: program(2.0))
    with Recording.open(left_one) as here, Recording.open(two) as there:
        branch = Replay(here, 1).what_if(
            {value_of(here, "x"): np.full(3, 2.0)}, until=here.last_seq()
        )
        assert branch.blocked == ()
        for name in ("w", "optimizer/w/velocity"):
            truth = Replay(there, 3).value(value_of(there, name)).array
            made = branch.value(value_of(here, name)).new
            # Generated C may round differently.
            np.testing.assert_allclose(made, truth, rtol=1e-12 if form == "one kernel" else 0)
