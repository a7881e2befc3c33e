"""Live watches: a hit stops at the node that caused it, logs, keeps values, or ends the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.api import Run
from nodescope.debug.project_settings import VARIABLE, ProjectSettings
from nodescope.debug.watch.live_watches import EXIT_STATUS, LiveWatches
from nodescope.debug.watch.rule import WatchError
from nodescope.protocol import SetWatches, WatchStatus
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from tests.core.debug.debugged import Debugged, debugged, gate_of

NAN = np.array([1.0, -1.0])


def watching(seen: Debugged, *watches: str, recorder: Recorder | None = None) -> LiveWatches:
    gate = gate_of(seen)
    result = LiveWatches(
        seen.bus, gate,
        seq_source=recorder.thread_seq if recorder is not None else lambda: 1,
        keep=recorder.keep if recorder is not None else lambda *_: None,
    )  # fmt: skip
    result.replace(watches)
    return result


def statuses(seen: Debugged) -> tuple[WatchStatus, ...]:
    return gate_of(seen).info.watches


def program(count: int = 3) -> None:
    for k in range(count):
        ns.step()
        with ns.name_scope("net"):
            y = np.log(ns.tensor(np.array([3.0, 2.0]) - 2.0 * k))
        np.sum(y)


def test_a_stopping_watch_stops_at_the_node_that_made_the_value() -> None:
    with debugged() as seen, np.errstate(all="ignore"):
        watching(seen, "tensor_overflow on op:log -> stop")
        program()
        (status,) = statuses(seen)
    assert [(stop.node_name, stop.step, stop.reason) for stop in seen.stops] == [
        ("net/log", 2, "watch"), ("net/log", 3, "watch"),
    ]  # fmt: skip
    assert [stop.watch for stop in seen.stops] == [1, 1]
    assert seen.stops[0].text.startswith("Watch 1, tensor_overflow: net/log")
    assert (status.hits, status.step) == (2, 3)
    assert status.last


def test_a_logging_watch_continues() -> None:
    with debugged() as seen, np.errstate(all="ignore"):
        watching(seen, "tensor_overflow on op:log -> log")
        program()
    assert seen.stops == []
    assert [text.startswith("watch 1, tensor_overflow: ") for text in seen.logged] == [True, True]


def test_a_marking_watch_reports_its_newest_hits() -> None:
    with debugged() as seen, np.errstate(all="ignore"):
        watching(seen, "tensor_overflow on op:log -> mark", "inf on op:log -> log")
        program(14)
        marking, logging = statuses(seen)
    assert seen.stops == []
    assert (marking.marks, marking.hits) == (True, 13)
    assert [item.step for item in marking.recent] == [14, 13, 12, 11, 10, 9, 8, 7]
    assert {event.node for event in marking.recent} == {marking.node}
    assert marking.recent[0].text == marking.last
    assert (logging.marks, len(logging.recent)) == (False, 1)


def test_an_ending_watch_ends_the_run() -> None:
    with debugged() as seen, np.errstate(all="ignore"):
        watching(seen, "tensor_overflow on op:log -> end")
        with pytest.raises(SystemExit) as raised:
            program()
        (status,) = statuses(seen)
    assert raised.value.code == EXIT_STATUS
    assert status.step == 2
    assert len(seen.logged) == 1


def test_a_hit_with_save_keeps_the_values(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r.nscope", level="summary")
    with debugged(first=recorder) as seen, np.errstate(all="ignore"):
        watching(
            seen, "tensor_overflow on op:log -> save", "tensor_overflow -> save", recorder=recorder
        )
        program()
    recorder.close()
    with Recording.open(tmp_path / "r.nscope") as recording:
        (log,) = [row.node for row in recording.nodes() if row.node.op == "log"]
        kept = [
            recording.array(log.outputs[0], execution.seq)
            for execution in recording.executions()
            if execution.node == log.id
        ]
    assert kept[0] is None
    np.testing.assert_array_equal(kept[1], [0.0, -np.inf])
    np.testing.assert_array_equal(kept[2], [np.nan, np.nan])


def test_a_compiled_kernel_is_opened_for_a_watch() -> None:
    f = ns.compile(lambda x: np.sum(np.log(x) * 2.0), backend="auto")
    x = ns.tensor(np.full(40_000, -1.0))
    with np.errstate(all="ignore"):
        plain = f(x).numpy()
        with debugged() as seen:
            watching(seen, "tensor_overflow on op:log -> stop")
            ns.step()
            result = f(x).numpy()
    assert [stop.node_name for stop in seen.stops] == ["log"]
    np.testing.assert_array_equal(result, plain)


def test_the_set_is_replaced_and_hits_are_kept() -> None:
    with debugged() as seen, np.errstate(all="ignore"):
        result = watching(seen, "tensor_overflow on op:log -> log")
        program()
        with pytest.raises(WatchError, match="did you mean"):
            result.replace(["tensor_overflo"])
        assert [status.hits for status in statuses(seen)] == [2]
        result.replace(["tensor_overflow on op:log -> log", "weight_overflow -> log"])
        assert [status.hits for status in statuses(seen)] == [2, 0]
        result.replace([])
        program()
        assert statuses(seen) == ()
    assert len(seen.logged) == 2


def test_without_watches_nothing_is_evaluated() -> None:
    with debugged() as seen:
        result: Any = watching(seen)
        assert result not in seen.bus.probes
        result.replace(["tensor_overflow"])
        probes = seen.bus.probes
        assert probes.index(result) < probes.index(gate_of(seen))


def run(path: Path, *watches: str, **more: Any) -> Run:
    return Run(path / "run.nscope", level="values", debugger=True, watches=watches, **more)


def test_a_watch_set_late_knows_earlier_nodes(tmp_path: Path) -> None:
    lines: list[str] = []
    seen = run(tmp_path, say=lines.append)
    seen.start()
    try:
        with np.errstate(all="ignore"):
            program(2)
            seen.command(SetWatches(("tensor_overflow on op:log -> log",)))
            program(2)
    finally:
        seen.finish()
    assert [item[:40] for item in lines] == ["watch 1, tensor_overflow: net/log in ste"]


def train(count: int) -> None:
    w = ns.parameter(np.zeros((3, 2)), name="w")
    optimizer = ns.optim.SGD([w], lr=0.1)
    for _ in ns.steps(range(count)):
        loss = np.mean(np.square(ns.tensor(np.ones((4, 3))) @ w - 1.0))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def test_recommended_watches_are_set_after_the_first_step(tmp_path: Path) -> None:
    lines: list[str] = []
    seen = run(tmp_path, "recommended", "nan on scope:net -> log", say=lines.append)
    seen.start()
    try:
        train(3)
        assert seen.gate is not None
        results = {watch.text: watch for watch in seen.gate.info.watches}
    finally:
        seen.finish()
    assert next(iter(results)) == "nan on scope:net -> log"
    assert "weight_overflow -> stop" in results
    assert lines[0].startswith("recommended watches set: operator_overflow, weight_overflow")


def test_without_a_step_no_watches_are_recommended(tmp_path: Path) -> None:
    lines: list[str] = []
    seen = run(tmp_path, "recommended", say=lines.append)
    seen.start()
    np.log(ns.tensor([1.0]))
    seen.finish()
    assert lines == ["no training step ended, so no watches can be recommended"]


def test_watches_are_saved_with_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE)
    saved = ProjectSettings(tmp_path / "train.py")
    seen = run(tmp_path, saved=saved)
    seen.command(SetWatches(("nan on op:log -> log", "off inf")))
    seen.finish()
    again = Run(tmp_path / "2.nscope", debugger=True, saved=saved, watches=("nan on op:log->log",))
    again.finish()
    assert again.gate is not None
    kept = [(watch.text, watch.enabled) for watch in again.gate.info.watches]
    assert kept == [("nan on op:log -> log", True), ("off inf -> stop", False)]


def test_a_watch_that_is_disabled_and_enabled_keeps_its_count() -> None:
    with debugged() as seen, np.errstate(all="ignore"):
        result = watching(seen, "nan on op:log -> log")
        program(3)
        result.replace(["off nan on op:log -> log"])
        program(3)
        result.replace(["nan on op:log -> log", "inf"])
        assert [(status.id, status.hits) for status in statuses(seen)] == [(1, 1), (2, 0)]
