"""Bytes cut and balance of the automatic partitioner, compared with manual cuts; nothing runs.

The programs are training steps of two samples, in two and four parts. The manual cuts are between
blocks and layers; for the transformer in four parts, between attention and feed-forward:
``python -m bench cuts``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

import nodescope as ns
from bench.measure import Row
from nodescope import nn, optim
from nodescope.engine.execution.placement import TOLERANCE, Placement, described, placed
from nodescope.ir.graph import GIVEN, Graph
from nodescope.ir.scopes import ancestors, join
from nodescope.passes.pipeline import lower

_SAMPLES: Final = Path(__file__).resolve().parents[1] / "samples"
_BEFORE: Final = dict.fromkeys(("letters", "positions", "add", "sum"), 0)
HAND: Final[Mapping[tuple[str, int], Mapping[str, int]]] = {
    ("digits_cnn", 2): {"block_1": 0},
    ("digits_cnn", 4): {"block_1/conv": 0, "block_1/norm": 0, "block_1": 1, "block_2/conv": 2},
    ("char_transformer", 2): {**_BEFORE, "block_0": 0},
    ("char_transformer", 4): {
        **_BEFORE, "block_0/norm_1": 0, "block_0/attention": 0, "block_0/add": 0, "block_0": 1,
        "block_1/norm_1": 2, "block_1/attention": 2, "block_1/add": 2,
    },
}  # fmt: skip
"""The part of each scope or node, by sample and number of parts; others are in the last part."""


def rows() -> Iterator[Row]:
    """The automatic cuts' bytes, as a multiple of the manual cuts'."""
    for (name, parts), cut in HAND.items():
        graph = graph_of(name)
        hand = by_hand(graph, parts, cut)
        for tolerance in (TOLERANCE, 1.0):
            placement = placed(graph, parts, tolerance)
            detail = f"{_words(placement)}; by hand {_words(hand)}"
            allowed = "" if tolerance == TOLERANCE else f", tolerance {tolerance:g}"
            row = f"bytes cut: {name} in {parts} parts{allowed}"
            yield Row(row, "by hand", placement.cut_bytes / hand.cut_bytes, detail=detail)


def _words(placement: Placement) -> str:
    return f"{placement.cut_bytes:,} bytes, longest part {placement.balance:.2f}"


def by_hand(graph: Graph, parts: int, cut: Mapping[str, int]) -> Placement:
    """Place a node, its derivative and its update in the part of the innermost listed scope."""
    part_of = {}
    for node in graph.nodes:
        if node.op not in GIVEN:
            path = join(node.scope, node.name.rpartition("/")[2])
            for phase in ("backward", "optimizer"):
                path = path.removeprefix(f"{phase}/")
            around = [cut[scope] for scope in ancestors(path) if scope in cut]
            part_of[node.id] = around[-1] if around else parts - 1
    return described(graph, [f"worker:{part}" for part in range(parts)], part_of)


def graph_of(name: str) -> Graph:
    """The compiled graph of a sample's training step."""
    step, batch, labels = training(name)
    program = step.graph(batch, labels)
    return lower(program.graph, program.constants).graph


def training(name: str, **options: Any) -> tuple[Any, ns.Tensor, ns.Tensor]:
    """A training step of a sample's network, compiled with ``options``, and a batch for it."""
    sys.path.insert(0, str(_SAMPLES))
    try:
        sample, rng = importlib.import_module(name), np.random.default_rng(7)
    finally:
        sys.path.remove(str(_SAMPLES))
    if name == "digits_cnn":
        model, classes = sample.Classifier(rng), 10
        x, y = rng.standard_normal((64, 1, 8, 8)).astype(np.float32), rng.integers(0, 10, 64)
    else:
        model, classes = sample.Writer(60, rng), 60
        x, y = rng.integers(0, 60, (16, 32)), rng.integers(0, 60, (16, 32))
    optimizer = optim.Adam(model, lr=1e-3)

    @ns.compile(**options)
    def step(x: Any, labels: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.cross_entropy(model(x).reshape(-1, classes), labels.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    return step, ns.tensor(x), ns.tensor(y)
