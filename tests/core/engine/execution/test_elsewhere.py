"""Executors: valid and invalid requests, and the message without Ray."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.engine.execution.placement import placed
from nodescope.engine.execution.segments import segments_of
from nodescope.engine.on_ray.worker import Report, Worker
from nodescope.errors import UsageError
from nodescope.passes.pipeline import lower


def function(x: ns.Tensor) -> ns.Tensor:
    return np.tanh(x @ x) @ x


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"executor": "rya"}, "no executor 'rya'"),
        ({"executor": 3}, "int is not an executor"),
        ({"partitions": 2}, "partitions= takes an executor"),
        ({"executor": ns.RayExecutor(), "partitions": 2}, "belongs into the executor"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ns.NodescopeError, match=words):
        ns.compile(function, **options)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("partitions", 0), ("partitions", 2.5), ("partitions", True), ("threads", -1),
        ("timeout_s", 0), ("timeout_s", float("nan")), ("restarts", -1), ("restarts", 0.5),
        ("num_cpus", -1), ("num_cpus", "2"), ("tolerance", -0.1),
        ("resources", {"GPU": 1}), ("resources", {"worker:1": 1}), ("resources", "GPU"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense(setting: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"RayExecutor: {setting}=") as raised:
        ns.RayExecutor(**{setting: value})
    assert "test_elsewhere.py:" in str(raised.value)


def test_a_device_that_is_no_worker_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", types.ModuleType("ray"))

    @ns.compile(executor="ray")
    def misspelt(x: ns.Tensor) -> ns.Tensor:
        with ns.device("wroker:1"):
            return x + 1

    with pytest.raises(UsageError, match=r"misspelt: device 'wroker:1'.*test_elsewhere\.py:"):
        misspelt(ns.tensor(np.ones(2)))


def test_without_ray_a_call_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    compiled = ns.compile(function, executor="ray")
    with pytest.raises(ns.NodescopeError, match=r"needs Ray.*nodescope\[ray\]"):
        compiled(ns.tensor(np.ones((2, 2))))


@pytest.mark.parametrize("how", ["plain", "times", "arrays"])
def test_a_worker_runs_its_segments_and_keeps_nothing(how: Any) -> None:
    program = ns.compile(function).graph(ns.tensor(np.ones((4, 4))))
    compiled = lower(program.graph, program.constants)
    placement = placed(compiled.graph, 2)
    segments = segments_of(compiled.graph, compiled.arrays, placement)
    workers = [Worker() for _ in placement.parts]
    for part, worker in enumerate(workers):
        part_segments = {i: segment for i, segment in enumerate(segments) if segment.part == part}
        worker.load(1, part_segments, "numpy")
    x = np.random.default_rng(0).standard_normal((4, 4))
    values = dict.fromkeys(compiled.graph.inputs, x)
    for call in (1, 2):
        for number, segment in enumerate(segments):
            arrays = [values[value] for value in (*segment.fed, *segment.received)]
            returned = workers[segment.part].run(1, call, number, how, *arrays)
            report, *sent = returned if segment.sent else [returned]
            values.update(zip(segment.sent, sent, strict=True))
            check(report, len(segment.nodes), how)
        result = values[compiled.graph.outputs[0]]
        assert result.tobytes() == (np.tanh(x @ x) @ x).tobytes()
    assert not any(loaded.memories for worker in workers for loaded in worker._loaded.values())


def check(report: Report, count: int, how: str) -> None:
    if how == "plain":
        assert report.times is None
        return
    assert report.times is not None
    assert report.times.shape == (count, 2)
    assert (report.times[:, 1] >= report.times[:, 0]).all()
    assert len(report.outputs) == (count if how == "arrays" else 0)
