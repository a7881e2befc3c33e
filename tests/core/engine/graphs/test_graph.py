"""Graphs built by hand: names, scopes, operations, collections, control, devices, threads."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import NodescopeError, RegistryError, ShapeError, TraceError, UsageError


def names(graph: ns.Graph) -> list[str]:
    return [get_operation.name for get_operation in graph.get_operations()]


def test_names_are_unique_under_nested_scopes() -> None:
    with ns.Graph().as_default() as g:
        assert ns.constant(1.0, name="c").op.name == "c"
        assert ns.constant(1.0, name="c").op.name == "c_1"
        with ns.name_scope("scope1"):
            assert ns.constant(1.0, name="c").op.name == "scope1/c"
            with ns.name_scope("scope2"):
                assert ns.constant(1.0, name="c").op.name == "scope1/scope2/c"
            assert ns.constant(1.0, name="c").name == "scope1/c_1:0"
    assert names(g) == ["c", "c_1", "scope1/c", "scope1/scope2/c", "scope1/c_1"]


def test_a_scope_entered_again_is_another_one_unless_by_its_path() -> None:
    with ns.Graph().as_default():
        with ns.name_scope("a") as path:
            assert path == "a/"
            ns.constant(0, name="x")
        with ns.name_scope("a") as again:
            assert again == "a_1/"
            assert ns.constant(0, name="x").op.name == "a_1/x"
        with ns.name_scope(path):
            assert ns.constant(0, name="x").op.name == "a/x_1"
            with ns.name_scope(""):
                assert ns.constant(0, name="x").op.name == "x"
        # Operations and scopes share one namespace.
        assert ns.constant(0, name="a").op.name == "a_2"


def test_eager_scopes_stay_as_they_are() -> None:
    with ns.name_scope("a") as first:
        pass
    with ns.name_scope("a") as two:
        pass
    assert first == two == "a"
    with pytest.raises(UsageError, match="is not a name"):
        ns.name_scope("a/")


def test_default_graphs_nest_and_are_restored() -> None:
    outside = ns.get_default_graph()
    g, h = ns.Graph(), ns.Graph()
    with g.as_default(), ns.name_scope("s"):
        with h.as_default():
            assert ns.get_default_graph() is h
            assert ns.constant(1.0, name="x").op.name == "x"
            with g.as_default():  # Entering g again returns to its scope.
                assert ns.constant(1.0, name="x").op.name == "s/x"
        assert ns.get_default_graph() is g
        with pytest.raises(ZeroDivisionError), h.as_default():
            1 / 0  # noqa: B018
        assert ns.constant(1.0, name="y").op.name == "s/y"
    assert ns.get_default_graph() is outside
    assert (ns.tensor(2.0) * 3).item() == 6.0  # Operations are eager again.


def test_each_thread_has_its_own_default() -> None:
    seen: list[Any] = []
    with ns.Graph().as_default() as g:
        thread = threading.Thread(target=lambda: seen.append(ns.get_default_graph()))
        thread.start()
        thread.join()
        assert ns.get_default_graph() is g
    assert seen[0] is not g


def test_leaving_in_the_wrong_order_is_refused() -> None:
    g, h = ns.Graph(), ns.Graph()
    first, two = g.as_default(), h.as_default()
    first.__enter__()
    two.__enter__()
    with pytest.raises(UsageError, match="a different order"):
        first.__exit__(None, None, None)
    assert ns.get_default_graph() is h
    two.__exit__(None, None, None)
    assert ns.get_default_graph() not in (g, h)
    assert (ns.tensor(1.0) + 1).item() == 2.0


def test_operations_say_what_they_are() -> None:
    with ns.Graph().as_default() as g:
        a = ns.placeholder(np.float32, (2, 3), name="a")
        b = ns.placeholder(np.float32, (3, 4), name="b")
        with ns.device("cpu:0"):
            c = a @ b
        d = np.sum(c, axis=1)
    op = c.op
    assert (op.name, op.id, op.type, op.device) == ("matmul", 3, "matmul", "cpu:0")
    assert op.graph is g
    assert [value.name for value in op.inputs] == ["a:0", "b:0"]
    assert op.outputs[0] is c
    assert c.consumers() == [d.op]
    assert d.op.attrs["axis"] == 1
    assert d.op.source is not None
    assert d.op.source.file == __file__
    assert g.get_operation_by_name("matmul") == op == g.get_operation_by_id(3)
    assert g.get_tensor_by_name("matmul:0") is c
    assert g.version == 4


@pytest.mark.parametrize(
    ("find", "message"),
    [
        (lambda g: g.get_operation_by_name("alph"), "did you mean 'alpha'"),
        (lambda g: g.get_operation_by_name("alpha:0"), "get_tensor_by_name"),
        (lambda g: g.get_tensor_by_name("alpha"), "'alpha:0'"),
        (lambda g: g.get_tensor_by_name("alpha:1"), "has 1 outputs"),
        (lambda g: g.get_operation_by_id(7), "from 1 to 1"),
    ],
)
def test_what_is_not_there_is_reported(find: Any, message: str) -> None:
    with ns.Graph().as_default() as g:
        ns.constant(1.0, name="alpha")
    with pytest.raises(RegistryError, match=message) as error:
        find(g)
    assert __file__ in error.value.source


def test_registration_is_safe_under_threads() -> None:
    g = ns.Graph()
    item, start = 40, threading.Barrier(16)
    failures: list[BaseException] = []

    def build(number: int) -> None:
        try:
            start.wait()
            with g.as_default(), ns.name_scope("shared"):
                x = ns.constant(float(number), name="x")
                for _ in range(item):
                    x = x + 1.0
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=build, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    result = names(g)
    assert len(result) == 16 * (item + 1) == g.version
    assert len(set(result)) == len(result)
    assert [op.id for op in g.get_operations()] == list(range(1, len(result) + 1))
    ends = [op.outputs[0] for op in g.get_operations() if not op.outputs[0].consumers()]
    assert sorted(ns.Session(g).run(ends)) == [number + item for number in range(16)]


def test_a_finalized_graph_is_read_only() -> None:
    with ns.Graph().as_default() as g:
        x = ns.constant(1.0, name="x")
        g.finalize()
        assert g.finalized
        with pytest.raises(UsageError, match="finalized") as error:
            x + 1
        assert __file__ in error.value.source
        with pytest.raises(UsageError, match="finalized"):
            g.add_to_collection("k", 1)
    assert ns.Session(g).run(x) == 1.0


def test_collections() -> None:
    with ns.Graph().as_default() as g:
        with ns.name_scope("one"):
            w = ns.variable(np.zeros(2), name="w")
        v = ns.variable(np.zeros(2), name="v", trainable=False)
        n = ns.variable(np.zeros(2, np.int64), name="n", collections=["mine"])
    keys = ns.GraphKeys
    assert g.get_collection(keys.GLOBAL_VARIABLES)[0] is w
    assert g.get_collection(keys.GLOBAL_VARIABLES)[1] is v
    assert [t.name for t in g.get_collection(keys.GLOBAL_VARIABLES)] == ["one/w:0", "v:0"]
    assert [t.name for t in g.get_collection(keys.TRAINABLE_VARIABLES)] == ["one/w:0"]
    assert g.get_collection("mine")[0] is n
    assert [t.name for t in g.get_collection(keys.GLOBAL_VARIABLES, scope="one")] == ["one/w:0"]
    g.get_collection_ref("live").append(3)
    g.add_to_collections(["live", "other", "live"], 4)
    assert g.get_collection("live") == [3, 4]
    g.get_collection("live").append(5)  # get_collection returns a copy.
    assert g.get_collection("live") == [3, 4]
    g.clear_collection("live")
    assert g.get_collection("live") == []
    assert set(g.get_all_collection_keys()) == {
        keys.GLOBAL_VARIABLES, keys.TRAINABLE_VARIABLES, "mine", "other",
    }  # fmt: skip


def test_control_dependencies_are_edges_without_value() -> None:
    with ns.Graph().as_default() as g:
        a, b = ns.constant(1.0, name="a"), ns.constant(2.0, name="b")
        with ns.control_dependencies([a]):
            with ns.control_dependencies([b.op]):
                c = ns.identity(ns.constant(0.0, name="k"), name="c")
            with ns.control_dependencies(None):
                d = ns.no_op("d")
            e = ns.identity(a, name="e")
    assert [control.name for control in c.op.control_inputs] == ["a", "b"]
    assert [control.name for control in d.control_inputs] == ["_SOURCE"]
    assert e.op.control_inputs == ()  # It depends on `a` as an input already.
    assert ("a", -1, "c", -1) in g.edges
    assert ("a", 0, "e", 0) in g.edges
    assert [control_output.name for control_output in a.op.control_outputs] == ["k", "c"]


def test_source_and_sink_hold_everything_together() -> None:
    with ns.Graph().as_default() as g:
        a = ns.constant(1.0, name="a")
        b = ns.identity(a, name="b")
        ns.constant(3.0, name="alone")
    assert [control_output.name for control_output in g.source.control_outputs] == ["a", "alone"]
    assert [control.name for control in g.sink.control_inputs] == ["b", "alone"]
    assert g.source.id == 0
    assert g.sink.id == -1
    assert b.op.control_outputs == (g.sink,)
    assert ("_SOURCE", -1, "a", -1) in g.edges
    assert ("b", -1, "_SINK", -1) in g.edges


def test_devices_nest() -> None:
    def by_op(op: str) -> str:
        return "gpu:1" if op == "multiply" else ""

    with ns.Graph().as_default():
        x = ns.constant(2.0)
        assert x.op.device == "cpu"
        with ns.device("worker:1"):
            with ns.device("cpu:1"):
                assert (x + 1).op.device == "worker:1/cpu:1"
                with ns.device("worker:2"):
                    assert (x + 1).op.device == "worker:2/cpu:1"
                with ns.device(None):
                    assert (x + 1).op.device == "cpu"
            with ns.device(by_op):
                assert (x * 2).op.device == "worker:1/gpu:1"
                assert (x + 2).op.device == "worker:1"
    with ns.device("cpu:0"):
        assert (ns.tensor(1.0) + 1).item() == 2.0
    with pytest.raises(UsageError, match="eagerly"):
        ns.device("gpu:0")


@pytest.mark.parametrize(
    ("build", "kind", "message"),
    [
        (lambda: ns.placeholder(np.float32, (None, 3)), ShapeError, "unknown sizes"),
        (lambda: ns.placeholder(np.float32), ShapeError, "unknown sizes"),
        (lambda: ns.placeholder(np.float32, (2,), name="a b"), UsageError, "not a name"),
        (lambda: bool(ns.constant(True)), TraceError, "Python branch"),
        (lambda: float(ns.constant(1.0)), TraceError, "not known"),
        (
            lambda: ns.constant(np.zeros((2, 3))) @ ns.constant(np.zeros((2, 3))),
            ShapeError,
            "matmul",
        ),
        (lambda: ns.assign(ns.constant(1.0), 2.0), UsageError, "only variables"),
        (lambda: ns.gradients(ns.constant(1), ns.constant(1.0)), NodescopeError, "gradient"),
    ],
)
def test_mistakes_are_reported_at_the_users_line(build: Any, kind: Any, message: str) -> None:
    with ns.Graph().as_default(), pytest.raises(kind, match=message) as error:
        build()
    assert __file__ in error.value.source


def test_graph_functions_need_a_graph() -> None:
    with pytest.raises(UsageError, match="no graph is being built"):
        ns.placeholder(np.float32, ())


def test_values_of_two_graphs_do_not_mix() -> None:
    with ns.Graph().as_default():
        x = ns.constant(1.0)
    with ns.Graph().as_default() as g:
        with pytest.raises(TraceError, match="outside of the graph"):
            x + ns.constant(1.0)
        with pytest.raises(UsageError, match="another graph"), g.control_dependencies([x]):
            pass
    with pytest.raises(TraceError):
        x * 2


def test_many_entered_at_once_by_an_exit_stack() -> None:
    with ExitStack() as stack:
        graphs = [stack.enter_context(ns.Graph().as_default()) for _ in range(3)]
        assert ns.get_default_graph() is graphs[-1]
    assert ns.get_default_graph() not in graphs


def test_writing_in_place_in_a_graph() -> None:
    with ns.Graph().as_default() as g:
        x = ns.placeholder(np.float64, (3,), name="x")
        w = ns.variable(np.ones(3), name="w")
        y = x * 2
        before = y + 0
        y += 1
        y[0] = 7.0
        for write in (lambda: w.__setitem__(0, 5.0), lambda: w.__iadd__(1)):
            with pytest.raises(TraceError, match="variable of the graph") as error:
                write()
            assert "nodescope.assign" in error.value.hint
    result = ns.Session(g).run([before, y], {x: np.ones(3)})
    assert [array.tolist() for array in result] == [[2, 2, 2], [7, 3, 3]]


def test_eager_tensors_have_no_operation() -> None:
    with pytest.raises(UsageError, match="computed eagerly has no operation"):
        ns.tensor(1.0).op  # noqa: B018
    with ns.Graph().as_default() as g:
        data = ns.tensor([1.0, 2.0], name="data")
        total = np.sum(data)
        assert data.op.name == "data"
        assert data.consumers() == [total.op]
    assert ns.Session(g).run([total, data])[0] == 3.0
