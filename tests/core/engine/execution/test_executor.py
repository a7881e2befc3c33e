"""Execution: memory is released, threads change no result, and errors name their node."""

from __future__ import annotations

import threading
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nodescope as ns
from nodescope.engine.execution import parallel
from nodescope.engine.execution.cost import nanoseconds
from nodescope.engine.execution.parallel import Schedule, Trial
from nodescope.ops.plan import Plan
from tests.depth import examples

SIDE_BY_SIDE = ns.RunOptions(parallel=True)
IN_ORDER = ns.RunOptions(parallel=False)


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "cores", lambda: 2)


def test_a_long_chain_holds_two_buffers() -> None:
    size = 1_000_000
    with ns.Graph().as_default() as g:
        x = ns.placeholder(np.float64, (size,), name="x")
        y = x
        for _ in range(20):
            y = y * 1.5
        total = np.sum(y)
    session = ns.Session(g)
    given_ = np.ones(size)
    session.run(total, {x: given_})
    assert session.run_metadata.peak_bytes == 2 * 8 * size
    tracemalloc.start()
    session.run(total, {x: given_})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The session's own copy of the feed, and the two buffers of the chain.
    assert peak < 3.2 * 8 * size


def test_views_hold_nothing() -> None:
    with ns.Graph().as_default() as g:
        x = ns.placeholder(np.float64, (100, 100))
        y = x * 2
        z = y.T.reshape(50, 200)[1:]
        ends = [y[::2], z.T]
    session = ns.Session(g)
    session.run(ends, {x: np.ones((100, 100))})
    assert session.run_metadata.peak_bytes == 2 * 80_000  # The product and the reshaped copy.


def branches() -> tuple[ns.Graph, Any, Any]:
    with ns.Graph().as_default() as g:
        x = ns.placeholder(np.float64, (400_000,), name="x")
        first, two = x, x * 0.5
        for _ in range(3):
            first, two = np.tanh(first), np.exp(-two)
        y = np.sum(first * two) + np.sum(first)
    return g, x, y


def test_the_cost_model_finds_branches_worth_threads() -> None:
    g, _, y = branches()
    data = g.finish([y.data.value])
    schedule = Schedule(Plan(data, g.arrays))
    assert schedule.pays
    assert schedule.side_by_side_ns < 0.7 * schedule.in_order_ns
    with ns.Graph().as_default() as small:
        z = ns.constant(np.ones(4))
        z = np.tanh(z) + np.exp(z)
    assert not Schedule(Plan(small.finish([z.data.value]), small.arrays)).pays
    with ns.Graph().as_default() as chain:
        z = ns.constant(np.ones(400_000))
        for _ in range(5):
            z = np.tanh(z)
    assert not Schedule(Plan(chain.finish([z.data.value]), chain.arrays)).pays
    with ns.Graph().as_default() as products:
        a = ns.constant(np.ones((600, 600)))
        z = (a @ a) + (a @ a.T)
    assert not Schedule(Plan(products.finish([z.data.value]), products.arrays)).pays


def test_threads_are_used_where_they_pay() -> None:
    g, x, y = branches()
    session = ns.Session(g)
    feed = {x: np.linspace(0, 1, 400_000)}
    first = session.run(y, feed)
    assert not session.run_metadata.parallel  # The first run measures memory.
    second = session.run(y, feed)
    assert session.run_metadata.parallel
    assert first.tobytes() == second.tobytes()
    session.run(y, feed, IN_ORDER)
    assert not session.run_metadata.parallel


@pytest.mark.parametrize(("threaded", "kept"), [(50, True), (99, False), (300, False)])
def test_threads_are_kept_only_if_they_are_faster(threaded: int, kept: bool) -> None:
    g, _, y = branches()
    trial = Trial(Schedule(Plan(g.finish([y.data.value]), g.arrays)))
    chosen = []
    for _ in range(8):
        chosen.append(trial.threads())
        trial.took(chosen[-1], threaded if chosen[-1] else 100)
    assert chosen == [True, False] * 3 + [kept, kept]


def test_the_estimates_follow_sizes_and_dtypes() -> None:
    with ns.Graph().as_default() as g:
        for dtype in (np.float32, np.float64):
            for size in (1_000, 100_000):
                np.exp(ns.placeholder(dtype, (size,)))
        ns.placeholder(np.float32, (64, 64)) @ ns.placeholder(np.float32, (64, 64))
    data = g.finish(())
    plan = Plan(data, g.arrays, (), [value.id for value in data.values], [n.id for n in data.nodes])
    specs = {value.id: value.spec for value in data.values}
    small, large, small64, large64, product = (nanoseconds(call, specs) for call in plan.calls)
    assert small < small64 < large < large64
    assert 50 * small64 < large64
    assert product > 64**3 * 2 * 0.01


@st.composite
def programs(draw: Any) -> list[tuple[int, int, int]]:
    count = draw(st.integers(1, 14))
    return [
        (draw(st.integers(0, 5)), draw(st.integers(0, i + 1)), draw(st.integers(0, i + 1)))
        for i in range(count)
    ]


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(programs())
def test_threads_change_no_bit(program: list[tuple[int, int, int]]) -> None:
    with ns.Graph().as_default() as g:
        v = ns.variable(np.full((4, 4), 0.5), name="v")
        values = [ns.placeholder(np.float64, (4, 4), name="x"), v]
        for kind, i, j in program:
            a, b = values[i], values[j]
            with ns.control_dependencies([b] if kind == 0 and b is not v else []):
                values.append([
                    lambda a=a, b=b: a + b, lambda a=a, b=b: a @ b / 4,
                    lambda a=a, b=b: np.tanh(a) * b, lambda a=a, b=b: ns.assign_add(v, a * 0.01),
                    lambda a=a, b=b: np.sum(a, axis=0, keepdims=True) - b,
                    lambda a=a, b=b: ns.identity(v) + a,
                ][kind]())  # fmt: skip
        init = ns.global_variables_initializer()
    x = np.random.default_rng(0).standard_normal((4, 4))
    results = []
    for options in (IN_ORDER, SIDE_BY_SIDE, SIDE_BY_SIDE):
        session = ns.Session(g)
        session.run(init)
        result = session.run([*values[2:], values[1]], {"x:0": x}, options)
        result.append(session.run(v))
        results.append([array.tobytes() for array in result])
    assert results[0] == results[1] == results[2]


def test_an_error_in_a_thread_names_its_node_and_stops_the_rest() -> None:
    with ns.Graph().as_default() as g:
        x = ns.placeholder(np.float64, (2, 2), name="x")
        with ns.name_scope("left"):
            bad = np.linalg.inv(x)
        good = np.tanh(x)
        later = ns.variable(np.zeros((2, 2)), name="later")
        with ns.control_dependencies([bad, good]):
            write = ns.assign(later, x)
        init = ns.global_variables_initializer()
    session = ns.Session(g)
    session.run(init)
    before = threading.active_count()
    for _ in range(5):
        with pytest.raises(np.linalg.LinAlgError) as error:
            session.run([write, good], {x: np.zeros((2, 2))}, SIDE_BY_SIDE)
        assert "'left/inv'" in "".join(error.value.__notes__)
    assert session.run(later).tolist() == [[0, 0], [0, 0]]
    assert threading.active_count() <= before + 1  # The pool keeps one thread.


def test_many_threads_share_one_session() -> None:
    g, x, y = branches()
    session = ns.Session(g)
    feeds = [np.linspace(0, i + 1, 400_000) for i in range(4)]
    expected = [session.run(y, {x: feed}).tobytes() for feed in feeds]
    results: dict[int, bytes] = {}

    def work(i: int) -> None:
        for _ in range(3):
            results[i] = session.run(y, {x: feeds[i]}, SIDE_BY_SIDE).tobytes()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [results[i] for i in range(4)] == expected
