"""Layers that do nothing: over many examples, hardly any unit leaves the flat part of its function.

Judged over many examples and to the end of the run, not by batch: units of a small network, or of a
small batch, are idle at times, which is no fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.layer_units import by_unit, unit_finding
from nodescope.debug.watch.loss_progress import LossProgress
from nodescope.debug.watch.observation import Inapplicable, NotYet, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rectifiers import RELUS, WRITTEN_OUT, rectifies
from nodescope.debug.watch.rule import (
    Example,
    Finding,
    Look,
    Rule,
    Settings,
    count,
    percent,
)
from nodescope.debug.watch.suiting import has_ops
from nodescope.events import Array
from nodescope.ir.graph import Node

_SQUASHING: Final = frozenset({"tanh", "sigmoid"})
# Results beyond these are those of inputs where the slope is below 1e-7.
_BOUNDS: Final = {
    "tanh": (-float(np.tanh(8.8)), float(np.tanh(8.8))),
    "sigmoid": (float(1 / (1 + np.exp(16.2))), float(1 / (1 + np.exp(-16.2)))),
}


def _passes(op: str, array: Array) -> Array:
    """Where a gradient passes through."""
    if op not in _BOUNDS:
        active: Array = array != 0
        return active
    low, high = _BOUNDS[op]
    active = (array > low) & (array < high)
    return active


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    """Whether a node may be a ReLU, or a loss."""
    if node.op in RELUS or node.family == "loss":
        return True
    one = graph.shape(node.outputs[0]) in ((), (1,), (1, 1))
    return node.phase == "forward" and (one or node.op in WRITTEN_OUT)


class _Layer:
    """The last example in which each unit was active, and how many there were."""

    __slots__ = ("active", "examples", "steps")

    def __init__(self, units: int) -> None:
        self.active = np.zeros(units, np.int64)
        self.examples = self.steps = 0

    def take(self, active: Array) -> None:
        self.steps += 1
        self.examples += len(active)
        self.active[active.any(axis=0)] = self.examples


def _squashes(graph: ProgramGraph, node: Node) -> bool:
    return node.op in _SQUASHING


def _idle(
    is_one: Callable[[ProgramGraph, Node], bool], names: str, word: str
) -> Callable[[Settings], Look]:
    def begin(settings: Settings) -> Look:
        least, steps = settings["examples"], settings["num_steps"]
        limit = settings["threshold_layer"]
        layers: dict[tuple[int, int], _Layer] = {}
        progress = LossProgress()

        def look(sight: Sight) -> Finding | None:
            if not is_one(sight.graph, sight.node):
                if "losses" in sight.roles:
                    progress.take(sight)
                raise Inapplicable(f"it has none of {names}")
            array = sight.array
            if not array.size or array.dtype.kind == "c":
                return None
            array = by_unit(array)
            units = array.shape[1]
            if units < settings["min_units"]:
                return None
            layer = layers.setdefault((sight.value, units), _Layer(units))
            layer.take(_passes(sight.node.op, array))
            if layer.steps < steps:
                raise NotYet(f"needs {steps} steps, had {layer.steps}")
            if layer.examples < least:
                raise NotYet(f"needs {least} examples, had {layer.examples}")
            idle = np.flatnonzero(layer.active <= layer.examples - least)
            share = 100 * idle.size / units
            # Without any loss left, nothing has to pass: so do margins that all are kept.
            if share < limit or progress.left == 0:
                return None
            return unit_finding(idle, units, share, limit, word)

        return look

    return begin


_OPS = {"x": "relu"}
_DEAD = [[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
_ALIVE = [[0.0, 0.0, 0.0, 0.5], [0.2, 0.1, 0.3, 0.0]]
_FLAT = [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]

_PARAMETERS = (
    count("examples", 64, "number of examples without activity after which a unit is idle", low=1),
    count("num_steps", 5, "over at least this many steps", unit="steps", low=1),
    percent("threshold_layer", 90, "hit if at least this share of the units is idle"),
    count("min_units", 4, "layers with fewer units are skipped", low=1),
)

register(
    Rule(
        "dead_layer",
        "hardly any unit of a ReLU layer is active, over many examples",
        _idle(rectifies, "relu, relu6", "dead"),
        ("activations", "losses", "values"),
        needs=frozenset({"values", "history"}),
        parameters=_PARAMETERS,
        lasting=True,
        suits=has_ops(
            RELUS | {"maximum", "where"}, "a layer whose units output only zeros passes no gradient"
        ),
        concerns=_concerns,
        examples=(
            Example([_ALIVE, _DEAD, _DEAD, _DEAD], (3, 4), {"examples": 4, "num_steps": 2}, _OPS),
            Example([_DEAD, _ALIVE, _DEAD], (), {"examples": 4, "num_steps": 2}, _OPS),
            Example([[row[:2] for row in _DEAD]] * 3, (), {"examples": 2, "num_steps": 1}, _OPS,
                    about="two units"),
        ),
    ),
    Rule(
        "saturated_layer",
        "hardly any unit of a tanh or sigmoid layer leaves the flat parts, over many examples",
        _idle(_squashes, "sigmoid, tanh", "saturated"),
        ("activations", "losses"),
        needs=frozenset({"values", "history"}),
        parameters=_PARAMETERS,
        lasting=True,
        suits=has_ops(_SQUASHING, "a layer whose units are all saturated passes no gradient"),
        examples=(
            Example([_ALIVE, _FLAT, _FLAT], (3,), {"examples": 4, "num_steps": 2}, {"x": "tanh"}),
            Example([_DEAD, _ALIVE, _FLAT], (1, 3), {"examples": 2, "num_steps": 1},
                    {"x": "sigmoid"}, about="sigmoid is flat near zero, too"),
        ),
    ),
)  # fmt: skip
