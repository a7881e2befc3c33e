"""Layers that do nothing: over many examples, hardly any unit leaves the flat part of its function.

The rule judges many examples, up to the end of the run, rather than batches: units of a small
network or in a small batch are idle at times, which is not a fault. A layer that is called several
times, such as a critic of real and generated data, is idle only where it is idle in all calls.

For the last layer, even a few units count: a ReLU after it whose results are all zero.
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
from nodescope.debug.watch.untrained_layers import PRODUCTS
from nodescope.events import Array
from nodescope.ir.graph import Node

# Ops between the product with a weight and the activation of a layer.
_LAYER: Final = PRODUCTS | {"add", "multiply", "astype", "transpose", "batch_norm", "layer_norm"}
_OF_RUN: Final = 0.05  # the least share of the steps so far in which an idle unit was idle
_SQUASHING: Final = frozenset({"tanh", "sigmoid"})
# Results beyond these bounds belong to inputs at which the slope is below 1e-7.
_BOUNDS: Final = {
    "tanh": (-float(np.tanh(8.8)), float(np.tanh(8.8))),
    "sigmoid": (float(1 / (1 + np.exp(16.2))), float(1 / (1 + np.exp(-16.2)))),
}


def _passes(op: str, array: Array) -> Array:
    """A mask of the elements through which a gradient passes."""
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
    """The last example and step in which each unit was active; numbers of examples and steps."""

    __slots__ = ("active", "examples", "latest", "steps")

    def __init__(self, units: int) -> None:
        self.active = np.zeros(units, np.int64)
        self.latest = np.zeros(units, np.int64)
        self.examples = self.steps = 0

    def take(self, active: Array) -> None:
        self.steps += 1
        self.examples += len(active)
        some = active.any(axis=0)
        self.active[some] = self.examples
        self.latest[some] = self.steps

    def idle(self, examples: int, steps: int) -> Array:
        """A mask of the units without activity in the last ``examples`` and ``steps``.

        The steps are at least the share `_OF_RUN` of all steps.
        """
        steps = max(steps, round(_OF_RUN * self.steps))
        idle: Array = self.active <= self.examples - examples
        idle &= self.latest <= self.steps - steps
        return idle


def _squashes(graph: ProgramGraph, node: Node) -> bool:
    return node.op in _SQUASHING


def _weights(graph: ProgramGraph, node: Node) -> frozenset[int]:
    """The value ids of the parameters of the layer before an activation; empty without a layer."""
    outputs: set[int] = set()
    todo, seen = list(node.inputs), set(node.inputs)
    while todo:
        maker = graph.maker(graph.held_in(todo.pop()))
        if maker is None:
            continue
        if maker.role == "parameter":
            outputs.add(maker.outputs[0])
        elif maker.phase == "forward" and (maker.family == "layout" or maker.op in _LAYER):
            # The first factor of a product comes from another layer.
            ports = maker.inputs[1:] if maker.op in PRODUCTS else maker.inputs
            todo += [value for value in ports if value not in seen]
            seen.update(ports)
    return frozenset(outputs)


def _is_last(graph: ProgramGraph, node: Node) -> bool:
    """Whether an activation follows a layer and no other layer reads its result."""
    if node.op not in RELUS or not _weights(graph, node):
        return False
    shape = graph.shape(node.outputs[0])
    if shape is None or len(shape) != 2 or not graph.reaches_loss(node):
        return False
    todo, seen = [node], {node.id}
    while todo:
        for value in todo.pop().outputs:
            for reader in graph.readers(value):
                if reader.phase != "forward" or reader.id in seen or not reader.outputs:
                    continue
                seen.add(reader.id)
                if reader.op in PRODUCTS:
                    return False
                todo.append(reader)
    return True


def _idle(
    is_one: Callable[[ProgramGraph, Node], bool], names: str, word: str
) -> Callable[[Settings], Look]:
    def begin(settings: Settings) -> Look:
        least, steps = settings["examples"], settings["num_steps"]
        limit = settings["threshold_layer"]
        layers: dict[tuple[int, int], _Layer] = {}
        calls: dict[tuple[frozenset[int], int], set[int]] = {}  # by weights and units: the results
        progress = LossProgress()
        before: dict[int, tuple[int, frozenset[int]]] = {}  # by value: graph version, weights

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
            few = units < settings["min_units"]
            if few and not _is_last(sight.graph, sight.node):
                return None
            layer = layers.setdefault((sight.value, units), _Layer(units))
            layer.take(_passes(sight.node.op, array))
            if layer.steps < steps:
                raise NotYet(f"needs {steps} steps, had {layer.steps}")
            if layer.examples < least:
                raise NotYet(f"needs {least} examples, had {layer.examples}")
            is_idle = layer.idle(least, steps)
            version, weights = before.get(sight.value, (-1, frozenset()))
            if version != sight.graph.version:
                weights = _weights(sight.graph, sight.node)
                before[sight.value] = sight.graph.version, weights
            if weights:
                alike = calls.setdefault((weights, units), set())
                alike.add(sight.value)
                for value in alike:
                    if not is_idle.any():
                        break
                    is_idle &= layers[value, units].idle(least, steps)
            idle = np.flatnonzero(is_idle)
            share = 100 * idle.size / units
            # If the loss is 0, no gradient has to pass, as when all margins are met.
            if share < (100 if few else limit) or progress.left == 0:
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
