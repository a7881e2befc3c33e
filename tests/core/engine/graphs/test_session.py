"""Sessions: fetches, feeds, pruning, variables, control, observation."""

from __future__ import annotations

import threading
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import DtypeError, NodescopeError, ShapeError, UsageError
from nodescope.events import GradientComputed, NodeFinished
from tests.core.engine.events_of import observed


def test_the_example_of_the_design() -> None:
    with ns.Graph().as_default() as g:
        a = ns.placeholder(np.float64, shape=(), name="a")
        c = ns.constant(2.0, name="c")
        y = a * c
    assert ns.Session(g).run(y, {a: 5.0}) == 10.0


def test_any_nest_of_fetches() -> None:
    Pair = namedtuple("Pair", "one two")
    with ns.Graph().as_default() as g:
        a = ns.constant(1.0, name="a")
        b = ns.constant([2, 3], name="b")
        nothing = ns.no_op("nothing")
    with ns.Session(g) as session:
        result = session.run({"x": [a, (b,)], "p": Pair(a, nothing), "n": "a:0", "o": "nothing"})
    assert result["x"][0] == 1.0
    assert type(result["x"][0]) is np.ndarray
    assert result["x"][1][0].tolist() == [2, 3]
    assert result["p"] == Pair(1.0, None)
    assert (result["n"], result["o"]) == (1.0, None)
    with pytest.raises(UsageError, match="None cannot be fetched"):
        ns.Session(g).run([a, None])
    with pytest.raises(UsageError, match="int cannot be fetched"):
        ns.Session(g).run(3)
    with pytest.raises(UsageError, match="closed"):
        session.run(a)


def test_what_is_not_needed_does_not_run() -> None:
    with ns.Graph().as_default() as g:
        a = ns.placeholder(np.float64, (), name="a")
        b = ns.identity(a + 1, name="b")
        ns.identity(b * 2, name="c")
        d = ns.identity(b - 2, name="d")
    session = ns.Session(g)
    with observed() as events:
        session.run(d, {a: 1.0})
    assert events.ran == ["a", "add", "b", "subtract", "d"]
    session.run(d, {a: 1.0})
    assert session.run_metadata.executed == ("add", "b", "subtract", "d")
    assert session.run(d, {b: 5.0}) == 3.0  # An intermediate value is fed, so `a` is not needed.
    assert session.run_metadata.executed == ("subtract", "d")


def graph() -> tuple[ns.Graph, Any, Any]:
    with ns.Graph().as_default() as g:
        x = ns.placeholder(np.float32, (2, 3), name="x")
        y = ns.identity(x * 2, name="y")
    return g, x, y


@pytest.mark.parametrize(
    ("feed", "kind", "message"),
    [
        (lambda x: {x: np.zeros((2, 4))}, ShapeError, r"'x' .*its shape is \(2, 3\), not \(2, 4\)"),
        (lambda x: {x: np.zeros((2, 3), complex)}, DtypeError, "float32, not complex128"),
        (lambda x: {x: [["a"] * 3] * 2}, DtypeError, "float32, not"),
        (lambda x: {}, UsageError, "placeholder 'x', made at .*must be fed"),
        (lambda x: {x: x}, UsageError, "cannot be fed"),
        (lambda x: {3: 1.0}, UsageError, "int cannot be fed"),
        (lambda x: {x: np.zeros((2, 3)), "x:0": np.zeros((2, 3))}, UsageError, "fed twice"),
    ],
)
def test_feeds_that_do_not_fit(feed: Any, kind: Any, message: str) -> None:
    g, x, y = graph()
    with pytest.raises(kind, match=message) as error:
        ns.Session(g).run(y, feed(x))
    assert __file__ in error.value.source
    assert str(error.value).count("test_session.py") >= 1


def test_feeding_and_fetching_across_graphs_is_refused() -> None:
    g, x, y = graph()
    _, foreign, other = graph()
    session = ns.Session(g)
    with pytest.raises(UsageError, match="another graph"):
        session.run(other, {x: np.zeros((2, 3))})
    with pytest.raises(UsageError, match="another graph"):
        session.run(y, {foreign: np.zeros((2, 3))})
    with pytest.raises(UsageError, match="another graph"):
        session.run(other.op)
    with pytest.raises(UsageError, match="eagerly"):
        session.run(ns.tensor(1.0))


def test_feeds_and_results_are_copies() -> None:
    g, x, y = graph()
    argument = np.ones((2, 3), np.float32)
    session = ns.Session(g)
    result = session.run([x, y], {x: argument})
    result[0][:] = 9
    assert argument.tolist() == np.ones((2, 3)).tolist()
    with ns.Graph().as_default() as h:
        w = ns.variable(np.zeros(2), name="w")
        init = ns.global_variables_initializer()
    session = ns.Session(h)
    session.run(init)
    session.run(w)[:] = 7
    assert session.run(w).tolist() == [0, 0]


def test_placeholder_with_default() -> None:
    with ns.Graph().as_default() as g:
        p = ns.placeholder_with_default(np.array([1.0, 2.0]), (2,), name="p")
        y = p * 10
    session = ns.Session(g)
    assert session.run(y).tolist() == [10, 20]
    assert session.run(y, {p: [3.0, 4.0]}).tolist() == [30, 40]


# Variables


def counter() -> tuple[ns.Graph, Any, Any, Any]:
    with ns.Graph().as_default() as g:
        n = ns.variable(np.int64(0), name="n", trainable=False)
        up = ns.assign_add(n, 1)
        init = ns.global_variables_initializer()
    return g, n, up, init


def test_variables_live_in_the_session() -> None:
    g, n, up, init = counter()
    first, two = ns.Session(g), ns.Session(g)
    with pytest.raises(UsageError, match=r"variable 'n', made at .*has no value") as error:
        first.run(n)
    assert "global_variables_initializer" in error.value.hint
    with pytest.raises(UsageError, match="has no value"):
        first.run(up)
    first.run(init)
    two.run(init)
    assert [int(first.run(up)) for _ in range(3)] == [1, 2, 3]
    assert first.run(n) == 3
    assert two.run(n) == 0


def test_reads_are_of_the_start_of_the_run_unless_ordered() -> None:
    g, n, up, init = counter()
    with g.as_default():
        before = n * 10
        with ns.control_dependencies([up]):
            after = n * 10
    session = ns.Session(g)
    session.run(init)
    assert [int(item) for item in session.run([before, after, up])] == [0, 10, 1]
    assert session.run(before) == 10
    assert session.run(after) == 20  # The read runs the update it depends on.


def test_updates_of_many_threads_are_all_there() -> None:
    g, n, up, init = counter()
    session = ns.Session(g)
    session.run(init)
    threads = [
        threading.Thread(target=lambda: [session.run(up) for _ in range(50)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.run(n) == 200


def test_initial_values_may_be_computed() -> None:
    with ns.Graph().as_default() as g:
        v = ns.variable(ns.constant(np.arange(3.0)) * 2, name="v")
        w = ns.variable(lambda: np.ones(3), name="w")
        down = ns.assign_sub(v, w)
        init = ns.global_variables_initializer()
    session = ns.Session(g)
    session.run(init)
    assert session.run(down).tolist() == [-1, 1, 3]
    assert session.run(v).tolist() == [-1, 1, 3]
    session.run(init)
    assert session.run([v, w])[0].tolist() == [0, 2, 4]


def test_eager_variables_and_updates() -> None:
    w = ns.variable(np.zeros(2), name="w")
    ns.assign_add(w, np.ones(2))
    ns.assign_sub(w, [0.5, 0.5])
    assert w.numpy().tolist() == [0.5, 0.5]
    with pytest.raises(ShapeError):
        ns.assign_add(w, np.ones(3))


def test_random_draws_continue_from_run_to_run() -> None:
    rng = ns.random.default_rng(3)
    eager = ns.random.default_rng(3)
    wanted = [eager.standard_normal(4).numpy() for _ in range(4)]
    with ns.Graph().as_default() as g:
        left_one = rng.standard_normal(4)
        two = rng.standard_normal(4)
    session = ns.Session(g)
    first = session.run([left_one, two])
    second = session.run([left_one, two])
    for result, expected in zip([*first, *second], wanted, strict=True):
        assert result.tobytes() == expected.tobytes()


# Control, callables, caching


def test_control_dependencies_order_effects() -> None:
    with ns.Graph().as_default() as g:
        v = ns.variable(np.float64(1.0), name="v")
        double = ns.assign(v, v * 2)
        with ns.control_dependencies([double]):
            plus = ns.assign_add(v, 1.0)
        with ns.control_dependencies([plus]):
            seen = ns.identity(v, name="seen")
        both = ns.group(double, plus)
        init = ns.global_variables_initializer()
    session = ns.Session(g)
    session.run(init)
    assert session.run(seen) == 3.0
    assert session.run(both) is None
    assert session.run(v) == 7.0


def test_make_callable_and_the_cache() -> None:
    g, x, y = graph()
    session = ns.Session(g)
    call = session.make_callable([y], [x])
    assert call(np.ones((2, 3)))[0].tolist() == [[2] * 3] * 2
    with pytest.raises(UsageError, match="takes 1 values, not 2"):
        call(1, 2)
    session.run(y, {x: np.ones((2, 3))})
    assert len(session._programs) == 1
    with g.as_default():
        z = y + 1
    assert session.run(z, {x: np.ones((2, 3))})[0, 0] == 3
    assert len(session._programs) == 2


def test_control_flow_in_a_graph() -> None:
    with ns.Graph().as_default() as g:
        x = ns.placeholder(np.float64, (), name="x")
        w = ns.variable(np.float64(10.0), name="w")
        y = ns.cond(x > 0, lambda: x * w, lambda: x - w)
        dw = ns.gradients(y, w)[0]
        init = ns.global_variables_initializer()
    session = ns.Session(g)
    session.run(init)
    assert [float(item) for item in session.run([y, dw], {x: 2.0})] == [20.0, 2.0]
    assert [float(item) for item in session.run([y, dw], {x: -2.0})] == [-12.0, -1.0]


# Errors and observation


def test_an_error_names_the_node_and_its_line() -> None:
    with ns.Graph().as_default() as g:
        x = ns.placeholder(np.float64, (2, 2), name="x")
        with ns.name_scope("solver"):
            y = np.linalg.inv(x)
    session = ns.Session(g)
    # The third run takes the fast path.
    for matrix in (np.zeros((2, 2)), np.eye(2), np.zeros((2, 2))):
        if matrix.any():
            session.run(y, {x: matrix})
            continue
        with pytest.raises((NodescopeError, np.linalg.LinAlgError)) as error:
            session.run(y, {x: matrix})
        notes = "".join(error.value.__notes__)
        assert "'solver/inv'" in notes
        assert "test_session.py" in notes


def test_one_of_several_outputs_may_be_fed() -> None:
    with ns.Graph().as_default() as g:
        x = ns.placeholder(np.float64, (2, 2), name="x")
        u, s, vh = np.linalg.svd(x)
        back = (u * s) @ vh
    session = ns.Session(g)
    for _ in range(3):
        result = session.run([back, s], {x: np.eye(2), s: np.array([3.0, 4.0])})
        assert sorted(np.abs(result[0]).ravel().tolist()) == [0, 0, 3, 4]
        assert result[1].tolist() == [3, 4]


def test_observed_runs_keep_names_phases_and_identity() -> None:
    with ns.Graph().as_default() as g:
        with ns.name_scope("net"):
            w = ns.variable(np.ones(3), name="w")
            ns.constant(0.0, name="unused")
            ns.identity(w * 2, name="unused_too")
            y = ns.identity(w * 3, name="y")
        dw = ns.gradients(np.sum(y), w)[0]
        up = ns.assign_sub(w, dw)
        init = ns.global_variables_initializer()
    plain, watched = ns.Session(g), ns.Session(g)
    plain.run(init)
    expected = [plain.run([y, up])[0] for _ in range(3)]
    with observed() as events:
        watched.run(init)
        results = [watched.run([y, up])[0] for _ in range(3)]
    assert [array.tobytes() for array in results] == [array.tobytes() for array in expected]
    by_name = events.nodes
    assert {"net/w", "net/multiply_1", "net/y", "assign_sub"} <= set(by_name)
    assert "net/unused_too" not in by_name
    # The name `net/multiply` belongs to an operation that does not run.
    assert "net/multiply" not in by_name
    backward = [node for node in by_name.values() if node.phase == "backward"]
    assert backward
    assert any(node.forward == by_name["net/multiply_1"].id for node in backward)
    assert by_name["net/y"].source is not None
    assert by_name["net/y"].source.file == __file__
    ids = [event.node.id for event in events.of(NodeFinished) if event.node.name == "net/y"]
    assert len(ids) == 3
    assert len(set(ids)) == 1
    assert events.of(GradientComputed)


def test_observed_nodes_show_devices_and_control_edges() -> None:
    with ns.Graph().as_default() as g:
        with ns.device("worker:1"):
            v = ns.variable(np.zeros(2), name="v")
            up = ns.assign_add(v, np.ones(2))
        with ns.device("worker:0"), ns.control_dependencies([up]):
            seen = ns.identity(v, name="seen")
        init = ns.global_variables_initializer()
    session = ns.Session(g)
    session.run(init)
    with observed() as events:
        assert session.run(seen).tolist() == [1, 1]
    nodes = events.nodes
    assert nodes["assign_add"].device == nodes["v"].device == "worker:1"
    assert nodes["seen"].device == "worker:0"
    assert nodes["seen"].control_inputs == (nodes["assign_add"].id,)


def test_two_graphs_are_two_sets_of_nodes() -> None:
    g, x, y = graph()
    h, x2, y2 = graph()
    with observed() as events:
        ns.Session(g).run(y, {x: np.ones((2, 3))})
        ns.Session(h).run(y2, {x2: np.ones((2, 3))})
    assert events.ran == ["x", "multiply", "y", "x_1", "multiply_1", "y_1"]


def test_compiled_functions_and_graphs_do_not_get_in_each_others_way() -> None:
    with ns.Graph().as_default() as g:
        x = ns.placeholder(np.float64, (3,), name="x")
        y = np.sum(x * 2)
    session = ns.Session(g)

    @ns.compile
    def twice(t: Any) -> Any:
        return t * 2

    with g.as_default():
        assert session.run(y, {x: np.ones(3)}) == 6.0
    assert twice(ns.tensor([1.0])).item() == 2.0
