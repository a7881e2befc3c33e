"""Random programs, eagerly and as static graphs; graphs printed, saved, loaded and run again."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nodescope as ns
from nodescope import optim
from nodescope.errors import DtypeError, GraphError, ShapeError, UsageError
from nodescope.ir.text import parse_graph, print_graph
from tests.depth import examples

STEPS: dict[str, Callable[[list[Any], int], Any]] = {
    "add": lambda v, i: v[i % len(v)] + v[-1],
    "multiply": lambda v, i: v[i % len(v)] * v[-1] * 0.5,
    "tanh": lambda v, i: np.tanh(v[i % len(v)]),
    "matmul": lambda v, i: v[i % len(v)] @ np.swapaxes(v[-1], 0, 1) @ v[-1] * 0.1,
    "softmax": lambda v, i: ns.softmax(v[i % len(v)], axis=i % 2),
    "norm": lambda v, i: v[-1] - v[i % len(v)].mean(axis=0, keepdims=True),
    "pick": lambda v, i: np.concatenate([v[-1][1:], v[i % len(v)][:1]]),
    "where": lambda v, i: np.where(v[-1] > 0, v[i % len(v)], 0.1 * v[-1]),
    "stop": lambda v, i: v[-1] * ns.stop_gradient(v[i % len(v)]),
    "max": lambda v, i: np.maximum(v[i % len(v)], v[-1].max() * 0.5),
    "grad": lambda v, i: ns.grad(lambda x: (np.sin(x) * v[i % len(v)]).sum())(v[-1]),
    "exp": lambda v, i: np.exp(-np.square(v[-1])),
    "cond": lambda v, i: ns.cond(v[-1].sum() > 0, lambda x: x * 2.0, lambda x: -x, v[i % len(v)]),
    "half": lambda v, i: v[-1].astype(np.float32).astype(np.float64) + v[i % len(v)],
    "compiled": lambda v, i: INNER(v[-1], v[i % len(v)]),
}
INNER = ns.compile(lambda a, b: (a - b) * 0.5)


def program(steps: list[tuple[str, int]], w: Any) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        values = [x, w]
        for name, i in steps:
            with ns.name_scope(name):
                values.append(STEPS[name](values, i))
        return values[-1], {"mean": (values[-1] * values[len(values) // 2]).mean()}

    return f


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 9)), min_size=1, max_size=12),
    st.integers(2, 5),
    st.booleans(),
)
def test_random_programs_are_bit_equal(
    steps: list[tuple[str, int]], rows: int, train: bool
) -> None:
    outcomes = []
    for static in (False, True):
        rng = np.random.default_rng(rows)
        w = ns.parameter(rng.standard_normal((rows, 3)), name="w")
        opt = optim.Adam([w], lr=0.1)
        f = program(steps, w)

        def step(x: Any, f: Any = f, opt: Any = opt) -> Any:
            opt.zero_grad()
            last, rest = f(x)
            loss = last.sum() + rest["mean"] + (W2 * 0.0).sum() * 0.0 + x.sum()
            if loss.requires_grad:
                loss.backward()
            opt.step()
            return last.detach(), rest["mean"].detach()

        run = step if train else f
        run = ns.compile(run) if static else run
        results = []
        for _ in range(2):
            # Run everything eagerly: a compiled part would add up its own gradients first.
            x = ns.tensor(rng.standard_normal((rows, 3)), requires_grad=True)
            with contextlib.nullcontext() if static else ns.disable_compile():
                last, rest = run(x)
            if not train and last.requires_grad:
                (last.sum() * rest["mean"]).backward()
            grads = [None if t.grad is None else t.grad.numpy().copy() for t in (x, w)]
            mean = rest["mean"] if isinstance(rest, dict) else rest
            results.append((last.numpy(), mean.numpy(), grads, w.numpy().copy()))
        outcomes.append(results)
    np.testing.assert_equal(outcomes[1], outcomes[0])


W2 = ns.parameter(np.ones(2), name="w2")


# Graphs as objects


def training() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    w = ns.parameter(rng.standard_normal((3, 2)), np.float32, name="w")
    opt = optim.Adam([w], lr=0.1)
    table = rng.standard_normal((4, 3)).astype(np.float32)

    @ns.compile
    def step(batch: dict[str, Any]) -> Any:
        opt.zero_grad()
        with ns.name_scope("loss"):
            loss = (np.tanh((batch["x"] + table) @ w) ** 2).mean()
        loss.backward()
        opt.step()
        return {"loss": loss, "batch": batch, "kind": "training", "pair": (w, None)}

    return step, w


X = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)


def test_a_graph_prints_and_parses() -> None:
    step, _ = training()
    result = step.graph({"x": X})
    text = str(result)
    assert "loss/matmul" in text
    assert parse_graph(text) == result.graph
    assert print_graph(parse_graph(text)) == text
    assert {node.phase for node in result.nodes} == {"forward", "backward", "optimizer"}


def test_a_graph_runs_by_itself_and_changes_only_itself() -> None:
    step, w = training()
    step({"x": X})
    result = step.graph({"x": X})
    before = w.numpy().copy()
    losses = [result.run({"x": X}) for _ in range(3)]
    np.testing.assert_array_equal(w.numpy(), before)
    assert losses[0]["loss"].item() == step({"x": X})["loss"].item()
    assert losses[0]["loss"].item() > losses[1]["loss"].item() > losses[2]["loss"].item()
    assert losses[0]["kind"] == "training"
    assert losses[0]["batch"]["x"] is X
    assert len(step.explain().traces) == 1


def test_a_saved_graph_runs_in_another_process(tmp_path: Path) -> None:
    step, _ = training()
    result = step.graph({"x": X})
    path = tmp_path / "step.nsprogram"
    result.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["step.nsprogram"]
    np.save(tmp_path / "x.npy", X)
    code = (
        "import sys, numpy as np\n"
        "import nodescope as ns\n"
        "g = ns.load_graph(sys.argv[1])\n"
        "x = np.load(sys.argv[2])\n"
        "r = [g({'x': x}) for _ in range(2)]\n"
        "print([each['loss'].item().hex() for each in r], r[0]['pair'][0].shape, str(g) != '')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), str(tmp_path / "x.npy")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    expected = [result.run({"x": X})["loss"].item().hex() for _ in range(2)]
    assert done.stdout.strip() == f"{expected} (3, 2) True"
    assert str(ns.Program.load(path)) == str(result)


def test_dtypes_survive_a_file(tmp_path: Path) -> None:
    import ml_dtypes

    for dtype in (np.float16, ml_dtypes.bfloat16, np.complex64, np.int8, np.bool_):
        stored = ns.tensor(np.array([1, 0, 1]), dtype)
        f = ns.compile(lambda x, s=stored: (x + s, s))
        result = f.graph(np.zeros(3, np.int8))
        result.save(tmp_path / "f")
        loaded = ns.Program.load(tmp_path / "f").run(np.zeros(3, np.int8))
        for first, other in zip(loaded, result.run(np.zeros(3, np.int8)), strict=True):
            assert first.dtype == other.dtype
            assert first.data.tobytes() == other.data.tobytes()


def test_a_graph_refuses_what_it_does_not_take(tmp_path: Path) -> None:
    step, _ = training()
    result = step.graph({"x": X})
    with pytest.raises(ShapeError, match=r"batch\['x'\] has shape \(2, 3\), the graph takes"):
        result.run({"x": X[:2]})
    with pytest.raises(DtypeError, match=r"batch\['x'\] is float64, the graph takes float32"):
        result.run({"x": X.astype(float)})
    with pytest.raises(UsageError, match=r"takes 1 arrays, got 2.*give batch\['x'\]"):
        result.run({"x": X}, X)
    with pytest.raises(GraphError, match="a result cannot be saved"):
        ns.compile(lambda x: (x, object())).graph(X).save(tmp_path / "f")
    assert not list(tmp_path.iterdir())
