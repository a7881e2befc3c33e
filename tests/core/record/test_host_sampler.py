"""The sampler: time between nodes gets the user's line, and no frame outlives a sample."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.engine.static.compiled import CompiledFunction
from nodescope.engine.static.lowering import Lowering
from nodescope.events import HostSpan, StepStarted
from nodescope.origins import origin
from nodescope.record import host_sampler
from nodescope.record.host_sampler import (
    Frames,
    Sampler,
    active_ns,
    frames_of,
    place_of,
    runs_nodescope,
)
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from tests.core.record.runs import chain, finished

MS = 1_000_000


def code(file: str, function: str) -> CodeType:
    """A function of this name in this file."""
    return (lambda: None).__code__.replace(co_filename=file, co_name=function, co_qualname=function)


MODULE = (code("train.py", "<module>"), 41, 0)
LOADER = (code("data.py", "batches"), 12, 0)
AUGMENT = (code("data.py", "augment"), 30, 0)
QUEUE = (code(queue.__file__, "get"), 171, 0)
PACKAGE = (code("/venv/lib/site-packages/imaging/core.py", "decode"), 5, 0)
OP = (code(str(Path(ns.__file__).parent / "ops" / "matmul.py"), "impl"), 3, 0)
STEPS = (code(str(Path(ns.__file__).parent / "engine" / "scopes.py"), "steps"), 90, 0)


class Bench:
    """A sampler with a simulated clock and program; samples are 10 ms apart."""

    def __init__(self) -> None:
        self.now, self.seq, self.step, self.busy_ns = 0, 0, (1, True), 0
        self.frames: Frames = []
        self.spans: list[HostSpan] = []
        self.sampler = Sampler(
            self.spans.append,
            now_ns=lambda: self.now,
            seq=lambda: self.seq,
            step=lambda: self.step,
            threads=set(),
            frames=lambda _: self.frames,
            processor=lambda _: self.busy_ns,
        )

    def run(self, *samples: Frames, busy: bool = True) -> Bench:
        for frames in samples:
            self.frames = frames
            self.now += 10 * MS
            self.busy_ns += 10 * MS if busy else 0
            self.sampler.look()
        return self

    def told(self) -> list[tuple[str, int, int, str, int, str]]:
        return [
            (span.kind, span.start_ns // MS, span.end_ns // MS, span.file, span.line, span.function)
            for span in self.spans
        ]


def test_a_gap_is_named_by_the_users_line() -> None:
    bench = Bench().run([OP, MODULE], *[[AUGMENT, MODULE]] * 3, [OP, MODULE])
    assert bench.told() == [("python", 15, 45, "data.py", 30, "augment")]


def test_nodes_that_no_event_tells_of_yet_end_a_gap() -> None:
    bench = Bench()
    told: list[int] = []
    bench.sampler = Sampler(
        bench.spans.append, now_ns=lambda: bench.now, seq=lambda: 0, step=lambda: bench.step,
        progress=lambda: told.pop, threads=set(), frames=lambda _: bench.frames,
        processor=lambda _: bench.busy_ns,
    )  # fmt: skip
    told[:] = [9, 5, 4, 3, 3, 3, 2, -1, -1, -1, 1, 0]
    bench.run(*[[AUGMENT, MODULE]] * 11, [OP])
    assert bench.told() == [("python", 65, 95, "data.py", 30, "augment")]


def test_of_several_threads_any_may_run_the_node_that_no_frame_shows() -> None:
    bench = Bench()
    bench.sampler = Sampler(
        bench.spans.append, now_ns=lambda: bench.now, seq=lambda: 0, step=lambda: bench.step,
        progress=lambda: lambda: -1, threads={1, 2}, frames=lambda _: bench.frames,
        processor=lambda _: bench.busy_ns,
    )  # fmt: skip
    bench.run(*[[AUGMENT, MODULE]] * 3, [OP])
    assert {span.thread for span in bench.spans} == {1, 2, bench.sampler._main}


def test_a_thread_that_does_not_compute_waits() -> None:
    bench = Bench().run(*[[LOADER, STEPS, MODULE]] * 4, [OP, MODULE], busy=False)
    assert bench.told() == [("waiting", 5, 45, "data.py", 12, "batches")]
    # What the thread computes after the last sample does not count.
    bench = Bench().run(*[[LOADER, STEPS, MODULE]] * 2, busy=False).run([OP, MODULE])
    assert [kind for kind, *_ in bench.told()] == ["waiting"]


def test_a_library_is_named_with_the_line_that_called_it() -> None:
    bench = Bench().run(*[[PACKAGE, AUGMENT, MODULE]] * 2, [OP], *[[QUEUE, MODULE]] * 2, [OP])
    assert bench.told() == [
        ("library", 5, 25, "data.py", 30, "imaging"),
        ("library", 35, 55, "train.py", 41, "queue"),
    ]


IMPORTING = (code("<frozen importlib._bootstrap>", "_find_and_load"), 1360, 0)
OWN = (code(str(Path(ns.__file__).parent / "nn" / "linear.py"), "<module>"), 7, 0)
LAZY = (code(ns.__file__, "__getattr__"), 150, 0)


def test_importing_our_own_modules_is_the_programs_time() -> None:
    bench = Bench().run(*[[OWN, IMPORTING, MODULE]] * 2, *[[OWN, IMPORTING, LAZY, MODULE]] * 2)
    bench.run([OP, MODULE])
    assert bench.told() == [("library", 5, 45, "train.py", 41, "import")]


@pytest.mark.parametrize(
    "file", [("static", "compiled.py", "_traced"), ("static", "lowering.py", "_prepare")]
)
def test_time_in_a_compiling_span_is_not_reported_twice(file: tuple[str, ...]) -> None:
    *path, function = file
    compiling = (code(str(Path(ns.__file__).parent.joinpath("engine", *path)), function), 1, 0)
    assert Bench().run(*[[AUGMENT, compiling, MODULE]] * 3, [OP]).told() == []
    assert callable(getattr(CompiledFunction if "compiled.py" in file else Lowering, function))


def test_a_line_at_which_nodes_run_is_not_a_gap() -> None:
    bench = Bench()
    for _ in range(6):
        bench.seq += 1
        bench.run([AUGMENT, MODULE])
    assert bench.told() == []


def test_a_single_other_sample_is_part_of_the_same_gap() -> None:
    inner, outer = [AUGMENT, MODULE], [MODULE]
    bench = Bench().run(outer, outer, inner, outer, outer, inner, inner, [OP])
    assert [(start, end, line) for _, start, end, _, line, _ in bench.told()] == [
        (5, 65, 41),
        (65, 75, 30),
    ]


def test_in_an_unobserved_step_only_fetching_is_named() -> None:
    bench = Bench()
    bench.step = (3, False)
    bench.run(*[[AUGMENT, MODULE]] * 3, *[[LOADER, STEPS, MODULE]] * 3, [MODULE])
    assert bench.told() == [("python", 35, 65, "data.py", 12, "batches")]


class Waits:
    """In place of a sampler's waits: for a pause in what the core notes, and for a moment."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paused_ns, self.woken = 4 * MS, False
        self.pauses: list[tuple[int, ...]] = []
        self.moments: list[float] = []
        monkeypatch.setattr(bench.sampler, "_pauses", self)
        monkeypatch.setattr(bench.sampler, "_soon", self)

    def wait(self, *arguments: int) -> int:
        self.pauses.append(arguments)
        return self.paused_ns

    def acquire(self, blocking: bool = True, timeout: float = 0) -> bool:
        if blocking:
            self.moments.append(timeout)
        return self.woken

    def release(self) -> None:
        self.woken = True

    def end(self) -> None:
        pass


@pytest.mark.parametrize("open_gap", [False, True])
@pytest.mark.parametrize("resting", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_core_waits_for_the_first_gap_of_a_thread_in_observed_steps(
    monkeypatch: pytest.MonkeyPatch, open_gap: bool, resting: bool, threads: int
) -> None:
    bench = Bench()
    waits = Waits(bench, monkeypatch)
    bench.sampler._threads |= set(range(1, threads + 1))
    bench.run([LOADER if open_gap else OP]).sampler.rest(resting)
    assert bench.sampler._waited()
    if open_gap or resting or threads > 1:
        assert (waits.pauses, waits.moments) == ([], [0.05 if resting else 0.008])
    else:
        assert (waits.pauses, waits.moments) == ([(bench.now, 4000, 2, 60)], [])


def test_a_gap_began_with_the_pause_and_its_second_sample_comes_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    waits = Waits(bench, monkeypatch)
    bench.run([OP])
    bench.frames = [LOADER]
    for now in (100, 104, 112):
        bench.now = bench.busy_ns = now * MS
        assert bench.sampler._waited()
        bench.sampler.look()
    bench.run([OP])
    assert waits.moments == [0.004, 0.008]
    assert bench.told() == [("python", 96, 117, "data.py", 12, "batches")]


def test_only_the_end_of_the_run_ends_the_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program may begin and end its steps at any moment."""
    bench = Bench()
    waits = Waits(bench, monkeypatch)
    for resting in (True, False, True, True, False):
        waits.woken = True
        bench.sampler.rest(resting)
        assert bench.sampler._waited()
    bench.sampler.stop()
    assert not bench.sampler._waited()


def test_no_wake_up_is_left_for_a_later_nap(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    soon = bench.sampler._soon
    Waits(bench, monkeypatch)
    monkeypatch.setattr(bench.sampler, "_soon", soon)
    bench.sampler._naps = True
    bench.now += 100 * MS
    bench.sampler.rest(False)  # while it takes a sample
    assert not bench.sampler._soon.locked()
    assert bench.sampler._waited()
    assert bench.sampler._soon.locked()


def test_the_prompt_is_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    assert Bench().run([], [], [OP]).told() == [("input", 5, 25, "", 0, "")]
    shell = [(code("/venv/lib/site-packages/IPython/loop.py", "run"), 1, 0)]
    assert place_of(shell, observed=True, main=True) is not None
    assert place_of(shell, observed=True, main=False) is None


def test_whose_code_a_file_is() -> None:
    assert origin(threading.__file__) == "threading"
    assert origin(np.linalg.__file__) == "numpy"
    assert origin(ns.__file__) == "nodescope"
    assert origin("/home/me/train.py") == origin("<stdin>") == ""


def test_frames_are_those_of_the_thread_and_are_not_kept_alive() -> None:
    ready, go = threading.Event(), threading.Event()
    left: list[weakref.ref[np.ndarray]] = []

    def work() -> None:
        local = np.zeros(3)
        left.append(weakref.ref(local))
        ready.set()
        go.wait(60)

    thread = threading.Thread(target=work)
    thread.start()
    assert ready.wait(60)
    seen = frames_of(thread.ident or 0)
    assert "work" in [item[0].co_name for item in seen]
    assert all(isinstance(item[0], CodeType) for item in seen)
    go.set()
    thread.join(60)
    assert left[0]() is None
    assert frames_of(thread.ident or 0) == []


@pytest.mark.parametrize(("caller", "is_ours"), [("main", True), ("_find_and_load", False)])
def test_a_thread_in_nodescope_has_no_place_unless_it_imports(caller: str, is_ours: bool) -> None:
    ready, lock = threading.Event(), threading.Lock()
    ours = compile("ready.set(); lock.acquire()", str(Path(ns.__file__).parent / "a.py"), "exec")
    calling = compile("exec(ours)", "<frozen importlib._bootstrap>", "exec")

    def work() -> None:
        exec(calling.replace(co_name=caller), {"ready": ready, "lock": lock, "ours": ours})

    thread = threading.Thread(target=work, daemon=True)
    with lock:
        thread.start()
        assert ready.wait(60)
        while (frames := frames_of(thread.ident or 0))[0][0] is not ours:
            pass  # it returns from the call before
        assert runs_nodescope(thread.ident or 0) is is_ours
        assert (place_of(frames, observed=True, main=False) is None) is is_ours
    thread.join(60)
    assert not runs_nodescope(thread.ident or 0)


def test_host_time_is_recorded_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    recorder = Recorder(path)
    recorder.emit(chain(["a/x"]))
    recorder.emit(finished(chain(["a/x"]).nodes[0], np.zeros((2, 3))))
    before = recorder.last_seq
    recorder.emit(HostSpan("data", 1, 2, 100, 900, "train.py", 4, "<module>"))
    recorder.emit(HostSpan("held", 1, 2, 1000, 5000))
    recorder.emit(HostSpan("held", 2, 2, 4000, 6000))
    assert recorder.last_seq == before, "it has no number: a moment is a record's"
    assert recorder.close()
    with Recording.open(path) as recording:
        assert [item.kind for item in recording.host(0, 10_000, 10)] == ["data", "held", "held"]
        assert [item.kind for item in recording.host(0, 10_000, 10, held=False)] == ["data"]
        assert [item.start_ns for item in recording.host(2000, 10_000, 1)] == [1000]
        assert recording.holds() == [(1000, 6000)]


def test_a_slow_loader_is_data_loading_and_its_sleep_is_named(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"

    def batches() -> object:
        for _ in range(3):
            time.sleep(0.1)
            yield np.ones(4)

    with ns.record(path, "timing"):
        for batch in ns.steps(batches()):
            np.tanh(ns.tensor(batch))
    with Recording.open(path) as recording:
        host = recording.host(0, recording.time_ns(), 100)
        steps = recording.steps()
    data = [item for item in host if item.kind == "data"]
    assert [datum.step for datum in data] == [1, 2, 3]
    assert all(datum.end_ns - datum.start_ns >= 0.1e9 for datum in data)
    assert all(a.end_ns <= b.start_ns for a, b in zip(data, steps, strict=True))
    assert {datum.file for datum in data} == {__file__}
    inner = [item for item in host if item.kind == "waiting" and item.file == __file__]
    assert "time.sleep" in {item.function for item in inner}


def test_a_thread_that_is_ready_and_gets_no_processor_is_active() -> None:
    """As on a busy machine: it computes, and another program has its processor."""
    processor = min(os.sched_getaffinity(0))
    burn = f"import os; os.sched_setaffinity(0, {{{processor}}})\nwhile True: pass"
    ended = threading.Event()

    def compute() -> None:
        os.sched_setaffinity(threading.get_native_id(), {processor})
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        numbers = np.random.default_rng(0).standard_normal(100_000)
        while not ended.is_set():
            np.sort(numbers)  # Runs without the interpreter lock.

    thread = threading.Thread(target=compute)
    with subprocess.Popen([sys.executable, "-c", burn]) as burner:
        try:
            thread.start()
            assert thread.ident is not None
            began, before = time.monotonic_ns(), active_ns(thread.ident)
            assert before is not None
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                ended.wait(0.2)
                share = ((active_ns(thread.ident) or 0) - before) / (time.monotonic_ns() - began)
                clock = time.pthread_getcpuclockid(thread.ident)
                computed = time.clock_gettime_ns(clock) / (time.monotonic_ns() - began)
                if share > 0.6 and computed < 0.25:
                    break
            else:
                raise AssertionError((share, computed))
        finally:
            ended.set()
            burner.kill()
            thread.join()


def test_looking_all_the_time_changes_no_result(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def train() -> np.ndarray:
        w = ns.parameter(np.full((8, 8), 0.1), name="w")
        running = ns.tensor(np.zeros(8))

        def loss_of(batch: np.ndarray) -> ns.Tensor:
            local = ns.tensor(batch) @ w  # A reference to the frame would keep this tensor alive.
            hidden = np.tanh(local)
            hidden *= 0.5  # The reference count decides whether this may write in place.
            return (hidden * hidden).mean()

        for k in ns.steps(range(60)):
            loss = loss_of(np.full((4, 8), k / 60))
            loss.backward()
            with ns.no_grad():
                running += w.grad.sum(axis=0)
                w -= 0.1 * w.grad
            w.grad = None
        return np.concatenate([w.numpy().ravel(), running.numpy()])

    monkeypatch.setattr(host_sampler, "INTERVAL_S", 1e-5)
    plain = train()
    with ns.record(tmp_path / "r.nscope", "timing"):
        sampled = train()
    np.testing.assert_array_equal(plain, sampled)


def test_an_instruction_without_a_line_is_reported_by_its_functions_first_one() -> None:
    """Python says None where a frame cleans up, such as at the end of ``with``."""
    code = compile("def work():\n    pass\n", "/home/a/train.py", "exec").co_consts[0]
    frames: Any = [(code, None, 0)]
    place = place_of(frames, observed=True, main=True)
    assert place is not None
    assert (place.file, place.line) == ("/home/a/train.py", 1)


def test_a_span_beside_unobserved_steps_does_not_wake_the_writer(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r.nscope", level="timing")
    recorder.emit(StepStarted(1, 1_000, observed=False))
    assert recorder.flush()
    woken: list[bool] = []
    recorder.wake = lambda: woken.append(True)  # type: ignore[method-assign]
    recorder.emit(HostSpan("python", 1, 1, 2_000, 3_000))
    assert not woken
    recorder.emit(HostSpan("python", 1, 1, 3_000, 2 * 10**9))
    assert woken
    del recorder.wake  # type: ignore[method-assign]
    assert recorder.close()
    with Recording.open(tmp_path / "r.nscope") as recording:
        assert len(recording.host(0, 2 * 10**9, 10)) == 2


def test_a_nap_lasts_where_loops_begin_and_end_all_the_time() -> None:
    now = [0]
    sampler = Sampler(
        lambda _: None, now_ns=lambda: now[0], seq=lambda: 0, step=lambda: (1, False), threads=set()
    )
    woken: list[int] = []
    sampler._wake = lambda: woken.append(now[0])  # type: ignore[method-assign]
    for now[0] in range(0, 200_000_000, 5_000_000):
        sampler._naps = True  # as the thread does whenever it begins a nap
        sampler.rest(True)
        sampler.rest(False)
    assert woken == [0, 50_000_000, 100_000_000, 150_000_000]


def test_the_sampler_rests_during_unobserved_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host_sampler, "RESTING_INTERVAL_S", 3600.0)
    looked = threading.Event()

    def frames(_: int) -> Frames:
        looked.set()
        return []

    sampler = Sampler(
        lambda _: None, now_ns=time.perf_counter_ns, seq=lambda: 0, step=lambda: (1, False),
        threads=set(), frames=frames, processor=lambda _: 0,
    )  # fmt: skip
    sampler.rest(True)
    sampler.start()
    thread = sampler._thread
    assert thread is not None
    assert not looked.is_set()
    sampler.rest(False)
    assert looked.wait(60)
    sampler.rest(True)
    sampler.stop()  # Stopping ends the rest.
    thread.join(60)
    assert not thread.is_alive()
