"""Networks in explicitly built graphs: statistics, generators, dropout."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import nodescope as ns
from nodescope import nn

X = np.random.default_rng(0).standard_normal((4, 2, 3, 3)).astype(np.float32)


def test_statistics_change_only_where_something_waits_for_the_updates(tmp_path: Path) -> None:
    with ns.Graph().as_default() as graph:
        norm = nn.BatchNorm2d(2)
        x = ns.placeholder(np.float32, X.shape, name="x")
        out = norm(x)
        updates = graph.get_collection(ns.GraphKeys.UPDATE_OPS)
        with ns.control_dependencies(updates):
            trained = ns.identity(out, name="trained")
    assert [update.type for update in updates] == ["assign", "assign"]
    session = ns.Session(graph)
    session.run(out, {x: X})
    assert session.run(norm.running_mean).tolist() == [0.0, 0.0]
    session.run(trained, {x: X})
    eager = nn.BatchNorm2d(2)
    eager(ns.tensor(X))
    for result, wanted in zip(session.run([norm.running_mean, norm.running_var]),
                             (eager.running_mean, eager.running_var), strict=True):  # fmt: skip
        np.testing.assert_array_equal(result, wanted.numpy())
    graph.save(tmp_path / "norm.nsgraph")
    again = ns.Graph.load(tmp_path / "norm.nsgraph").get_collection(ns.GraphKeys.UPDATE_OPS)
    assert [item.name for item in again] == [update.name for update in updates]


def test_a_generator_made_in_a_graph_continues_from_run_to_run() -> None:
    with ns.Graph().as_default() as graph:
        drawn = ns.random.Generator(3).normal(size=(2,))
        dropped = nn.Dropout(0.5, rng=1)(ns.constant(np.ones(8)))
    session = ns.Session(graph)
    eager, drop = ns.random.Generator(3), nn.Dropout(0.5, rng=1)
    for _ in range(3):
        result = session.run([drawn, dropped])
        np.testing.assert_array_equal(result[0], eager.normal(size=(2,)).numpy())
        np.testing.assert_array_equal(result[1], drop(ns.tensor(np.ones(8))).numpy())
