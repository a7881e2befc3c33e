"""Small recorded programs, and recordings from which data is removed."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np

import nodescope as ns
from nodescope.record.recording import Recording
from tests.core.record.runs import in_rows


def recorded(path: Path, program: Callable[[], None], level: str = "values") -> Path:
    with np.errstate(all="ignore"), ns.record(path, level=level):
        program()
    return path


def without_arrays(path: Path, *, keep: tuple[str, ...] = ("leaf",)) -> Path:
    """A copy with the arrays of some op families only, as after a budget ran out.

    The few elements in the statistics of removed leaves are removed as well.
    """
    copy = path.with_name(f"less-{path.name}")
    shutil.copyfile(path, copy)
    in_rows(copy)
    with Recording.open(path) as recording:
        gone = [
            value
            for row in recording.nodes()
            for value in row.node.outputs
            if row.node.family not in keep
        ]
        few = ",".join(
            str(value)
            for row in recording.nodes()
            for value in row.node.outputs
            if value in gone and row.node.is_leaf
        )
    database = sqlite3.connect(copy)
    marks = ",".join(map(str, gone))
    database.executescript(
        f"DELETE FROM chunk WHERE blob IN (SELECT id FROM blob WHERE value IN ({marks}));"
        f"DELETE FROM blob WHERE value IN ({marks});"
        f"UPDATE summary SET preview = x'' WHERE value IN ({few}); PRAGMA journal_mode=DELETE;"
    )
    database.close()
    return copy


def training(steps: int = 3) -> None:
    """Two layers, Adam, a random mask, an index, and a scalar that changes."""
    rng = np.random.default_rng(0)
    w = ns.parameter(rng.standard_normal((4, 8)), name="w")
    v = ns.parameter(rng.standard_normal((8, 3)), name="v")
    optimizer = ns.optim.Adam([w, v], lr=1e-2)
    key = ns.random.key(3)
    for i, _ in enumerate(ns.steps(range(steps))):
        x = ns.tensor(rng.standard_normal((5, 4)))
        with ns.name_scope("hidden"):
            h = np.tanh(x @ w)
            mask = ns.random.bernoulli(ns.random.fold_in(key, i), 0.8, h.shape)
            h = np.where(mask, h, 0.0) * (1.0 + 0.1 * i)
        with ns.name_scope("loss"):
            out = np.transpose(h @ v)[1:, ::2]
            loss = np.mean(np.square(out)) + np.sum(np.exp(-h), axis=0)[2]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
