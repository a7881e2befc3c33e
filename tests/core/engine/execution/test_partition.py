"""Partitions: cut edges have sends and receives, results equal the whole graph's, nothing hangs."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nodescope as ns
from nodescope.engine.execution.partition import Partition, canonical, cut
from nodescope.ir.verify import verify
from nodescope.ops.checking import inferred
from nodescope.ops.plan import Plan
from tests.depth import examples

WHOLE = ns.RunOptions(partition=False, parallel=False)


def two_devices() -> tuple[ns.Graph, Any, Any]:
    with ns.Graph().as_default() as g:
        x = ns.placeholder(np.float64, (3,), name="x")
        with ns.device("cpu:0"):
            a = ns.identity(x * 2, name="a")
        with ns.device("cpu:1"):
            b = ns.identity(a + 1, name="b")
            c = ns.identity(a * b, name="c")
            with ns.control_dependencies([a]):
                d = ns.identity(ns.constant(1.0), name="d")
        with ns.device("cpu:0"):
            e = ns.identity(c - a, name="e")
    return g, x, [e, d]


def parts_of(g: ns.Graph, outputs: Any) -> tuple[Partition, ...]:
    data = g.finish(())
    values = [value.data.value for value in outputs]
    return cut(Plan(data, g.arrays, values))


def test_cut_edges_get_one_send_and_receive_each() -> None:
    g, _, outputs = two_devices()
    parts = parts_of(g, outputs)
    assert [part.device for part in parts] == ["cpu:0", "cpu:1"]
    sends = [n for p in parts for n in p.graph.nodes if n.op == "send"]
    receives = [n for p in parts for n in p.graph.nodes if n.op == "receive"]
    # The part uses `a` twice, but `a` is sent once; the control edge has its own pair.
    assert [n.attrs["key"] for n in sends] == [
        "value 3 to cpu:1", "control 3 to cpu:1", "value 7 to cpu:0"
    ]  # fmt: skip
    assert sorted(n.attrs["key"] for n in receives) == sorted(n.attrs["key"] for n in sends)
    for part in parts:
        verify(part.graph, inferred)
    waiting = next(n for n in parts[1].graph.nodes if n.name == "d")
    control = next(n for n in receives if n.attrs["key"].startswith("control"))
    assert waiting.control_inputs == (control.id,)


def test_sessions_use_them_where_devices_differ() -> None:
    g, x, outputs = two_devices()
    session = ns.Session(g)
    result = session.run(outputs, {x: np.arange(3.0)})
    assert session.run_metadata.partitions == ("cpu:0", "cpu:1")
    assert any(text.startswith("receive/") for text in session.run_metadata.executed)
    assert session.run_metadata.peak_bytes > 0
    whole = session.run(outputs, {x: np.arange(3.0)}, WHOLE)
    assert [array.tobytes() for array in result] == [array.tobytes() for array in whole]
    again = session.run(outputs, {x: np.arange(3.0)})
    assert [array.tobytes() for array in again] == [array.tobytes() for array in whole]


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(st.lists(st.tuples(*[st.integers(0, 7)] * 4), min_size=1, max_size=14))
def test_any_cut_gives_the_same_bits(program: list[tuple[int, int, int, int]]) -> None:
    devices = ["cpu:0", "cpu:1", "worker:1", "worker:1/cpu:2"]
    with ns.Graph().as_default() as g:
        x = ns.placeholder(np.float64, (3, 3), name="x")
        with ns.device("worker:1"):
            v = ns.variable(np.full((3, 3), 0.5), name="v")
        values: list[Any] = [x, v]
        updates: list[Any] = []
        for kind, i, j, place in program:
            a, b = values[i % len(values)], values[j % len(values)]
            # A read runs after all earlier updates, so its result is determined.
            with ns.device(devices[place % 4]), ns.control_dependencies(updates[-1:]):
                if kind in (0, 1):
                    values.append(a + b)
                elif kind in (2, 3):
                    values.append(np.tanh(a) @ b)
                elif kind == 4:
                    with ns.control_dependencies([values[-1]]):
                        values.append(ns.identity(ns.constant(np.eye(3)) * 2))
                elif kind == 5:
                    updates.append(ns.assign_add(v, a * 0.01))
                    values.append(updates[-1])
                else:
                    values.append(ns.identity(v) - a)
        init = ns.global_variables_initializer()
    given_ = np.random.default_rng(1).standard_normal((3, 3))
    results = []
    for options in (WHOLE, ns.RunOptions(partition=True)):
        session = ns.Session(g)
        session.run(init, options=options)
        result = session.run(values[1:], {x: given_}, options)
        results.append([array.tobytes() for array in [*result, session.run(v)]])
    assert results[0] == results[1]


def test_errors_name_their_node_and_nothing_hangs() -> None:
    with ns.Graph().as_default() as g:
        x = ns.placeholder(np.float64, (2, 2), name="x")
        with ns.device("worker:0"):
            a = ns.identity(x + 1, name="a")
        with ns.device("worker:1"), ns.name_scope("far"):
            b = np.linalg.inv(a - 1)
        with ns.device("worker:2"):
            c = ns.identity(b * 2, name="c")
        with ns.device("worker:0"):
            d = ns.identity(c + a, name="d")
    session = ns.Session(g)
    before = threading.active_count()
    for _ in range(5):
        with pytest.raises(np.linalg.LinAlgError) as error:
            session.run(d, {x: np.zeros((2, 2))})
        assert "'far/inv'" in "".join(error.value.__notes__)
    assert threading.active_count() == before
    assert session.run(d, {x: np.eye(2)}).tolist() == [[4.0, 1.0], [1.0, 4.0]]


def test_variables_stay_where_they_are() -> None:
    with ns.Graph().as_default() as g:
        with ns.device("worker:1"):
            w = ns.variable(np.ones(2), name="w")
        with ns.device("worker:0"):
            up = ns.assign_add(w, ns.constant(np.ones(2)) * 3)
            with ns.control_dependencies([up]):
                after = ns.identity(w * 1, name="after")
        init = ns.global_variables_initializer()
    session = ns.Session(g)
    session.run(init)
    assert session.run(after).tolist() == [4, 4]
    assert session.run(w).tolist() == [4, 4]
    data = g.finish(())
    plan = Plan(data, g.arrays, [after.data.value], [w.data.value])
    homes = {n.id: w.op.id for n in plan.nodes if n.op in ("read", "assign_add")}
    parts = {item.device: item for item in cut(plan, homes)}
    assert {n.op for n in parts["worker:1/cpu:0"].graph.nodes} >= {"assign_add", "read"}


def test_a_partition_travels_as_data() -> None:
    g, _, outputs = two_devices()
    part = parts_of(g, outputs)[1]
    again = pickle.loads(pickle.dumps(part))
    assert again.graph == part.graph
    assert (again.device, again.fed, again.outputs) == (part.device, part.fed, part.outputs)
    assert {key: array.tobytes() for key, array in again.arrays.items()} == {
        key: array.tobytes() for key, array in part.arrays.items()
    }


@pytest.mark.parametrize(
    ("device", "name"),
    [("cpu", "cpu:0"), ("cpu:1", "cpu:1"), ("worker:2", "worker:2/cpu:0"),
     ("worker:1/cpu", "worker:1/cpu:0"), ("worker:1/gpu:3", "worker:1/gpu:3")],
)  # fmt: skip
def test_each_place_has_one_name(device: str, name: str) -> None:
    assert canonical(device) == name
