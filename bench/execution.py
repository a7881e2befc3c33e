"""Graphs run on threads, compared with the same graphs run in order, on this machine's cores.

Each program runs on threads wherever possible (forced), and as a session chooses, which uses
threads only where its cost model expects a gain. The session's choice may take at most 1.1 times as
long as in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

import nodescope as ns
from bench.measure import Row, median_ns, paired, ratio

IN_ORDER = ns.RunOptions(parallel=False)
FORCED = ns.RunOptions(parallel=True)
BY_ITSELF = ns.RunOptions()


def _mlp(batch: int) -> tuple[ns.Graph, Any, dict[Any, Any]]:
    """A training step: gradients of three layers."""
    rng = np.random.default_rng(0)
    sizes = [256, 512, 512, 10]
    with ns.Graph().as_default() as g:
        x = ns.placeholder(np.float32, (batch, 256), name="x")
        h = x
        weights = []
        for a, b in pairwise(sizes):
            weights.append(ns.constant((rng.standard_normal((a, b)) / 16).astype(np.float32)))
            h = np.tanh(h @ weights[-1])
        grads = ns.gradients(np.sum(h * h), weights)
    return g, grads, {x: rng.standard_normal((batch, 256)).astype(np.float32)}


def _two_branches() -> tuple[ns.Graph, Any, dict[Any, Any]]:
    """Two towers of elementwise work on images, joined at the end."""
    rng = np.random.default_rng(0)
    shape = (16, 3, 96, 96)
    with ns.Graph().as_default() as g:
        x = ns.placeholder(np.float32, shape, name="x")
        ends = []
        for tower in range(2):
            h = x * np.float32(0.5 + tower)
            for _ in range(4):
                h = ns.gelu(h) + np.tanh(h)
            ends.append(np.mean(h, axis=(2, 3)))
        y = np.sum(ends[0] * ends[1])
    return g, y, {x: rng.standard_normal(shape).astype(np.float32)}


def _convolutions() -> tuple[ns.Graph, Any, dict[Any, Any]]:
    """Two towers of convolutions."""
    rng = np.random.default_rng(0)
    with ns.Graph().as_default() as g:
        x = ns.placeholder(np.float32, (8, 8, 32, 32), name="x")
        ends = []
        for _ in range(2):
            h = x
            for _ in range(2):
                kernel = (rng.standard_normal((8, 8, 3, 3)) / 8).astype(np.float32)
                h = ns.relu(ns.nn.conv2d(h, ns.constant(kernel), padding=1))
            ends.append(np.mean(h))
        y = ends[0] + ends[1]
    return g, y, {x: rng.standard_normal((8, 8, 32, 32)).astype(np.float32)}


def _products() -> tuple[ns.Graph, Any, dict[Any, Any]]:
    """Eight products of the same matrix, which BLAS itself runs on all cores."""
    rng = np.random.default_rng(0)
    with ns.Graph().as_default() as g:
        x = ns.placeholder(np.float32, (384, 384), name="x")
        y = [x @ ns.constant(rng.standard_normal((384, 384)).astype(np.float32)) for _ in range(8)]
    return g, y, {x: rng.standard_normal((384, 384)).astype(np.float32)}


def _tiny() -> tuple[ns.Graph, Any, dict[Any, Any]]:
    """Sixteen branches that are too short to hand to another thread."""
    with ns.Graph().as_default() as g:
        x = ns.placeholder(np.float32, (64,), name="x")
        y = sum(np.tanh(x * float(i)) for i in range(16))
    return g, y, {x: np.ones(64, np.float32)}


def _draws() -> tuple[ns.Graph, Any, dict[Any, Any]]:
    """A wide fan of transcendental functions."""
    with ns.Graph().as_default() as g:
        x = ns.placeholder(np.float64, (300_000,), name="x")
        y = [np.sum(np.sin(x * float(i)) * np.exp(-x)) for i in range(6)]
    return g, y, {x: np.linspace(0, 1, 300_000)}


PROGRAMS: dict[str, Callable[[], tuple[ns.Graph, Any, dict[Any, Any]]]] = {
    "MLP gradients, batch 64": lambda: _mlp(64),
    "MLP gradients, batch 512": lambda: _mlp(512),
    "two elementwise towers": _two_branches,
    "two convolution towers": _convolutions,
    "eight products": _products,
    "sixteen short branches": _tiny,
    "six wide branches": _draws,
}


def rows() -> Iterator[Row]:
    for name, build in PROGRAMS.items():
        graph, fetches, feeds = build()
        session = ns.Session(graph)
        expected = session.run(fetches, feeds, IN_ORDER)
        for options in (FORCED, BY_ITSELF):
            outputs = session.run(fetches, feeds, options)
            for first, other in zip(_flat(expected), _flat(outputs), strict=True):
                if first.tobytes() != other.tobytes():
                    raise AssertionError(f"{name}: threads changed the result")
        for _ in range(8):  # warm up, until the session has settled its choice
            for options in (IN_ORDER, FORCED, BY_ITSELF):
                session.run(fetches, feeds, options)
        used = session.run_metadata.parallel
        (program,) = session._programs.values()
        schedule = program.schedule
        times = paired({
            "in order": lambda s=session, f=fetches, d=feeds: s.run(f, d, IN_ORDER),
            "forced": lambda s=session, f=fetches, d=feeds: s.run(f, d, FORCED),
            "by itself": lambda s=session, f=fetches, d=feeds: s.run(f, d, BY_ITSELF),
        }, budget_s=0.05)  # fmt: skip
        detail = (
            f"in order {median_ns(times, 'in order') / 1e6:.2f} ms, "
            f"estimated {schedule.in_order_ns / 1e6:.2f} ms"
        )
        yield Row(f"{name}, threads forced", "in order", ratio(times, "forced", "in order"),
                  detail=detail)  # fmt: skip
        yield Row(f"{name}, session", "in order", ratio(times, "by itself", "in order"), must=1.1,
                  detail="uses threads" if used else "stays in order")  # fmt: skip


def _flat(item: Any) -> list[Any]:
    return item if isinstance(item, list) else [item]
