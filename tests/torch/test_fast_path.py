"""Steps that follow the step before give the recording that they would have given one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nodescope import api, native
from nodescope.adapters.torch.follower import rows
from nodescope.adapters.torch.loading.pacing import Pacing
from nodescope.adapters.torch.native_tap import copies, fast_path
from nodescope.adapters.torch.native_tap.scripts import Scripts
from nodescope.events import Level
from nodescope.record.governor import governor
from nodescope.record.governor.step_sampling import StepSampling
from nodescope.record.newest import newest_values
from nodescope.record.newest.held_values import HeldValues
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from tests.torch import step_programs, view_programs
from tests.torch.both_paths import check_equal, run
from tests.torch.taps import TAPS, tensors

Patch = pytest.MonkeyPatch
PROGRAMS = (*step_programs.FOLLOWED, *view_programs.FOLLOWED, *step_programs.NOT_FOLLOWED)


@pytest.mark.parametrize("tap", TAPS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize(
    ("level", "core"), [("timing", True), ("summary", True), ("summary", False)],
    ids=["timing", "summary", "summary without the native core"],
)  # fmt: skip
def test_the_recording_does_not_show_the_path(
    program: Callable[[], Any],
    level: Level,
    core: bool,
    tap: str,
    tmp_path: Path,
    monkeypatch: Patch,
) -> None:
    if not core:
        monkeypatch.setattr(native, "float_statistics", None)
        monkeypatch.setattr(rows, "_fill", None)
    torch.manual_seed(0)
    plain = tensors(program())
    ways = [
        run(program, tmp_path / f"{fast}.nscope", monkeypatch, fast=fast, tap=tap, level=level)
        for fast in (False, True)
    ]
    for results, _, _ in ways:
        assert all(map(torch.equal, plain, results))
    check_equal(ways[1][1], ways[0][1])
    followed = program not in step_programs.NOT_FOLLOWED and (core or tap == "native")
    assert ways[1][2] >= 2 or not followed
    assert ways[0][2] == 0


@pytest.mark.parametrize("tap", TAPS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_run_without_options_takes_the_fast_path(
    program: Callable[[], Any], tap: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    """The newest values are kept whole, and steps are left out now and then."""
    monkeypatch.setattr(StepSampling, "wants", lambda self, behind=False: self.steps % 4 != 3)
    monkeypatch.setattr(StepSampling, "left_out_for_certain", lambda self: 0)
    monkeypatch.setattr(fast_path.StepFastPath, "learns", lambda self: False)
    # The recording does not depend on times.
    monkeypatch.setattr(StepSampling, "left_ns", lambda self, more_ns=0.0: 1.0)
    monkeypatch.setattr(newest_values, "SHARE_NS", 1 << 60)
    monkeypatch.setattr(Pacing, "observes", lambda self: True)
    for name in ("_STRETCH_NS", "_TELLING_NS"):
        monkeypatch.setattr(governor, name, 1 << 60)
    torch.manual_seed(0)
    plain = tensors(program())
    options = {"newest": True, "max_slowdown": 2.0, "explicit": False}
    ways = [
        run(program, tmp_path / f"{fast}.nscope", monkeypatch, fast=fast, tap=tap, **options)
        for fast in (False, True)
    ]
    for results, _, _ in ways:
        assert all(map(torch.equal, plain, results))
    check_equal(ways[1][1], ways[0][1])
    assert ways[0][1]["blobs"]
    # These may never take the fast path: a tensor of no module is new after an unobserved step
    # writes to it.
    slow = (
        *step_programs.NOT_FOLLOWED, step_programs.buffers_written, step_programs.losses_added_up,
        view_programs.views_written_of_kept_memory,
        view_programs.views_written_of_memory_that_is_read_seldom,
    )  # fmt: skip
    assert ways[1][2] >= 1 or program in slow


@pytest.mark.parametrize("tap", TAPS)
@pytest.mark.parametrize("most_bytes", [4096, 40_000])
def test_copies_go_where_there_is_room(
    most_bytes: int, tap: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    """Memory is filled several times in a step, and only the end of a step is kept."""
    monkeypatch.setattr(copies, "CHUNK_BYTES", 2048)
    monkeypatch.setattr(newest_values, "SHARE_NS", 1 << 62)
    blobs = []
    for fast in (False, True):
        path = tmp_path / f"{fast}.nscope"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(HeldValues, "__init__", _less(HeldValues.__init__, most_bytes))
            _, contents, steps = run(
                step_programs.sgd, path, patch, fast=fast, tap=tap, newest=True
            )
        assert (steps > 0) == fast
        blobs.append({(seq, value): rest for seq, value, *rest in contents["blobs"]})
    slow, kept = blobs
    assert max(slow) == max(kept)
    assert len(slow.keys() & kept.keys()) > len(slow) / 3
    for key in slow.keys() & kept.keys():
        assert kept[key] == slow[key]
    assert sum(len(data) for *_, data in kept.values()) < most_bytes


def _less(original: Callable[..., None], most_bytes: int) -> Callable[..., None]:
    def init(self: Any, most: int, give_back: Any) -> None:
        original(self, most_bytes, give_back)

    return init


@pytest.mark.parametrize("tap", TAPS)
@pytest.mark.parametrize("newest", [False, True])
def test_elements_of_a_node_that_is_viewed_are_kept(
    newest: bool, tap: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    """In the steps that follow another, too: without Python, and as operator by operator."""
    monkeypatch.setattr(newest_values, "SHARE_NS", 1 << 62)
    begun = Recorder.__init__

    def viewed(self: Recorder, *given: Any, **options: Any) -> None:
        begun(self, *given, **options)
        self.keep_whole(everything=False, nodes=frozenset(range(20, 40)))

    monkeypatch.setattr(Recorder, "__init__", viewed)
    options: dict[str, Any] = {"newest": True} if newest else {"level": "summary"}
    ways = [
        run(step_programs.sgd, path, monkeypatch, fast=fast, tap=tap, **options)
        for fast in (False, True)
        if (path := tmp_path / f"{fast}.nscope")
    ]
    assert ways[1][2] >= 2
    kept = []
    for (_, contents, _), fast in zip(ways, (False, True), strict=True):
        with Recording.open(tmp_path / f"{fast}.nscope") as recording:
            ran = {row.seq: (row.node, row.step) for row in recording.executions()}
        kept.append({(*ran[seq], value): rest for seq, value, *rest in contents["blobs"]
                     if 20 <= ran[seq][0] < 40})  # fmt: skip
    assert {step for _, step, _ in kept[0]} >= set(range(1, step_programs.STEPS + 1))
    assert kept[0] == kept[1]


@pytest.mark.parametrize("tap", TAPS)
def test_steps_of_which_none_is_followed_are_taken_down_seldom(
    tap: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    taken: list[int] = []

    class Journal(fast_path.StepJournal):
        def __init__(self, version: int) -> None:
            super().__init__(version)
            taken.append(version)

    def program() -> Any:
        model = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(48):
            optimizer.zero_grad()
            model(torch.ones(3, 4)).sum().backward()
            optimizer.step()
        return list(model.parameters())

    monkeypatch.setattr(fast_path, "StepJournal", Journal)
    monkeypatch.setattr(Scripts, "next", lambda self, gradients: None)
    _, contents, steps = run(program, tmp_path / "run.nscope", monkeypatch, fast=True, tap=tap)
    assert steps == 0
    assert len(contents["steps"]) == 48
    assert 16 <= len(taken) <= 16 + 32 // 8


@pytest.mark.parametrize("begins", ["with the step", "within it"])
def test_a_profiler_of_the_program_sees_what_it_sees_without_us(
    begins: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    """What runs within an operator is not told to callbacks only while there are no others."""

    seen: list[list[str]] = []

    def program() -> torch.Tensor:
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        for step in range(12):
            if step == 11 and begins == "with the step":
                profiler.start()
            optimizer.zero_grad()
            loss = model(torch.ones(3, 4)).square().mean()
            if step == 11 and begins == "within it":
                profiler.start()
            loss.backward()
            optimizer.step()
        profiler.stop()
        names = [event.name for event in profiler.events()]
        seen.append([name for name in names if name.startswith("aten::")])
        return loss.detach()

    program()
    _, _, followed = run(program, tmp_path / "run.nscope", monkeypatch, fast=True)
    plain, observed = map(Counter, seen)
    assert plain.total() > 20
    assert not plain - observed
    assert followed


@pytest.mark.parametrize("tap", TAPS)
def test_the_state_that_an_operator_draws_from_is_kept_while_it_is_under_way(
    tap: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    """Any thread may ask for what was noted: here it is asked for once an operator has begun."""

    def program() -> Any:
        model = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(step_programs.STEPS):
            optimizer.zero_grad()
            y = model(torch.ones(3, 4))
            # The gradient that the tap waits for never comes.
            torch.native_dropout(y * 3, 0.5, True)
            y.sum().backward()
            optimizer.step()
        return list(model.parameters())

    asked: list[Any] = []
    waits = fast_path.StepFastPath.waits

    def asking(self: fast_path.StepFastPath, *given: Any) -> None:
        self.flush()
        asked.append(given)
        waits(self, *given)

    monkeypatch.setattr(fast_path.StepFastPath, "waits", asking)
    ways = [
        run(program, tmp_path / f"{fast}.nscope", monkeypatch, fast=fast, tap=tap, level="summary")
        for fast in (False, True)
    ]
    assert asked
    assert ways[1][2] >= 2
    assert any(b"generator" in attrs for _, attrs in ways[0][1]["calls"])
    check_equal(ways[1][1], ways[0][1])


@torch.library.custom_op("nodescope_tests::progress_within", mutates_args=())
def _progress_within(x: torch.Tensor) -> torch.Tensor:
    _within.append(_progress())
    return x.clone()


_within: list[int] = []


def _progress() -> int:
    run_now = api._current
    assert run_now is not None
    assert run_now.bus.progress is not None
    return run_now.bus.progress()


@pytest.mark.parametrize("tap", TAPS)
def test_nodes_that_no_event_tells_of_yet_are_counted(
    tap: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    """The sampler would take them for a gap between nodes."""
    told: list[tuple[int, int]] = []
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def program() -> torch.Tensor:
        for _ in range(8):
            optimizer.zero_grad()
            y = model(_progress_within(torch.ones(3, 4)))
            before = _progress()
            loss = y.square().mean()
            told.append((before, _progress()))
            loss.backward()
            optimizer.step()
        return loss.detach()

    _within.clear()
    _, _, followed = run(
        program, tmp_path / "run.nscope", monkeypatch, fast=True, tap=tap, level="timing"
    )
    assert followed >= 2
    assert all(before != after for before, after in told[-followed:])
    assert tap == "python" or _within == [-1] * 8
