"""The C back end compared with the plain one: kernels, odd feeds, threads, times, memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bench.programs.cnn
import bench.programs.lstm
import bench.programs.mlp
import bench.programs.transformer
import nodescope as ns
from bench.programs import chain
from bench.programs.case import difference
from nodescope import nn
from nodescope.engine.codegen.backend import get
from nodescope.engine.codegen.c_backend.runner import CRunner
from nodescope.engine.codegen.interpret import PlainRunner
from nodescope.ir.graph import GIVEN
from nodescope.ops.calls import call_of
from nodescope.passes.pipeline import Lowered, LoweringOptions, lower

F = nn.functional
RNG = np.random.default_rng(7)
Array = np.ndarray[Any, Any]


def f32(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def f64(*shape: int) -> Array:
    return RNG.standard_normal(shape)


def lowered(function: Callable[..., Any], *arrays: Any) -> tuple[Lowered, list[Any]]:
    """A function's graph after the passes for C, and its feeds."""
    tensors = [ns.tensor(array) for array in arrays]
    program = ns.compile(function).graph(*tensors)
    fed = dict(program.state)
    fed.update({value: array for (_, value), array in zip(program._arguments, arrays, strict=True)})
    result = lower(program.graph, program.constants, None, LoweringOptions(backend="c"))
    return result, [fed[value] for value in program.graph.inputs]


def ready(function: Callable[..., Any], *arrays: Any) -> tuple[CRunner, Lowered, list[Any]]:
    """A function compiled to C; fails without a compiler."""
    assert not get("c").missing(), get("c").missing()
    result, feeds = lowered(function, *arrays)
    return CRunner(result), result, feeds


def near(first: Any, other: Any, tolerance: float = 4e-6) -> None:
    """Check for equal shapes, dtypes, NaN and infinities, close floats, and other values equal."""
    first, other = np.asarray(first), np.asarray(other)
    assert (first.shape, first.dtype) == (other.shape, other.dtype)
    if first.dtype.kind != "f":
        np.testing.assert_array_equal(first, other)
        return
    scale = float(np.abs(np.where(np.isfinite(other), other, 0)).max(initial=0))
    room = tolerance * (1.0 if first.dtype == np.float32 else 1e-8)
    np.testing.assert_allclose(first, other, rtol=room, atol=room * scale)


def compare(function: Callable[..., Any], *arrays: Any, native: bool = True) -> CRunner:
    runner, result, feeds = ready(function, *arrays)
    if native:
        assert runner.python == {}, runner.python
    with np.errstate(all="ignore"):
        right = PlainRunner(result).run(feeds)
        actual = runner.run(feeds)
        for first, other in zip(actual, right, strict=True):
            near(first, other)
        alone = one_by_one(runner, result, feeds)
    for first, other in zip(alone, actual, strict=True):
        assert np.asarray(first).tobytes() == np.asarray(other).tobytes()
    return runner


def one_by_one(runner: CRunner, result: Lowered, feeds: list[Any]) -> list[Any]:
    values: dict[int, Any] = {**result.arrays, **dict(zip(result.graph.inputs, feeds, strict=True))}
    for node in result.graph.nodes:
        if node.op not in GIVEN:
            inputs = [values[arg] for arg in call_of(node).args if isinstance(arg, int)]
            values.update(zip(node.outputs, runner.kernels[node.id](*inputs), strict=True))
    return [values[value] for value in result.graph.outputs]


def gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: ns.grad(lambda *a: function(*a).sum(), argnums=tuple(range(len(args))))(
        *args
    )


X, Y, ROW, COLUMN = f32(6, 37), f32(6, 37), f32(37), f32(6, 1)
LABELS = np.array([0, 36, 5, 5, 1, 2])

PROGRAMS: dict[str, tuple[Any, ...]] = {
    "chain": (lambda x, y: chain.chain(np, x, y), X, Y),
    "broadcasting": (lambda x, r, c: (x + r) * c - np.maximum(c, r) / 2.0, X, ROW, COLUMN),
    "double": (lambda x: np.tanh(x) * np.exp(-x) + np.sqrt(np.abs(x)), f64(5, 9)),
    "int": (lambda x: (x * 3 - 7) // 2 % 5 + (x << 1), np.arange(-12, 12)),
    "small int": (lambda x: x * x + x, np.arange(-100, 100, dtype=np.int8)),
    "bool": (lambda x, y: (x > y) & (x > 0) | (y < -1), X, Y),
    "where": (lambda x, y: np.where(x > y, x, y * 0.5), X, Y),
    "astype": (lambda x: (x.astype(np.float64) * 2).astype(np.int32), X),
    "sum last": (lambda x: np.sum(x * x, axis=1), X),
    "sum first": (lambda x: np.sum(x, axis=0), X),
    "sum all": (lambda x: np.sum(x), f32(3, 4000)),
    "sum doubles": (lambda x: np.sum(x, axis=-1), f64(2, 5000)),
    "sum middle": (lambda x: x.sum(axis=1), f32(3, 5, 4)),
    "sum ends": (lambda x: x.sum(axis=(0, 2)), f32(3, 5, 4)),
    "sum of ints": (lambda x: x.sum(axis=0), np.arange(12, dtype=np.int16).reshape(3, 4)),
    "mean": (lambda x: x.mean(axis=(0, 1)), f32(3, 5, 4)),
    "prod": (lambda x: x.prod(axis=1), X[:, :5].copy()),
    "max min": (lambda x: (x.max(axis=1), x.min(axis=0), np.max(x)), X),
    "any all": (lambda x: ((x > 2).any(axis=1), (x > -5).all()), X),
    "var std": (lambda x: (x.var(axis=1), x.std(axis=0, ddof=1)), X),
    "argmax": (lambda x: (x.argmax(axis=1), x.argmin(axis=0), np.argmax(x)), X),
    "softmax": (lambda x: F.softmax(x, -1), X),
    "softmax first": (lambda x: F.softmax(x, 0), X),
    "log_softmax": (lambda x: F.log_softmax(x, 1), X),
    "logsumexp": (lambda x: ns.logsumexp(x, axis=1), X),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, 37, w, b), X, ROW, f32(37)),
    "layer_norm gradient": (gradient(lambda x, w, b: F.layer_norm(x, 37, w, b) ** 2), X, ROW,
                            f32(37)),
    "gelu": (lambda x: F.gelu(x, "tanh") + F.gelu(x), X),
    "activations": (lambda x: F.silu(x) + F.sigmoid(x) - F.softplus(x), X),
    "cross_entropy": (lambda x: F.cross_entropy(x, LABELS), X),
    "cross_entropy gradient": (gradient(lambda x: F.cross_entropy(x, LABELS)), X),
    "mse": (lambda x, y: ((x - y) ** 2).mean(), X, Y),
    "transpose": (lambda x: x.T * 2.0, X),
    "views": (lambda x: x.reshape(3, 2, 37)[1:, 0, ::3].T + 1.0, X),
    "flip": (lambda x: np.flip(x, 1) + x, X),
    "view given out": (lambda x: (x * 2.0)[1:3, ::-1], X),
    "broadcast given out": (lambda x: np.broadcast_to(x + 1.0, (4, 37)), ROW),
    "concatenate": (lambda x, y: np.concatenate([x * 2.0, y, x[:1]], axis=0), X, Y),
    "stack": (lambda x, y: np.stack([x, y + 1.0], axis=1), X, Y),
    "slices' gradient": (gradient(lambda x: np.tanh(x[:, :10]) + x[:, 20:30] * x[:, 10:20]), X),
    "rows by number": (lambda x: x[np.array([5, 0, -1])] * 2.0, X),
    "embedding gradient": (gradient(lambda x: x[LABELS % 6] ** 2), X),
    "matmul": (lambda x, y: x @ y.T, X, Y),
    "matmul turned": (lambda x, y: (x.T @ y, y.T @ x), X, Y),
    "matmul of a slice": (lambda x, y: x[:, ::2] @ y[:, 1::2].T, X[:, :36].copy(),
                          Y[:, :36].copy()),
    "matmul of doubles": (lambda x, y: x @ y, f64(4, 5), f64(5, 6)),
    "matmul of vectors": (lambda x, y, m: (x @ y, m @ x, y @ m.T), f32(5), f32(5), f32(3, 5)),
    "matmul batched": (lambda x, y: x @ y, f32(2, 3, 4, 5), f32(3, 5, 6)),
    "matmul of a stack": (lambda x, y: x @ y, f32(2, 3, 5), f32(5, 4)),
    "matmul of nothing": (lambda x, y: x @ y, f32(3, 0), f32(0, 4)),
    "bias and relu": (lambda x, w, b: F.relu(x @ w + b), X, f32(37, 8), f32(8)),
    "attention": (lambda q, k, v: nn.scaled_dot_product_attention(q, k, v), f32(2, 3, 5, 4),
                  f32(2, 3, 5, 4), f32(2, 3, 5, 4)),
    "attention gradient": (gradient(nn.scaled_dot_product_attention), f32(2, 3, 5, 4),
                           f32(2, 3, 5, 4), f32(2, 3, 5, 4)),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1, stride=2), f32(3, 4, 7, 8),
               f32(6, 4, 3, 3), f32(6)),
    "conv2d in groups": (lambda x, w: F.conv2d(x, w, groups=2, dilation=2), f32(2, 4, 9, 8),
                         f32(6, 2, 3, 3)),
    "conv2d gradient": (gradient(lambda x, w, b: F.conv2d(x, w, b, padding=2) ** 2),
                        f32(3, 2, 6, 7), f32(4, 2, 3, 3), f32(4)),
    "conv2d gradient, strided": (gradient(lambda x, w: F.conv2d(x, w, stride=2, padding=1) ** 2),
                                 f32(3, 2, 7, 6), f32(4, 2, 3, 3)),
    "conv1d": (lambda x, w: F.conv1d(x, w, padding=1), f32(3, 2, 9), f32(4, 2, 3)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), f32(2, 3, 6, 8)),
    "max_pool2d, overlapping": (lambda x: F.max_pool2d(x, 3, stride=1, padding=1),
                                f32(2, 3, 6, 8)),
    "max_pool2d gradient": (gradient(lambda x: F.max_pool2d(x, 2) ** 2), f32(2, 3, 7, 8)),
    "max_pool2d gradient, overlapping": (
        gradient(lambda x: F.max_pool2d(x, 3, stride=2, padding=1) ** 2), f32(2, 3, 7, 8)),
    "scan": (lambda x, w: ns.scan(lambda h, x: ((n := np.tanh(h @ w + x)), n * x),
                                  np.zeros((2, 4), np.float32), x), f32(5, 2, 4), f32(4, 4)),
    "scan gradient": (gradient(lambda x, w: ns.scan(
        lambda h, x: (np.tanh(h @ w + x), None), np.zeros((2, 4), np.float32), x)[0]),
        f32(5, 2, 4), f32(4, 4)),
    "scan backwards": (lambda x: ns.scan(lambda h, x: (h * 0.5 + x, h), np.zeros(3, np.float32),
                                         x, reverse=True), f32(6, 3)),
    "no elements": (lambda x, r: ((x + r).sum(axis=0), (x * 2.0).mean(axis=1)), f32(0, 4), f32(4)),
    "scalars": (lambda x: (np.exp(x) + 1.0) * x, np.float32(0.3).reshape(())),
    "one element": (lambda x: F.softmax(x, 0).sum() + x.mean(), f32(1)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program(name: str) -> None:
    function, *arrays = PROGRAMS[name]
    compare(function, *arrays)


def test_nan_and_infinities() -> None:
    x = X.copy()
    x[0, :3] = np.nan, np.inf, -np.inf
    x[1] = -np.inf
    x[2] = -0.0
    compare(lambda x: (x.max(axis=1), x.min(axis=0), x.sum(axis=1), F.softmax(x, 1),
                       np.maximum(x, 0.0), np.exp(x), x.mean(), F.relu(-x)), x)  # fmt: skip


def test_sums_are_no_worse_than_pairwise() -> None:
    for x in (RNG.random((3, 100_003), np.float32), RNG.random((3, 100_003))):
        runner, _, feeds = ready(lambda x: (x.sum(axis=1), x.sum()), x)
        for result, axis in zip(runner.run(feeds), (1, None), strict=True):
            right = np.sum(x, axis=axis, dtype=np.longdouble)
            size = np.sum(np.abs(x), axis=axis, dtype=np.longdouble)
            assert (np.abs(result - right) <= 24 * np.finfo(x.dtype).eps / 2 * size).all()


def test_feeds_of_any_layout() -> None:
    wide = f32(12, 74)
    function = lambda x, y: np.tanh(x) @ y.T + x.sum()  # noqa: E731
    runner, result, feeds = ready(function, X, Y)
    right = PlainRunner(result).run([X, Y])
    for x in (np.asfortranarray(X), wide[::2, ::2], X[::-1], np.broadcast_to(ROW, (6, 37)),
              X.astype(">f4")):  # fmt: skip
        near(runner.run([x, Y])[0], PlainRunner(result).run([np.array(x, np.float32), Y])[0])
    fixed = X.copy()
    fixed.flags.writeable = False
    near(runner.run([fixed, Y])[0], right[0])
    unaligned = np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(X.shape)
    near(runner.run([unaligned, Y])[0], right[0])
    assert len(feeds) == 2


def test_a_number_promotes_weakly() -> None:
    for dtype in (np.float32, np.float64):
        parameter = ns.parameter(RNG.standard_normal(5).astype(dtype), name="p")
        before = parameter.numpy().copy()
        optimizer = ns.optim.SGD([parameter], lr=0.1)

        def step(parameter: Any = parameter, optimizer: Any = optimizer) -> None:
            parameter.grad = None
            (parameter * parameter).sum().backward()
            optimizer.step()

        ns.compile(step, backend="c")()
        np.testing.assert_array_equal(
            parameter.numpy(), before - np.multiply(before + before, 0.1), strict=True
        )


def test_results_are_the_callers_own() -> None:
    runner, _, feeds = ready(lambda x: ((y := x * 2.0), y[:, ::2], y), X)
    first = runner.run(feeds)
    kept = [array.copy() for array in first]
    for i, left_one in enumerate(first):
        for other in (*first[i + 1 :], *runner.run(feeds), X):
            assert not np.shares_memory(left_one, other)
    first[0][...] = 0
    for left_one, other in zip(first[1:], kept[1:], strict=True):
        np.testing.assert_array_equal(left_one, other)


def test_arguments_that_are_donated_or_returned() -> None:
    for size in (3, 300):
        x, y = f32(size, size), f32(size, size)
        function = ns.compile(lambda x, y: (x @ y, x), backend="c", donate="y")
        inputs = ns.tensor(x)
        product, same = function(inputs, ns.tensor(y))
        near(product.numpy(), x @ y, 1e-4)
        np.testing.assert_array_equal(same.numpy(), x)


def test_threads_share_no_buffers() -> None:
    runner, result, _ = ready(lambda x, w: np.tanh(x @ w).sum(axis=0), X, f32(37, 20))
    w = f32(37, 20)
    inputs = [f32(6, 37) for _ in range(4)]
    right = [runner.run([x, w])[0].tobytes() for x in inputs]
    wrong: list[int] = []
    start = threading.Barrier(4)

    def work(i: int) -> None:
        start.wait()
        wrong.extend(i for _ in range(200) if runner.run([inputs[i], w])[0].tobytes() != right[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    near(runner.run([X, w])[0], PlainRunner(result).run([X, w])[0])


def test_every_node_has_a_time() -> None:
    runner, result, feeds = ready(gradient(lambda x, w: np.tanh(x @ w)), X, f32(37, 5))
    nodes = [node for node in result.graph.nodes if node.op not in GIVEN]
    stamps = np.zeros(2 * len(nodes), np.int64)
    timed = runner.run_timed(feeds, stamps)
    assert (stamps > 0).all()
    assert (np.diff(stamps) >= 0).all()
    for first, other in zip(timed, runner.run(feeds), strict=True):
        assert first.tobytes() == other.tobytes()


def test_what_c_cannot_do_runs_in_python_between() -> None:
    def function(x: Any) -> Any:
        y = np.sort(np.tanh(x), axis=1) * 2.0
        return np.linalg.inv(y[:, :6] * y[:, 6:12] + 9.0 * np.eye(6)) + y.sum()

    runner = compare(function, f64(6, 12), native=False)
    assert {len(item) > 0 for item in runner.python.values()} == {True}
    assert len(runner.plan.segments) == 3
    stamps = np.zeros(2 * len(runner.kernels), np.int64)
    runner.run_timed([f64(6, 12)], stamps)
    assert (np.diff(stamps) >= 0).all()


def test_views_of_feeds_for_nodes_in_python() -> None:
    compare(lambda x: np.sort(np.broadcast_to(x, (1, 6, 37))) + x.T.reshape(6, 37), X,
            native=False)  # fmt: skip


def test_an_index_outside_is_an_error() -> None:
    function = ns.compile(lambda x, i: x[i] * 2.0, backend="c")
    x = ns.tensor(X)
    near(function(x, ns.tensor(np.array([0, 5]))).numpy(), X[[0, 5]] * 2)
    with pytest.raises(IndexError):
        function(x, ns.tensor(np.array([0, 6])))
    near(function(x, ns.tensor(np.array([-6, 5]))).numpy(), X[[0, 5]] * 2)


def test_equal_kernels_are_one_function() -> None:
    runner, _, _ = ready(lambda x, y: (np.tanh(x).sum(axis=0), np.tanh(y).sum(axis=0)), X, Y)
    names = {step.function.name for step in runner.plan.steps if step.function is not None}
    assert runner.source.count("ns_tanh_f32(") >= 1
    assert len(names) <= 2


def test_source_and_memory_can_be_read() -> None:
    runner, _, _ = ready(lambda x, w: np.tanh(x @ w) @ w.T, X, f32(37, 5))
    assert "matmul" in runner.source
    assert "ns_run0" in runner.source
    assert runner.memory is not None
    assert 0 < runner.memory.planned_bytes <= runner.memory.total_bytes + 64 * 8


FIVE = (bench.programs.mlp, bench.programs.lstm, bench.programs.cnn, bench.programs.transformer)


@pytest.mark.parametrize("program", FIVE, ids=lambda item: item.__name__.rsplit(".", 1)[-1])
def test_the_programs_that_are_measured(program: Any) -> None:
    case = program.tiny()
    contender = case.makers["compiled, C"]()
    results = [np.array(array) for array in contender.arrays(contender.run())]
    assert (
        difference(results, [np.asarray(item) for item in case.reference()], case.tolerance) == ""
    )
    (entry,) = [
        lowering for lowering in lowerings(contender.compiled) if lowering.runner is not None
    ]
    assert isinstance(entry.runner, CRunner)
    assert entry.runner.python == {}


def lowerings(compiled: Any) -> list[Any]:
    """The lowerings of a compiled function."""
    entries = [entry for entries in compiled._entries.values() for entry in entries]
    return [lowering for item in entries for _, lowering in item.lowerings()]


@pytest.mark.parametrize("count", range(3))
def test_rows_are_called_like_no_type(count: int) -> None:
    """C names contain values' numbers, and some type names are a letter and a number."""
    chosen = np.tril(np.ones((4, 4), bool))

    def f(q: Any, k: Any) -> Any:
        z = q @ np.swapaxes(k, -1, -2)
        for _ in range(count):
            z = z / np.sqrt(8.0)
        z = np.where(chosen, z, -np.inf)
        e = np.exp(z - np.max(z, axis=-1, keepdims=True))
        p = e / np.sum(e, axis=-1, keepdims=True)
        return p @ k, p

    compare(f, f32(2, 3, 4, 8), f32(2, 3, 4, 8))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((1,), None), ((1,), 0), ((1,), ()), ((1, 3), 0), ((3, 1), 1), ((1, 1), None), ((2,), None)],
)
@pytest.mark.parametrize("reduce", [np.sum, np.prod])
def test_the_sign_of_a_zero_that_was_reduced(reduce, shape, axis, dtype):
    zeros = np.full(shape, -0.0, dtype)
    wanted = reduce(zeros * 1, axis=axis)
    result = ns.compile(lambda x: reduce(x * 1, axis=axis), backend="c")(ns.tensor(zeros)).data
    assert np.signbit(result).tolist() == np.signbit(wanted).tolist()
