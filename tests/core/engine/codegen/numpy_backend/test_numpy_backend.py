"""The back end numpy gives the same bits and layouts as running node by node, in every run."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

import nodescope as ns
from nodescope import ops
from nodescope.engine.codegen import backend
from nodescope.engine.codegen.backend import Runner
from nodescope.engine.codegen.interpret import PLAIN
from nodescope.engine.codegen.numpy_backend import NUMPY, observe, place
from nodescope.engine.codegen.numpy_backend.runner import LAYOUTS, NumpyRunner
from nodescope.engine.control.body import graph_of
from nodescope.ir.graph import Graph, Node, TensorSpec, Value
from nodescope.ops.control import constants_of
from nodescope.ops.op import Op, Sample, port_name
from nodescope.passes.pipeline import Lowered, lower
from tests.core.engine.codegen.numpy_backend import numpy_programs
from tests.parts import in_parts

Arrays = Sequence[Any]


def same(first: Any, other: Any) -> bool:
    """Whether dtype, shape, strides and bits are the same."""
    return bool(
        first.dtype == other.dtype and first.shape == other.shape and first.strides == other.strides
        and first.tobytes() == other.tobytes()
    )  # fmt: skip


def runners(function: Callable[..., Any], inputs: Arrays, passes: Any = ()) -> tuple[Runner, Any]:
    graph = graph_of(function, *inputs)
    lowered = lower(graph, constants_of(graph), passes)
    return PLAIN.build(lowered), NUMPY.build(lowered)


def check(function: Callable[..., Any], *inputs: Any, passes: Any = ()) -> NumpyRunner:
    """Compare three runs with running node by node."""
    plain, fast = runners(function, inputs, passes)
    expected = plain.run(inputs)
    for _ in range(3):
        result = fast.run(inputs)
        assert len(result) == len(expected)
        for first, other in zip(result, expected, strict=True):
            assert isinstance(first, np.ndarray)
            assert same(first, other), fast.source
    return fast  # type: ignore[no-any-return]


def normal(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def layouts(x: Any) -> list[Any]:
    """An array in other layouts."""
    results = [x.copy(order="F"), x.copy()]
    results[-1].flags.writeable = False
    if x.ndim:
        results.append(np.ascontiguousarray(x[::-1])[::-1])
        wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
        wide[..., ::2] = x
        results.append(wide[..., ::2])
        results.append(np.broadcast_to(x[:1], x.shape))
    return results


# Each op by itself, by the calls of the conformance suite


def _graph(op: Op, sample: Sample, *, copied: bool) -> tuple[Graph, list[Any]]:
    """A graph of one node; its outputs copied, so that they may stand in planned memory."""
    attrs, feeds = dict(sample.attrs), []
    for port, value in enumerate(sample.inputs):
        if isinstance(value, bool | int | float | complex):
            attrs[port_name(op, port)] = value
        else:
            feeds.append(np.asarray(value))
    result = op.impl(*sample.inputs, **sample.attrs)
    outs = [np.asarray(item) for item in (result if isinstance(result, tuple) else (result,))]
    ids = tuple(range(1, 1 + len(feeds)))
    result_ids = tuple(range(100, 100 + len(outs)))
    copies = tuple(range(200, 200 + len(outs)))
    nodes = [Node(1, op.name, op.name, op.family, ids, outputs=result_ids, attrs=attrs)]
    if copied:
        nodes += [
            Node(2 + i, f"copy_{i}", "copy", "layout", (item,), outputs=(copies[i],))
            for i, item in enumerate(result_ids)
        ]
    values = tuple(
        Value(number, TensorSpec(spec.shape, spec.dtype.name), f"v{number}")
        for number, spec in zip((*ids, *result_ids, *copies), (*feeds, *outs, *outs), strict=True)
    )
    return Graph(1, "static", ids, copies if copied else result_ids, tuple(nodes), values), feeds


def _outcome(runner: Runner, feeds: Arrays) -> Any:
    try:
        return runner.run(feeds)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.one_in(2)
@in_parts(8)
@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("op", list(ops.all_ops()), ids=lambda op: op.name)
def test_each_op_in_every_layout(op: Op, copied: bool) -> None:
    for sample in op.samples(np.random.default_rng(0)):
        graph, feeds = _graph(op, sample, copied=copied)
        lowered = Lowered(graph, graph, {})
        plain, fast = PLAIN.build(lowered), NUMPY.build(lowered)
        for variant in (feeds, [np.asfortranarray(feed) for feed in feeds],
                        [feed[::-1] if feed.ndim else feed for feed in feeds]):  # fmt: skip
            expected = _outcome(plain, variant)
            for _ in range(3):
                result = _outcome(fast, variant)
                if isinstance(expected, tuple):
                    assert result == expected
                    continue
                assert all(map(same, result, expected)), (sample.attrs, fast.source)


@in_parts(2)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int64", "bool"])
@pytest.mark.parametrize("name", sorted(numpy_programs.CHAINS))
def test_chains_of_other_dtypes(name: str, dtype: str) -> None:
    x = (normal(6, 5) * 3).astype(dtype)
    with np.errstate(all="ignore"):
        check(numpy_programs.CHAINS[name], x)


# Programs


@in_parts(4)
@pytest.mark.parametrize("passes", [(), None], ids=["as traced", "all passes"])
@pytest.mark.parametrize("name", sorted(numpy_programs.PROGRAMS))
def test_programs(name: str, passes: Any) -> None:
    function, inputs = numpy_programs.PROGRAMS[name]
    check(function, *inputs, passes=passes)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", sorted(numpy_programs.PROGRAMS))
def test_programs_with_feeds_of_other_layouts(name: str) -> None:
    function, inputs = numpy_programs.PROGRAMS[name]
    for i, value in enumerate(inputs):
        for other in layouts(value):
            check(function, *inputs[:i], other, *inputs[i + 1 :])


@pytest.mark.parametrize("name", sorted(numpy_programs.LARGE))
def test_large_kernels_run_in_tiles(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "TILED_FROM", 3 << 20)
    function, inputs = numpy_programs.LARGE[name]
    with np.errstate(all="ignore"):
        fast = check(function, *inputs, passes=None)
    assert "in tiles" in fast.source


@pytest.mark.parametrize("name", sorted(n for n in numpy_programs.PROGRAMS if "scan" in n))
def test_a_loop_runs_by_its_text_while_it_is_observed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, ran = observe.ProgramRecorder._run_loop, []
    monkeypatch.setattr(observe, "_LONG", 1)
    monkeypatch.setattr(
        observe.ProgramRecorder, "_run_loop", lambda self, loop: (ran.append(loop), run(self, loop))
    )
    function, inputs = numpy_programs.PROGRAMS[name]
    plain, fast = runners(function, inputs)
    for first, other in zip(fast.run(inputs), plain.run(inputs), strict=True):
        assert same(first, other), fast.source
    assert ran or "for " not in fast.source
    check(function, *inputs)


def test_each_layout_has_a_program_up_to_a_limit() -> None:
    inputs = (normal(4, 4), normal(4, 4, seed=1))
    plain, fast = runners(lambda a, b: (np.tanh(a @ b) * a).sum(axis=0), inputs)
    feed_pairs = [(a, b) for a in layouts(inputs[0]) for b in layouts(inputs[1])]
    for _ in range(2):
        for feeds in feed_pairs:
            assert same(fast.run(feeds)[0], plain.run(feeds)[0])
    assert len(fast._variants) == LAYOUTS


def test_a_rate_that_promotes_weakly() -> None:
    weight, slope = normal(8, 4), normal(8, 4, seed=1)
    rate = np.asarray(0.1, np.float32)
    plain, fast = runners(lambda w, g, lr: (w - g * lr, g * (lr * 2.0)), (weight, slope, rate))
    for feeds in [(weight, slope, 0.1), (weight, slope, rate), (weight, slope, 0.25)]:
        expected = plain.run(feeds)
        for _ in range(2):
            assert all(map(same, fast.run(feeds), expected))
    halves = tuple(array.astype(np.float16) for array in (weight, slope))
    plain, fast = runners(lambda w, g, lr: w - g * lr, (*halves, np.asarray(0.1, np.float16)))
    for _ in range(3):
        assert fast.run((*halves, 0.1))[0].dtype == np.float16


# Whose memory it is


@in_parts(2)
@pytest.mark.parametrize("name", sorted(numpy_programs.PROGRAMS))
def test_results_are_the_callers(name: str) -> None:
    function, inputs = numpy_programs.PROGRAMS[name]
    plain, fast = runners(function, inputs)
    expected = plain.run(inputs)
    fast.run(inputs)
    first = fast.run(inputs)
    other_inputs = [value * 2 if value.dtype.kind == "f" else value for value in inputs]
    fast.run(other_inputs)
    assert all(map(same, first, expected))


def test_threads_share_no_buffers() -> None:
    inputs = [normal(64, 64, seed=i) for i in range(6)]
    plain, fast = runners(lambda x: np.tanh(x @ x + 1.0) @ np.exp(-x * x), (inputs[0],))
    expected = [plain.run((value,))[0] for value in inputs]
    fast.run((inputs[0],))
    wrong: list[int] = []

    def work(i: int) -> None:
        wrong.extend(i for _ in range(60) if not same(fast.run((inputs[i],))[0], expected[i]))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_error_is_the_impls_own_and_leaves_the_plan_usable() -> None:
    def program(x: Any, labels: Any) -> Any:
        return ns.cross_entropy(np.tanh(x) * 2.0, labels)

    good, bad = (normal(4, 3), np.array([0, 1, 2, 1])), (normal(4, 3), np.array([0, 1, 3, 1]))
    plain, fast = runners(program, good)
    expected = plain.run(good)
    for _ in range(2):
        assert _outcome(fast, bad) == _outcome(plain, bad)
        assert _outcome(fast, bad)[0].__name__ == "BoundsError"
        assert all(map(same, fast.run(good), expected))


# Kernels, times, text


@in_parts(2)
@pytest.mark.parametrize("name", sorted(numpy_programs.PROGRAMS))
def test_kernels_give_what_a_run_gives(name: str) -> None:
    function, inputs = numpy_programs.PROGRAMS[name]
    graph = graph_of(function, *inputs)
    lowered = lower(graph, constants_of(graph))
    fast = NUMPY.build(lowered)
    fast.run(inputs)
    expected = fast.run(inputs)
    values = dict(zip(lowered.graph.inputs, inputs, strict=True)) | dict(lowered.arrays)
    for node in lowered.graph.nodes:
        if node.id in fast.kernels:
            arguments = [values[value] for value in node.inputs]
            values.update(zip(node.outputs, fast.kernels[node.id](*arguments), strict=True))
    assert all(same(values[v], e) for v, e in zip(lowered.graph.outputs, expected, strict=True))


def test_stamps_are_in_order_and_change_no_bit() -> None:
    for function, inputs in numpy_programs.PROGRAMS.values():
        plain, fast = runners(function, inputs, None)
        expected = plain.run(inputs)
        stamps = np.zeros(2 * len(fast.kernels), np.int64)
        for _ in range(3):
            stamps[:] = 0
            result = fast.run_timed(inputs, stamps)
            assert all(map(same, result, expected))
            assert (np.diff(stamps) >= 0).all()
            assert (stamps > 0).all()
            fast.run(inputs)


def test_the_text_names_each_node_and_nothing_of_the_users() -> None:
    fast = check(lambda x: np.tanh(x * 2.0) + 1.0, normal(3, 4))
    assert "@" in fast.source
    assert "tanh" in fast.source
    names = set(re.findall(r"^\s+(?!#)(\w+) =", fast.source, re.M))
    assert all(re.fullmatch(r"[a-z]\d+(_\d+)?|tiles\d+", name) for name in names)


def test_a_name_that_looks_like_code_stays_a_comment() -> None:
    graph = graph_of(lambda x: x + 1.0, np.ones(3))
    evil = tuple(
        msgspec.structs.replace(node, name="x'\nraise SystemExit\u2028raise SystemExit")
        for node in graph.nodes
    )
    graph = msgspec.structs.replace(graph, nodes=evil)
    fast = NUMPY.build(Lowered(graph, graph, constants_of(graph)))
    for _ in range(2):
        assert fast.run((np.ones(3),))[0].tolist() == [2.0, 2.0, 2.0]


def test_memory_is_reported() -> None:
    fast = check(lambda x: np.sqrt(np.exp(np.tanh(x)) + 1.0).sum(), normal(100, 10))
    report = fast.memory
    assert report is not None
    assert report.planned_bytes <= report.unplanned_bytes <= report.total_bytes == 4 * 4000
    assert report.in_place == 3


def test_the_back_end_is_found_by_name() -> None:
    result = backend.get("numpy")
    assert result is NUMPY
    assert result.exact
    assert result.missing() == ""


def test_what_is_computed_over_an_operand_is_not_let_go_with_it() -> None:
    f = ns.compile(lambda x: np.concatenate([x, x * 2.0], axis=1).mean(axis=0), backend="numpy")
    x = np.random.default_rng(0).standard_normal((2, 1 << 15))
    expected = np.concatenate([x, x * 2.0], axis=1).mean(axis=0)
    for _ in range(3):
        np.testing.assert_array_equal(f(ns.tensor(x)).numpy(), expected)


def test_whole_numbers_beyond_what_a_dtype_holds() -> None:
    x = np.array([0.0, 1.0, -2.0, 65504.0], np.float16)
    f = ns.compile(lambda x: x / 2**100 + 1.0, backend="numpy")
    with np.errstate(all="ignore"):
        expected = (lambda x: x / 2**100 + 1.0)(ns.tensor(x)).numpy()
        for _ in range(2):
            np.testing.assert_array_equal(f(ns.tensor(x)).numpy(), expected)


def test_a_carry_that_is_a_columns_number_is_given_out_as_an_array() -> None:
    def function(start: Any, x: Any) -> Any:
        return ns.scan(lambda c, item: (item, c * 2.0), start, x)

    for length in (2, 5, 300):
        check(function, normal(), normal(length))
