"""Weights in 16 bits whose updates are mostly rounded away, although they all point one way.

Each update is smaller than half of the spacing of numbers near the weight, so the weight stays, and
the next update is the same. Nothing is reported for a weight that has converged, whose updates
cancel, or for one that is rounded from a wider copy, which keeps the updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, MissingData, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import (
    Finding,
    Look,
    Rule,
    Settings,
    count,
    needs_steps,
    per_value,
    percent,
)
from nodescope.events import Array
from nodescope.ir.graph import Node

_BITS: Final = {"float16": 11, "bfloat16": 8}  # bits of the significand
_UP: Final = frozenset({"add", "assign_add"})
_DOWN: Final = frozenset({"subtract", "assign_sub"})
_COHERENT: Final = 0.5  # least ratio of the updates' sum to the sum of their magnitudes
_SPACINGS: Final = 2.0  # least size of that sum, in spacings of the numbers near the weight
_ARRIVED: Final = 0.5  # share of the sum by which a weight must have moved to be left alone


class _Way:
    """A weight's intended and actual movement over some steps."""

    __slots__ = ("start", "steps", "sum", "total")

    def __init__(self, start: Array) -> None:
        self.start = start
        self.steps = 0
        self.sum = np.zeros(start.shape)
        self.total = np.zeros(start.shape)

    def take(self, update: Array) -> None:
        self.steps += 1
        self.sum += update
        self.total += np.abs(update)

    def lost(self, now: Array, bits: int) -> Array:
        """A mask of elements whose updates clearly point one way, but which hardly moved."""
        spacing = np.ldexp(1.0, np.frexp(np.maximum(np.abs(now), 1e-30))[1] - bits)
        intended = np.abs(self.sum)
        clear = (intended >= _COHERENT * self.total) & (intended >= _SPACINGS * spacing)
        stays: Array = clear & ((now - self.start) * np.sign(self.sum) < _ARRIVED * intended)
        return stays


def _begin(settings: Settings) -> Look:
    steps, least = settings["num_steps"], settings["elements"] / 100
    way: _Way | None = None
    finding: Finding | None = None

    def look(sight: Sight) -> Finding | None:
        nonlocal way, finding
        dtype = _dtype(sight.graph, sight.node)
        if not dtype or len(sight.inputs) != 2:
            raise Inapplicable("no weight of 16 bits is updated")
        now = sight.inputs[0].array.astype(np.float64)
        update = sight.inputs[1].array.astype(np.float64)
        update = np.broadcast_to(update if sight.node.op in _UP else -update, now.shape)
        if not (np.isfinite(now).all() and np.isfinite(update).all()):
            raise MissingData("the weight or its update is not finite")
        if way is None or way.start.shape != now.shape:
            way = _Way(now)
        if way.steps >= steps:
            lost = way.lost(now, _BITS[dtype])
            finding = _finding(way, lost, now, dtype) if lost.mean() >= least else None
            way = _Way(now)
        elif finding is None and way.steps < steps:
            way.take(update)
            raise needs_steps(steps + 1, way.steps)
        way.take(update)
        return finding

    return look


def _finding(way: _Way, lost: Array, now: Array, dtype: str) -> Finding:
    at = int(np.argmax(np.where(lost, np.abs(way.sum), 0.0)))
    intended, moved = way.sum.reshape(-1)[at], (now - way.start).reshape(-1)[at]
    spacing = np.ldexp(1.0, np.frexp(abs(now.reshape(-1)[at]) or 1e-30)[1] - _BITS[dtype])
    return Finding(
        f"{int(lost.sum())} of {lost.size} elements hardly move although their updates all point "
        f"one way: {way.steps} updates add up to {intended:.3g} at element {at}, which moved by "
        f"{moved:.3g}: each is rounded away, as {dtype} numbers near {now.reshape(-1)[at]:.3g} "
        f"are {spacing:.3g} apart; keep the weights in float32, or take larger steps",
        {"elements": 100 * float(lost.mean()), "updates": way.steps},
    )


def _dtype(graph: ProgramGraph, node: Node) -> str:
    """The 16-bit dtype of the weight that a node updates; ``""`` if it updates none."""
    weight = graph.given(node.inputs[0]) if node.inputs else None
    if weight is None or not weight.is_leaf:
        return ""
    dtype = graph.dtype(weight.outputs[0])
    return dtype if dtype in _BITS else ""


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    """Whether a node updates a 16-bit weight that is kept for the next step."""
    if node.phase == "backward" or len(node.inputs) != 2 or not _dtype(graph, node):
        return False
    return bool(node.writes) or graph.updates(node)


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    writes = [node.name for node in nodes if node.phase != "backward" and node.writes]
    return f"{writes[0]} writes updates, which may be rounded away" if writes else ""


register(
    Rule(
        "updates_rounded",
        "updates of a 16-bit weight point one way, and are mostly rounded away",
        per_value(_begin),
        ops=_UP | _DOWN,
        needs=frozenset({"summary", "inputs", "values", "history"}),
        parameters=(
            count("num_steps", 30, "steps over which updates are added up", unit="steps", low=4),
            percent("elements", 25, "hit if at least this share of the elements stays"),
        ),
        lasting=True,
        explains=True,
        follows=("update_without_effect",),
        suits=_suits,
        concerns=_concerns,
    )
)
