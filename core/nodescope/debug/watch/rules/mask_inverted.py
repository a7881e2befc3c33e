"""Inverted masks: they keep the padding of sequences and drop the content.

Sequences of different lengths are padded with one token or with zeros to the length of the longest.
The data reveals a mask that keeps only padding: all data of the mask's shape is constant where the
mask keeps it, and varies where the mask drops it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Finding, Look, Rule, Settings, count, needs_steps
from nodescope.events import Array
from nodescope.ir.graph import Node

_DATA: Final = ("input", "constant")
_USES: Final = frozenset({"multiply", "where", "add"})
_NOWHERE: Final = -1e4  # a score at or below this acts like -inf
_MOST: Final = 1 << 20  # limit of elements of examined data
_VARIES: Final = 3  # least number of distinct elements of varying data
_UNKNOWN: Final = "no mask tells what of a sequence counts"


def _begin(settings: Settings) -> Look:
    steps = settings["num_steps"]
    data: dict[int, tuple[Node, Array]] = {}
    inverted: dict[int, int] = {}

    def look(sight: Sight) -> Finding | None:
        node, graph = sight.node, sight.graph
        if node.role in _DATA:
            if len(sight.spec.shape) in (2, 3, 4) and sight.size <= _MOST:
                data[sight.value] = node, sight.array
            raise Inapplicable(_UNKNOWN)
        kept = _kept(graph, node, data)
        if kept is None:
            raise Inapplicable(_UNKNOWN)
        filled = _filled(kept, data)
        inverted[node.id] = inverted.get(node.id, 0) + 1 if filled is not None else 0
        if filled is None:
            return None
        if inverted[node.id] < steps:
            raise needs_steps(steps, inverted[node.id])
        source, value = filled
        line = f" (line {source.source.line})" if source.source is not None else ""
        return Finding(
            f"its mask keeps only positions at which {source.name}{line} is {value:.4g}, and drops "
            f"all others, where it varies, in each of {inverted[node.id]} steps: what counts is "
            "the padding, so the mask is upside down; invert it",
            {"kept": 100 * float(kept.mean()), "steps": inverted[node.id]},
        )

    return look


def _kept(graph: ProgramGraph, node: Node, data: dict[int, tuple[Node, Array]]) -> Array | None:
    """The mask of kept positions, as (rows, positions); None if the node applies no such mask."""
    for port, value in enumerate(node.inputs[:1] if node.op == "where" else node.inputs):
        leaf = graph.given(value)
        known = data.get(leaf.outputs[0]) if leaf is not None and leaf.outputs else None
        if known is None or graph.shape(node.inputs[port]) is None:
            continue
        kept = _keeps(node, known[1])
        if kept is not None and _is_of_lengths(kept):
            return kept
    return None


def _keeps(node: Node, mask: Array) -> Array | None:
    flat = np.squeeze(mask)
    if flat.ndim != 2 or flat.dtype.kind not in "biuf":
        return None
    if node.op == "add":
        binary = bool(np.all((flat == 0) | (flat <= _NOWHERE)))
        return np.asarray(flat == 0) if binary else None
    if not np.all((flat == 0) | (flat == 1)):
        return None
    kept = np.asarray(flat != 0)
    if node.op == "multiply":
        return kept
    for name, keeps in (("y", kept), ("x", ~kept)):
        other = node.attrs.get(name)
        if isinstance(other, int | float) and (other == 0 or other <= _NOWHERE):
            return keeps
    return None


def _is_of_lengths(kept: Array) -> bool:
    """Whether all rows keep their beginning, or all their end, and in different lengths."""
    counts = kept.sum(axis=1)
    turns = np.diff(kept.astype(np.int8), axis=1)
    one_way = bool((turns >= 0).all() or (turns <= 0).all())
    return one_way and 0 < counts.sum() < kept.size and bool(np.any(counts != counts[0]))


def _filled(kept: Array, data: dict[int, tuple[Node, Array]]) -> tuple[Node, float] | None:
    """Data that is constant where it is kept and varies elsewhere, and its constant.

    None if there is none, or if other data of the mask's shape varies where it is kept.
    """
    constant = None
    for node, array in data.values():
        if array.shape[:2] != kept.shape or array.ndim > 3 or array.dtype.kind not in "biuf":
            continue
        inside, outside = array[kept], array[~kept]
        if np.unique(array).size <= 2:
            continue  # the mask itself, or another mask
        if np.any(inside != inside[:1]):
            return None
        if np.unique(outside).size >= _VARIES:
            constant = constant or (node, float(inside.reshape(-1)[0]) + 0.0)
    return constant


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    """Whether a node is data, or may apply a mask."""
    if node.phase != "forward":
        return False
    if node.role in _DATA:
        return True
    givers = map(graph.given, node.inputs) if node.op in _USES else ()
    return any(giver is not None and giver.role in _DATA for giver in givers)


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    for node in nodes:
        if node.phase == "forward" and node.op in ("multiply", "where"):
            return f"{node.name} may mask what does not count"
    return ""


register(
    Rule(
        "mask_inverted",
        "a mask keeps the padding of sequences and drops what is there",
        _begin,
        needs=frozenset({"summary", "values", "history"}),
        parameters=(count("num_steps", 10, "number of consecutive steps", unit="steps", low=1),),
        lasting=True,
        explains=True,
        suits=_suits,
        concerns=_concerns,
    )
)
