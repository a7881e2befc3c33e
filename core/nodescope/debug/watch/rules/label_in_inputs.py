"""A column of the inputs that equals the label in each row, so that a model needs nothing else.

For numeric targets, only windows of a series are judged, whose adjacent columns correlate: a
synthetic task may ask for one of the given numbers on purpose.
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
)
from nodescope.debug.watch.target_comparisons import (
    comparing,
    is_only_loss,
    takes_two_forward,
    target_port,
)
from nodescope.events import Array
from nodescope.ir.graph import Node

_CLASSES: Final = frozenset({"cross_entropy", "nll_loss", "bce", "bce_with_logits"})
_OPS: Final = _CLASSES | {"mse", "huber", "subtract"}
_SERIES: Final = 0.5  # least correlation of adjacent columns of a series
_MOST_COLUMNS: Final = 4096


def _begin(settings: Settings) -> Look:
    steps, least = settings["num_steps"], settings["rows"]
    held: dict[int, Array] = {}
    blamed: dict[int, Finding] = {}  # by data value: its finding

    def data(sight: Sight) -> Finding | None:
        if sight.value in blamed:
            held[sight.value] = sight.array
            return blamed[sight.value]
        array = sight.array_or_none
        fits = array is not None and array.ndim == 2 and 1 < array.shape[1] <= _MOST_COLUMNS
        if array is not None and fits:
            held[sight.value] = array
        raise Inapplicable("no target is compared with")

    compare = per_value(lambda _: _compared(held, blamed, steps, least))(settings)

    def look(sight: Sight) -> Finding | None:
        return data(sight) if sight.node.is_leaf else compare(sight)

    return look


def _compared(held: dict[int, Array], blamed: dict[int, Finding], steps: int, least: int) -> Look:
    equal: dict[int, Array] = {}  # by data value: mask of columns that were always equal
    seen = rows = 0
    varies = False
    first: float | None = None

    def look(sight: Sight) -> Finding | None:
        nonlocal seen, rows, varies, first
        node, graph = sight.node, sight.graph
        port = target_port(graph, node)
        if port is None or (seen and not equal):
            raise Inapplicable("no target equals a column of the inputs")
        target = _column(sight.inputs[port].array)
        if target is None:
            raise Inapplicable("no target equals a column of the inputs")
        seen += 1
        rows += len(target)
        first = float(target[0]) if first is None else first
        varies |= bool(np.any(target != first))
        for leaf in _data_of(graph, node, 1 - port):
            value = leaf.outputs[0]
            array = held.get(value)
            same = None if array is None or len(array) != len(target) else (
                np.all(array == target[:, None], axis=0)
            )  # fmt: skip
            before = equal.pop(value, None)
            blamed.pop(value, None)
            if same is not None and node.op not in _CLASSES and array is not None:
                same = same & _of_series(array)
            if same is not None and (before is not None or seen == 1):
                same = same if before is None else same & before
                if same.any():
                    equal[value] = same
        if seen < steps or rows < least:
            raise needs_steps(steps, seen)
        # With several losses, one of them may reconstruct an input on purpose.
        if not varies or not is_only_loss(graph, node):
            return None
        for value, same in equal.items():
            given = graph.given(node.inputs[port])
            if same.sum() == 1:
                name = given.name if given is not None else "the target"
                blamed[value] = Finding(
                    f"its column {int(np.argmax(same))} equals {name} in all of {rows} rows: the "
                    "answer is among the inputs; leave that column out",
                    {"column": int(np.argmax(same)), "rows": rows},
                )
        return None

    return look


def _of_series(array: Array) -> Array:
    """A mask of the first and last column, if they correlate with the adjacent one."""
    values = array.astype(np.float64)
    equal = np.zeros(values.shape[1], bool)
    if values.shape[1] < 3 or not np.isfinite(values).all() or not values.std(axis=0).all():
        return equal
    for column, beside in ((0, 1), (-1, -2)):
        alike = np.corrcoef(values[:, column], values[:, beside])[0, 1]
        equal[column] = alike > _SERIES
    return equal


def _column(target: Array) -> Array | None:
    """The targets as a vector, if there is one number per row; else None."""
    if target.ndim == 2 and target.shape[1] == 1:
        target = target[:, 0]
    return target if target.ndim == 1 and len(target) > 1 and target.dtype.kind in "iufb" else None


def _data_of(graph: ProgramGraph, node: Node, port: int) -> list[Node]:
    """The data from which a prediction is computed."""
    try:
        return [leaf for leaf in graph.leaves(node.inputs[port]) if _is_data(leaf)]
    except MissingData:
        return []


def _is_data(node: Node) -> bool:
    return node.role in ("input", "constant")


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    """Whether a node is data, or may compare a prediction with a target."""
    if node.is_leaf:
        return node.phase == "forward" and _is_data(node)
    return node.op in _OPS and takes_two_forward(node, graph)


def _suits(nodes: Sequence[Node]) -> str:
    return comparing(nodes, _OPS, "has targets, which must not be among the inputs")


register(
    Rule(
        "label_in_inputs",
        "a column of the inputs equals the label in each row",
        _begin,
        needs=frozenset({"summary", "inputs", "values", "history"}),
        parameters=(
            count("num_steps", 5, "in so many steps", unit="steps", low=1),
            count("rows", 100, "in so many rows", low=2),
        ),
        lasting=True,
        explains=True,
        suits=_suits,
        concerns=_concerns,
    )
)
