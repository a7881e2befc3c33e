"""Replaying: recomputed values equal recorded ones bit for bit, or an error says why not."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import nodescope as ns
from nodescope.debug.replay import Replay
from nodescope.debug.replay.arrays import difference, relaid
from nodescope.errors import ReplayError
from nodescope.record.recording import Recording
from tests.core.debug.replay.checking import check
from tests.core.debug.replay.programs import recorded, training, without_arrays
from tests.depth import examples
from tests.programs import OURS, Program, programs


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("replay") / "training.nscope", training)


def value_of(recording: Recording, name: str) -> int:
    return next(row.value.id for row in recording.values() if row.value.name == name)


def same_as(less: Path, whole: Path, step: int) -> int:
    """Compare values recomputed from one recording with those kept in another."""
    count = 0
    with Recording.open(less) as here, Recording.open(whole) as there:
        replay = Replay(here, step)
        for execution in replay.executions():
            for value in replay.book.node(execution.node, execution.seq).outputs:
                kept = there.array(value, execution.seq)
                assert kept is not None
                result = replay.value(value, execution.seq)
                assert difference(kept, result.array, "", value, execution.seq) is None
                count += result.how == "recomputed"
    return count


def test_a_step_computed_again_is_the_same(path: Path) -> None:
    with Recording.open(path) as recording:
        for step in (1, 2, 3):
            checked = check(Replay(recording, step))
            assert checked.differences == ()
            assert checked.missing == {}
            assert checked.compared > 40


def test_values_that_were_not_kept_are_computed_from_the_leaves(path: Path) -> None:
    less = without_arrays(path)
    for step in (1, 2, 3):
        assert same_as(less, path, step) > 40


def test_parameters_of_later_steps_follow_from_the_first(path: Path, tmp_path: Path) -> None:
    """Only the data and the initial parameters are kept, so replaying repeats the training."""
    less = without_arrays(path)
    database = sqlite3.connect(less)
    database.execute(
        "DELETE FROM blob WHERE value IN (SELECT v.id FROM value v JOIN node n ON n.id = v.producer"
        " WHERE n.op = 'parameter') AND seq > (SELECT end_seq FROM step WHERE step = 1)"
    )
    database.commit()
    database.close()
    assert same_as(less, path, 3) > 40


def test_statistics_are_compared_where_arrays_are_missing(path: Path) -> None:
    with Recording.open(without_arrays(path)) as recording:
        checked = check(Replay(recording, 2))
    assert (checked.statistics, checked.missing) == ((), {})


def test_without_any_array_it_says_what_is_missing(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.nscope", training, level="summary")
    with Recording.open(path) as recording:
        replay = Replay(recording, 2)
        said = "is an input here, but its elements before the first step were not kept"
        with pytest.raises(ReplayError, match=said):
            replay.value(value_of(recording, "loss/mean"))
        assert check(replay).missing


def test_a_small_constant_is_known_from_its_statistics(tmp_path: Path) -> None:
    def program() -> None:
        for _ in ns.steps(range(3)):
            np.log(ns.tensor(np.array([1.0, 0.25])) - np.array([0.0, 0.5]))

    path = recorded(tmp_path / "r.nscope", program, level="summary")
    with Recording.open(path) as recording:
        result = Replay(recording, 2).value(value_of(recording, "subtract"))
    assert result.array.tolist() == [1.0, -0.25]
    assert result.how == "recomputed"


def test_a_changed_recording_is_detected(path: Path, tmp_path: Path) -> None:
    less = without_arrays(path, keep=("leaf", "matmul", "activation"))
    with Recording.open(less) as recording:
        value = value_of(recording, "hidden/tanh")
        execution = Replay(recording, 2).book.writer(value, Replay(recording, 2).last)
        assert execution is not None
        array = recording.array(value, execution.seq)
        assert array is not None
    changed = array.copy()
    changed[1, 2] = np.nextafter(changed[1, 2], 1.0)
    database = sqlite3.connect(less)
    blob = database.execute(
        "SELECT id FROM blob WHERE value = ? AND seq = ?", (value, execution.seq)
    ).fetchone()
    database.execute("UPDATE chunk SET data = ? WHERE blob = ?", (changed.tobytes(), blob[0]))
    # A deliberate change would drop the checksums as well.
    database.execute("DELETE FROM checksum")
    database.commit()
    database.close()
    with Recording.open(less) as recording:
        (result,) = check(Replay(recording, 2)).differences
        assert (result.node, result.count, result.at) == ("hidden/tanh", 1, (1, 2))
        assert Replay(recording, 2).value(value).how == "recorded"
        assert "hidden/tanh: 1 of 40 elements differ, first at [1, 2]" in str(result)


def test_a_compiled_step_is_computed_again(tmp_path: Path) -> None:
    def program() -> None:
        w = ns.parameter(np.linspace(-1, 1, 6).reshape(2, 3), name="w")
        optimizer = ns.optim.SGD([w], lr=0.1)

        @ns.compile
        def step(x: ns.Tensor) -> ns.Tensor:
            def body(carry: ns.Tensor, row: ns.Tensor) -> tuple[ns.Tensor, ns.Tensor]:
                new = np.tanh(carry + row @ w)
                return new, new

            _, rows = ns.scan(body, ns.tensor(np.zeros(3)), x)
            loss = np.mean(np.square(np.exp(rows) - 1.0))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        for x in ns.steps(np.random.default_rng(1).standard_normal((3, 4, 2))):
            step(ns.tensor(x))

    path = recorded(tmp_path / "r.nscope", program)
    with Recording.open(path) as recording:
        assert "scan" in {row.node.op for row in recording.nodes()}
        for step in (1, 2, 3):
            checked = check(Replay(recording, step))
            assert (checked.differences, checked.missing) == ((), {})
            assert checked.compared
    same_as(without_arrays(path), path, 3)


def test_a_kernel_in_c_is_within_its_error_bound(tmp_path: Path) -> None:
    @ns.compile(backend="c")
    def f(x: ns.Tensor, w: ns.Tensor) -> ns.Tensor:
        return np.mean(np.sqrt(np.square(np.tanh(x @ w + 1.0)) + 0.5))

    def program() -> None:
        f(ns.tensor(np.linspace(-1, 1, 600).reshape(30, 20)), ns.tensor(np.ones((20, 30))))

    with Recording.open(recorded(tmp_path / "r.nscope", program)) as recording:
        checked = check(Replay(recording))
    assert checked.missing == {}
    assert checked.compared >= 2
    for item in checked.differences:
        assert item.largest is not None
        assert item.largest < 1e-12


def runs(program: Program, path: Path) -> None:
    def run() -> None:
        inputs = [ns.tensor(array, requires_grad=True) for array in program.arrays()]
        program.loss(OURS, inputs).backward()

    recorded(path, run)


@settings(
    max_examples=examples(25),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(programs())
def test_random_programs(program: Program) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.nscope"
        runs(program, path)
        with Recording.open(path) as recording:
            checked = check(Replay(recording))
        assert (checked.differences, checked.missing) == ((), {})
        same_as(without_arrays(path), path, 0)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1),
        np.arange(24.0).reshape(4, 6)[::-2, ::-1],
        np.broadcast_to(np.arange(3.0), (4, 3)),
        np.lib.stride_tricks.sliding_window_view(np.arange(9.0), 3),
        np.arange(24.0).reshape(4, 6)[:, 1::3].T,
    ],
)
def test_arrays_keep_their_strides(array: np.ndarray) -> None:
    result = relaid(np.ascontiguousarray(array), array.strides)
    assert result.strides == array.strides
    assert (result == array).all()
    assert not result.flags.writeable


def test_a_layout_that_would_take_too_much_memory_is_left() -> None:
    array = np.zeros((2, 1))
    assert relaid(array, (1 << 40, 8)) is array


def test_what_runs_between_and_after_steps_belongs_to_the_step_before(tmp_path: Path) -> None:
    def program() -> None:
        for k, _ in enumerate(ns.steps(range(2))):
            np.exp(ns.tensor([1.0 + k]))
        with ns.name_scope("validation"):
            np.sqrt(ns.tensor([4.0]))

    with Recording.open(recorded(tmp_path / "r.nscope", program)) as recording:
        result = Replay(recording).value(value_of(recording, "validation/sqrt"))
        assert result.array.tolist() == [2.0]
        assert Replay(recording, 1).value(value_of(recording, "exp")).array[0] == np.exp(1.0)


@pytest.mark.parametrize(
    ("first", "other", "largest"),
    [
        (np.array([0.0, 1.0]), np.array([np.nan, 1.0]), None),
        (np.array([0.0, 1.0]), np.array([np.nan, 4.0]), 3.0),
        (np.array([2**53 + 1]), np.array([2**53]), 1.0),
        (np.array([-(2**63)]), np.array([2**63 - 1]), 2.0**64),
        (np.array([-128, 3], np.int8), np.array([127, 3], np.int8), 255.0),
        (np.array([3], np.uint8), np.array([250], np.uint8), 247.0),
    ],
)
def test_the_largest_difference_is_of_what_differs(
    first: np.ndarray, other: np.ndarray, largest: float | None
) -> None:
    result = difference(first, other, "n", 1, 1)
    assert result is not None
    assert result.largest == largest
