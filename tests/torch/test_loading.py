"""Workers of data loaders: their operations are recorded, stopped at and edited."""

from __future__ import annotations

import functools
import math
import multiprocessing
import os
import pickle
import queue
import signal
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from nodescope.adapters.torch.loading import workers
from nodescope.adapters.torch.loading.messages import LARGE, SMALL, Hello, Wanted
from nodescope.adapters.torch.loading.pacing import Pacing
from nodescope.emit.emitter import Emitter
from nodescope.emit.state import current
from nodescope.errors import EditError
from nodescope.events import Bus, Demand
from nodescope.protocol import StepNode
from nodescope.record.recording import Recording
from tests.adapters.driving import WAIT_S, debugged, recorded
from tests.torch import both_paths
from tests.torch.loading_programs import (
    Curves,
    Dying,
    Stopping,
    Stream,
    Wrong,
    batches,
    train,
)
from tests.torch.observing import edges_of, nodes_of, observed
from tests.torch.taps import TAPS

HOWS = [how for how in ("fork", "spawn") if how in multiprocessing.get_all_start_methods()]


@pytest.fixture(params=TAPS)
def tap(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", request.param)
    return str(request.param)


@pytest.mark.timeout(300)  # eight workers are started, each of which may import PyTorch
@pytest.mark.parametrize("how", HOWS)
def test_operations_of_workers_are_nodes(tap: str, how: str, tmp_path: Path) -> None:
    plain = train(how)
    with observed(tmp_path / "a.nscope", lambda: train(how), level="values") as (result, recording):
        assert result == plain
        nodes, edges = nodes_of(recording), edges_of(recording)
        for worker in ("data/worker_0", "data/worker_1"):
            assert edges[f"{worker}/sinh"] == [f"{worker}/div"]
            assert edges[f"{worker}/collate/stack"] == [f"{worker}/sinh"] * 4
            source = nodes[f"{worker}/sinh"].source
            assert source is not None
            assert source.function == "Curves.__getitem__"
            source = nodes[f"{worker}/collate/stack"].source
            assert source is not None
            assert source.function == "train"
        assert recording.device_table.names() == {1: "worker 0", 2: "worker 1"}
        by_id = {node.id: node.name for node in nodes.values()}
        ran = Counter(
            (by_id[execution.node], execution.worker) for execution in recording.executions()
        )
        # In each of the two epochs, each worker makes 8 of the 16 samples.
        assert sorted(count for (name, _), count in ran.items() if name.endswith("/sinh")) == [
            16,
            16,
        ]
        assert {worker for (name, worker), _ in ran.items() if name.startswith("data/")} == {1, 2}
        assert {worker for (name, worker), _ in ran.items() if not name.startswith("data/")} == {0}


@pytest.mark.parametrize("how", HOWS)
def test_a_worker_is_stopped_and_edited(tap: str, how: str, tmp_path: Path) -> None:
    plain = batches(Curves(), how, collate=True)
    program = functools.partial(batches, Curves(), how, collate=True)
    with debugged(tmp_path / "a.nscope", program, "op:cosh if value.max() > 1.15") as run:
        stop = run.stop()
        assert stop is not None
        assert stop.node_name == "data/worker_1/collate/cosh"
        assert stop.stack[0].function == "_collated"
        assert stop.thread < 0
        (value,) = run.controller.outputs()
        assert value.array is not None
        np.testing.assert_allclose(np.asarray(value.array), plain[3][0], rtol=1e-6)
        run.controller.edit("value = 5")
        run.go_on()
        assert run.stop() is None
    assert run.result == [*plain[:3], [[[5.0] * 4] * 4, plain[3][1]]]


def test_a_worker_is_stopped_before_a_node_and_its_input_edited(tap: str, tmp_path: Path) -> None:
    program = functools.partial(batches, Curves(), workers=1, collate=True)
    with debugged(tmp_path / "a.nscope", program, "before op:cosh") as run:
        stop = run.stop()
        assert stop is not None
        assert (stop.node_name, stop.when) == ("data/worker_0/collate/cosh", "before")
        (value,) = run.controller.inputs()
        run.controller.edit(f"{value.name} = 0")
        run.go_on()
    assert run.result[0][0] == [[1.0] * 4] * 4
    assert run.result[1][0] == batches(Curves(), collate=True)[1][0]


@pytest.mark.parametrize("how", HOWS)
def test_a_data_set_stops_its_worker(tap: str, how: str, tmp_path: Path) -> None:
    program = functools.partial(batches, Stopping(), how)
    with debugged(tmp_path / "a.nscope", program) as run:
        stop = run.stop()
        assert stop is not None
        assert (stop.node_name, stop.when) == ("data/worker_1/div", "after")
        assert stop.text.startswith("ns.breakpoint at loading_programs.py:")
        assert stop.text.endswith(": value[0] == 5")
        assert stop.stack[0].function == "Stopping.__getitem__"
        run.go_on()
        assert run.stop() is None
    assert run.result == batches(Stopping(), how)
    with Recording.open(tmp_path / "a.nscope") as recording:
        faults = [row.text for row in recording.logs() if "value.nothing" in row.text]
    assert len(faults) == 2  # Each worker reports it once.


def test_a_data_set_stops_in_a_batch_that_is_not_observed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pacing, "observes", lambda self: False)
    program = functools.partial(batches, Stopping())
    with debugged(tmp_path / "a.nscope", program, level="timing", max_slowdown=2.0) as run:
        stop = run.stop()
        assert stop is not None
        assert (stop.node_name, stop.when) == ("data/worker_1/div", "after")
        run.go_on()
    assert run.result == batches(Stopping())


def test_a_data_set_stops_nothing_without_a_debugger(tmp_path: Path) -> None:
    program = functools.partial(batches, Stopping())
    assert recorded(tmp_path / "a.nscope", program) == program()


class Large(Curves):
    def __getitem__(self, index: int) -> Any:
        x = torch.arange(40_000.0) + index
        return torch.sinh(x / 1e5)[:4], x[0]


def test_what_is_large_is_looked_at_in_the_worker(tap: str, tmp_path: Path) -> None:
    program = functools.partial(batches, Large(), workers=1)
    with debugged(tmp_path / "a.nscope", program, "op:sinh") as run:
        assert run.stop() is not None
        (value,) = run.controller.outputs()
        assert value.array is not None
        assert value.array.shape == (40_000,)
        assert np.asarray(value.array)[-1] == np.float32(math.sinh(39_999 / 1e5))
        run.controller.edit("value[0] = 3")
        run.go_on()
        assert run.stop() is not None
    assert run.result[0][0][0][0] == 3.0


def test_a_view_in_a_worker_is_not_edited(tap: str, tmp_path: Path) -> None:
    program = functools.partial(batches, Large(), workers=1)
    with debugged(tmp_path / "a.nscope", program, "op:slice") as run:
        assert run.stop() is not None
        with pytest.raises(EditError, match="a view of another value"):
            run.controller.edit("value = 5")
    assert run.result == batches(Large())


def test_items_of_an_iterable_data_set(tap: str, tmp_path: Path) -> None:
    plain = batches(Stream())
    program = functools.partial(batches, Stream())
    with observed(tmp_path / "a.nscope", program) as (result, recording):
        assert result == plain
        assert edges_of(recording)["data/worker_1/sinh"] == ["data/worker_1/div"]


def test_an_operation_that_raises_in_a_worker(tap: str, tmp_path: Path) -> None:
    def program() -> str:
        with pytest.raises(RuntimeError, match="worker process 1") as raised:
            batches(Wrong())
        return str(raised.value).strip().splitlines()[-1]

    with debugged(tmp_path / "a.nscope", program) as run:
        stop = run.stop()
        assert stop is not None
        assert stop.node_name == "data/worker_1/dot"
        assert "inconsistent tensor size" in stop.text
        run.go_on()
    assert "RuntimeError" in run.result


@pytest.fixture
def no_signal() -> Iterator[None]:
    """PyTorch's handler would raise in this thread, in which the program does not run."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGCHLD, before)


def test_a_dead_worker_is_not_waited_for(tap: str, no_signal: None, tmp_path: Path) -> None:
    def program() -> str:
        with pytest.raises(RuntimeError, match="exited unexpectedly") as raised:
            batches(Dying())
        return str(raised.value)

    with debugged(tmp_path / "a.nscope", program, "op:cosh") as run:
        assert run.stop() is None
    assert "pid" in run.result


def test_a_killed_worker_at_a_stop_is_not_waited_for(
    tap: str, no_signal: None, tmp_path: Path
) -> None:
    def program() -> str:
        with pytest.raises(RuntimeError, match="exited unexpectedly") as raised:
            batches(Curves(), workers=1)
        return str(raised.value)

    before = {child.pid for child in multiprocessing.active_children()}
    with debugged(tmp_path / "a.nscope", program, "op:sinh") as run:
        assert run.stop() is not None
        for child in multiprocessing.active_children():
            if child.pid not in before:
                child.kill()
        assert run.ended()
    assert "pid" in run.result


def test_time_at_a_stop_is_not_the_loaders(
    tap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loader's time passes only while the worker is stopped, whatever else is slow."""
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    monkeypatch.setattr(workers, "say", said.put)
    stopped, left = threading.Event(), threading.Event()
    waits = workers.Workers._waits

    def timed(self: Any, original: Callable[[float], Any], timeout_s: float) -> Any:
        def wait(_: float) -> Any:
            assert stopped.wait(WAIT_S)
            return original(WAIT_S if left.is_set() else 0.1)

        return waits(self, wait, timeout_s)

    monkeypatch.setattr(workers.Workers, "_waits", timed)
    program = functools.partial(batches, Curves(), workers=1, timeout=1)
    with debugged(tmp_path / "a.nscope", program, "op:sinh") as run:
        assert run.stop() is not None
        stopped.set()
        assert "its timeout of 1 s does not count" in said.get(timeout=WAIT_S)
        left.set()
        run.controller.leave()
    assert run.result == batches(Curves())


def test_workers_outlive_the_run(tap: str, tmp_path: Path) -> None:
    loader: DataLoader[Any] = DataLoader(
        Curves(), 4, num_workers=2, persistent_workers=True, multiprocessing_context="fork"
    )
    first = recorded(tmp_path / "a.nscope", lambda: [batch[0].tolist() for batch in loader])
    assert [batch[0].tolist() for batch in loader] == first


# Without workers


def test_operations_without_workers_are_nodes(tap: str, tmp_path: Path) -> None:
    program = functools.partial(train, None)
    plain = program()
    with observed(tmp_path / "a.nscope", program, level="values") as (result, recording):
        assert result == plain
        nodes, edges = nodes_of(recording), edges_of(recording)
        assert edges["data/sinh"] == ["data/div"]
        assert edges["data/collate/stack"] == ["data/sinh"] * 4
        sources = [nodes[name].source for name in ("data/sinh", "data/collate/stack")]
        assert [source and source.function for source in sources] == ["Curves.__getitem__", "train"]
        by_id = {node.id: node.name for node in nodes.values()}
        rows = recording.executions()
        ran = Counter(by_id[row.node] for row in rows)
        assert (ran["data/sinh"], ran["data/collate/stack"], ran["Linear/addmm"]) == (32, 8, 8)
        (sinh,) = nodes["data/sinh"].outputs
        made = [row for row in rows if by_id[row.node] == "data/sinh"]
        for row in made[:2]:
            value = recording.array(sinh, row.seq)
            assert value is not None
            assert value.shape == (4,)
        # A batch is made after the previous step and begins no step.
        steps = Counter(row.step for row in made)
        assert steps == dict.fromkeys(range(8), 4)


@pytest.mark.parametrize("level", ["timing", "summary"])
def test_steps_are_followed_beside_them(
    tap: str, level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program() -> Any:
        losses, weight, generator = train(None)
        return [torch.tensor(part) for part in (losses, weight, generator)]

    plain = [part.tolist() for part in program()]
    results = []
    for fast in (True, False):
        path = tmp_path / f"{fast}.nscope"
        result, said, steps = both_paths.run(
            program, path, monkeypatch, fast=fast, tap=tap, level=level
        )
        assert [part.tolist() for part in result] == plain
        assert steps == (5 if fast else 0)
        assert sum(node[4].startswith("data") for node in said["nodes"]) == 7
        results.append(said)
    both_paths.check_equal(*results)


def test_the_program_is_stopped_in_its_data_set_and_edited(tap: str, tmp_path: Path) -> None:
    program = functools.partial(batches, Curves(), workers=0, collate=True)
    plain = program()
    with debugged(tmp_path / "a.nscope", program, "op:sinh", "op:cosh") as run:
        stop = run.stop()
        assert stop is not None
        assert (stop.node_name, stop.stack[0].function) == ("data/sinh", "Curves.__getitem__")
        run.controller.command(StepNode())
        stop = run.stop()
        assert stop is not None
        assert stop.node_name == "data/sum"
        for _ in range(3):
            run.go_on()
            assert run.stop() is not None
        run.go_on()
        stop = run.stop()
        assert stop is not None
        assert (stop.node_name, stop.stack[0].function) == ("data/collate/cosh", "_collated")
        run.controller.edit("value = 5")
        run.controller.leave()
    assert run.result == [[[[5.0] * 4] * 4, plain[0][1]], *plain[1:]]


def test_an_operand_is_edited_in_a_data_set(tap: str, tmp_path: Path) -> None:
    program = functools.partial(batches, Curves(), workers=0, collate=True)
    with debugged(tmp_path / "a.nscope", program, "before op:cosh") as run:
        stop = run.stop()
        assert stop is not None
        assert (stop.node_name, stop.when) == ("data/collate/cosh", "before")
        (value,) = run.controller.inputs()
        run.controller.edit(f"{value.name} = 0")
        run.controller.leave()
    assert run.result[0][0] == [[1.0] * 4] * 4
    assert run.result[1:] == program()[1:]


def test_an_iterable_data_set_without_workers(tap: str, tmp_path: Path) -> None:
    program = functools.partial(batches, Stream(), workers=0)
    plain = program()
    with observed(tmp_path / "a.nscope", program) as (result, recording):
        assert result == plain
        assert edges_of(recording)["data/sinh"] == ["data/div"]


def test_an_operation_that_raises_in_a_data_set(tap: str, tmp_path: Path) -> None:
    def program() -> str:
        with pytest.raises(RuntimeError) as raised:
            batches(Wrong(), workers=0)
        assert current().scope == ""
        return str(raised.value).strip().splitlines()[-1]

    with debugged(tmp_path / "a.nscope", program) as run:
        stop = run.stop()
        assert stop is not None
        assert stop.node_name == "data/dot"
        run.go_on()
    assert "inconsistent tensor size" in run.result


class Nested(Curves):
    """A data set that goes through a loader of its own."""

    def __getitem__(self, index: int) -> Any:
        (inner,) = list(DataLoader([Curves()[index]], 1))
        return torch.tanh(inner[0][0]), inner[1][0]


def test_each_loader_has_a_scope(tap: str, tmp_path: Path) -> None:
    def program() -> list[Any]:
        first, second = DataLoader(Curves(), 4), DataLoader(Nested(), 8)
        return [[part.tolist() for part in batch] for batch in (*first, *second, *first)]

    plain = program()
    with observed(tmp_path / "a.nscope", program) as (result, recording):
        assert result == plain
        names = {node.name for node in nodes_of(recording).values()}
        assert "data/sinh" in names
        assert "data_1/tanh" in names
        assert {name.split("/")[0] for name in names} == {"data", "data_1"}
        assert not any("random" in name for name in names)


def test_loaders_of_several_threads_are_counted_apart(tap: str, tmp_path: Path) -> None:
    together = threading.Barrier(2)

    class Waiting(Curves):
        def __getitem__(self, index: int) -> Any:
            x = torch.arange(4.0) + index
            together.wait(WAIT_S)
            return torch.sinh(x / 30), torch.cosh(x / 30)

    def load(results: list[Any]) -> None:
        results += [[part.tolist() for part in batch] for batch in DataLoader(Waiting(), 4)]

    def program() -> list[Any]:
        results: tuple[list[Any], list[Any]] = ([], [])
        threads = [threading.Thread(target=load, args=(own,)) for own in results]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return list(results)

    plain = program()
    with observed(tmp_path / "a.nscope", program) as (result, recording):
        assert result == plain
        names = Counter(node.op for node in nodes_of(recording).values() if node.op == "sinh")
        assert names == {"sinh": 2}  # One per loader.


def test_loaders_outlive_the_run(tap: str, tmp_path: Path) -> None:
    loader: DataLoader[Any] = DataLoader(Curves(), 4)
    plain = [batch[0].tolist() for batch in loader]
    iterator = iter(loader)
    before = dict(vars(iterator._dataset_fetcher))
    first = recorded(tmp_path / "a.nscope", lambda: next(iterator)[0].tolist())
    assert vars(iterator._dataset_fetcher) == before
    assert [first, *(batch[0].tolist() for batch in iterator)] == plain


def test_large_values_are_not_sent_to_a_run_that_keeps_its_pace() -> None:
    bus = Bus()
    bus.want(bus, Demand(values=True))
    told = workers.Workers(Emitter(bus), lambda _: None)
    with told.observed():
        assert told.wanted.most == LARGE
        bus.leaves_out = lambda step, _: 0
        bus.renew()
        assert told.wanted.most == SMALL


def test_a_worker_keeps_to_twice_its_time() -> None:
    pacing, own, spent = Pacing(), 0, 0
    seen = []
    for _ in range(1000):
        observed = pacing.observes()
        seen.append(observed)
        pacing.took(1000 if observed else 100, observed=observed)
        own, spent = own + 100, spent + (1000 if observed else 100)
    assert seen[:2] == [True, False]
    assert spent <= 2 * own + 1000
    assert 100 < sum(seen) < 120


def test_a_worker_that_costs_nothing_is_always_observed() -> None:
    pacing = Pacing()
    pacing.took(100, observed=True)
    pacing.took(100, observed=False)
    for _ in range(50):
        assert pacing.observes()
        pacing.took(110, observed=True)


def test_a_stranger_is_not_listened_to() -> None:
    workers_of_run = workers.Workers(Emitter(Bus()), lambda _: None)
    with workers_of_run.observed():
        address = workers_of_run._listen()
        assert stat.S_IMODE(Path(address).parent.stat().st_mode) == 0o700
        with pytest.raises(multiprocessing.AuthenticationError):
            Client(address, authkey=b"guessed")
        with Client(address, authkey=workers_of_run._key) as known:
            known.send_bytes(pickle.dumps([Hello(0, 0, os.getpid())]))
            assert isinstance(pickle.loads(known.recv_bytes()), Wanted)
