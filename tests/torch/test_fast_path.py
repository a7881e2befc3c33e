"""Steps that follow the step before give the recording that they would have given one by one."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nodescope import native
from nodescope.adapters.torch.native_tap import choosing, copies, fast_path
from nodescope.events import Level
from nodescope.record.governor import governor
from nodescope.record.governor.step_sampling import StepSampling
from nodescope.record.newest import newest_values
from nodescope.record.newest.held_values import HeldValues
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from tests.adapters.driving import recorded
from tests.torch import step_programs
from tests.torch.taps import tensors

Patch = pytest.MonkeyPatch
PROGRAMS = (*step_programs.FOLLOWED, *step_programs.NOT_FOLLOWED)


def _run(
    program: Callable[[], Any], path: Path, patch: Patch, *, fast: bool, **options: Any
) -> tuple[Any, dict[str, Any], int]:
    """What a program returns, its recording, and how many steps followed another."""
    paths: list[fast_path.NativeFastPath] = []

    class FastPath(fast_path.NativeFastPath):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            paths.append(self)

    patch.setattr("nodescope.adapters.torch.attachment.NativeFastPath", FastPath)
    patch.setenv(choosing.VARIABLE, "native")
    patch.setenv(fast_path.VARIABLE, "1" if fast else "0")
    said: list[str] = []
    patch.setattr("nodescope.adapters.torch.attachment.say", said.append)
    torch.manual_seed(0)
    result = recorded(path, program, **options)
    assert not said
    return tensors(result), _contents(path), paths[0].steps


def _contents(path: Path) -> dict[str, Any]:
    """All that a recording says, but for times; values by their order."""
    contents: dict[str, Any] = {}
    with Recording.open(path) as recording:
        database = sqlite3.connect(path)

        def ask(statement: str) -> list[Any]:
            return database.execute(statement).fetchall()

        ids: dict[int, int] = {}

        def number(id: int | None) -> int:
            return ids.setdefault(id or 0, len(ids))

        contents["values"] = [
            (number(id), *rest)
            for id, *rest in ask(
                "SELECT id, name, dtype, shape, producer, device FROM value ORDER BY row"
            )
        ]
        contents["nodes"] = [
            (
                row.seq, row.node.id, row.node.name, row.node.op, row.node.scope, row.node.phase,
                tuple(map(number, row.node.inputs)), tuple(map(number, row.node.outputs)),
                repr(row.node.attrs), row.node.forward, row.node.source, row.node.writes,
                row.node.role,
            )
            for row in recording.nodes()
        ]  # fmt: skip
        executions = recording.executions()
        contents["executions"] = [(row.seq, row.node, row.step, row.flags) for row in executions]
        state = recording.state_at(recording.last_seq())
        contents["times"] = [(row.seq, times) for row, times in state]
        contents["steps"] = ask("SELECT step, start_seq, end_seq, observed FROM step ORDER BY step")
        contents["gradients"] = [
            (seq, number(a), number(b))
            for seq, a, b in ask("SELECT seq, value, gradient FROM gradient ORDER BY seq")
        ]
        contents["losses"] = ask(
            "SELECT seq, step, curve, node, times, value FROM loss ORDER BY row"
        )
        contents["calls"] = ask("SELECT seq, attrs FROM call ORDER BY seq")
        contents["failures"] = ask("SELECT seq, error FROM failure ORDER BY seq")
        contents["summaries"] = sorted(
            (seq, number(value), *rest)
            for value, seq, *rest in ask(
                "SELECT value, seq, step, dtype, shape, nbytes, min, max, mean, std, norm, "
                "nan_count, inf_count, zero_count, histogram, preview FROM summary"
            )
        )
        contents["blobs"] = sorted(
            (seq, number(value), array.dtype.name, array.shape, array.tobytes())
            for value, seq in ask("SELECT value, seq FROM blob")
            if (array := recording.array(value, seq)) is not None
        )
        threads = [row.thread for row in executions]
        contents["threads"] = [threads.index(thread) for thread in threads]
    return contents


def _equal(fast: dict[str, Any], slow: dict[str, Any]) -> None:
    for name in slow:
        if name != "summaries":
            assert fast[name] == slow[name], name
    assert len(fast["summaries"]) == len(slow["summaries"])
    for one, other in zip(fast["summaries"], slow["summaries"], strict=True):
        assert (*one[:8], *one[11:]) == (*other[:8], *other[11:])
        for number, expected in zip(one[8:11], other[8:11], strict=True):  # the order of sums
            assert number == (expected and pytest.approx(expected, rel=1e-9, abs=1e-12))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize(
    ("level", "core"), [("timing", True), ("summary", True), ("summary", False)],
    ids=["timing", "summary", "summary without the native core"],
)  # fmt: skip
def test_the_recording_does_not_show_the_path(
    program: Callable[[], Any], level: Level, core: bool, tmp_path: Path, monkeypatch: Patch
) -> None:
    if not core:
        monkeypatch.setattr(native, "float_statistics", None)
    torch.manual_seed(0)
    plain = tensors(program())
    ways = [
        _run(program, tmp_path / f"{fast}.nscope", monkeypatch, fast=fast, level=level)
        for fast in (False, True)
    ]
    for results, _, _ in ways:
        assert all(map(torch.equal, plain, results))
    _equal(ways[1][1], ways[0][1])
    assert ways[1][2] >= 2 or program in step_programs.NOT_FOLLOWED
    assert ways[0][2] == 0


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_run_without_options_takes_it(
    program: Callable[[], Any], tmp_path: Path, monkeypatch: Patch
) -> None:
    """The newest values are kept whole, and steps are left out now and then."""
    monkeypatch.setattr(StepSampling, "wants", lambda self, behind=False: self.steps % 4 != 3)
    monkeypatch.setattr(StepSampling, "left_out_for_certain", lambda self: 0)
    monkeypatch.setattr(fast_path.NativeFastPath, "learns", lambda self: False)
    monkeypatch.setattr(newest_values, "SHARE_NS", 1 << 60)  # nothing depends on times
    for name in ("_STRETCH_NS", "_TELLING_NS"):
        monkeypatch.setattr(governor, name, 1 << 60)
    torch.manual_seed(0)
    plain = tensors(program())
    options = {"newest": True, "max_slowdown": 2.0, "explicit": False}
    ways = [
        _run(program, tmp_path / f"{fast}.nscope", monkeypatch, fast=fast, **options)
        for fast in (False, True)
    ]
    for results, _, _ in ways:
        assert all(map(torch.equal, plain, results))
    _equal(ways[1][1], ways[0][1])
    assert ways[0][1]["blobs"]
    # What is no module's, and was written to in a step that was left out, is new each time.
    slow = (*step_programs.NOT_FOLLOWED, step_programs.buffers_written)
    assert ways[1][2] >= 1 or program in slow


@pytest.mark.parametrize("most_bytes", [4096, 40_000])
def test_copies_go_where_there_is_room(most_bytes: int, tmp_path: Path, monkeypatch: Patch) -> None:
    """Memory is filled several times in a step, and only the end of a step is kept."""
    monkeypatch.setattr(copies, "CHUNK_BYTES", 2048)
    monkeypatch.setattr(newest_values, "SHARE_NS", 1 << 62)
    blobs = []
    for fast in (False, True):
        path = tmp_path / f"{fast}.nscope"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(HeldValues, "__init__", _less(HeldValues.__init__, most_bytes))
            _, contents, steps = _run(step_programs.sgd, path, patch, fast=fast, newest=True)
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


@pytest.mark.parametrize("newest", [False, True])
def test_elements_of_a_node_that_is_viewed_are_kept(
    newest: bool, tmp_path: Path, monkeypatch: Patch
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
        _run(step_programs.sgd, tmp_path / f"{fast}.nscope", monkeypatch, fast=fast, **options)
        for fast in (False, True)
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
    _, _, followed = _run(program, tmp_path / "run.nscope", monkeypatch, fast=True)
    plain, observed = map(Counter, seen)
    assert plain.total() > 20
    assert not plain - observed
    assert followed
