"""Targets that a mask excludes: the loss asks for scores that are ruled out.

A mask sets scores to a large negative number. A masked score should never be a target: the loss is
then that number, whatever the model predicts, and its gradient is zero. The cause may be an
inverted mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, Sight, numbers
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

_OPS: Final = frozenset({"multiply", "cross_entropy", "nll_loss", "getitem", "take_along_axis"})
_MOVES: Final = frozenset({"reshape", "transpose", "swapaxes", "moveaxis", "astype", "copy",
                           "squeeze", "expand_dims", "getitem", "negative", "divide"})  # fmt: skip
_AVERAGES: Final = frozenset({"mean", "sum", "negative", "reshape", "astype", "add", "squeeze"})
_MASKS: Final = frozenset({"where", "masked_fill"})
_SHIFTS: Final = frozenset({"add", "subtract"})
_DATA: Final = ("input", "constant")
_EXCLUDED: Final = -500.0  # log probabilities below this were ruled out by a mask
# With a mask, few log probabilities lie between these and the excluded ones. If scores are merely
# far apart, many do.
_UNLIKELY, _FEW = -60.0, 0.05
_MOST: Final = 1 << 22


def _begin(settings: Settings) -> Look:
    steps, limit = settings["num_steps"], settings["share_gt"]
    in_row = 0

    def look(sight: Sight) -> Finding | None:
        nonlocal in_row
        node, graph = sight.node, sight.graph
        mask = _mask(graph, node)
        if mask is None or sight.inputs[0].size > _MOST:
            raise Inapplicable("no scores are masked before a loss")
        if not _is_averaged(graph, node):
            raise Inapplicable("what a mask rules out may be left out of the loss later")
        share = _share(sight)
        if share is None:
            raise Inapplicable("no target is compared with masked scores")
        in_row = in_row + 1 if 100 * share > limit else 0
        if not in_row:
            return None
        if in_row < steps:
            raise needs_steps(steps, in_row)
        line = f" (line {mask.source.line})" if mask.source is not None else ""
        return Finding(
            f"{100 * share:.3g}% of the targets are among the scores that {mask.name}{line} rules "
            f"out, in each of {in_row} steps, so that the loss has no gradient there; is its mask "
            "upside down, or that of other rows?",
            {"share": 100 * share, "steps": in_row},
        )

    return look


def _share(sight: Sight) -> float | None:
    """The share of targets at masked scores; None if there are no targets, or no clear mask."""
    op, inputs = sight.node.op, sight.inputs
    if op in ("getitem", "take_along_axis"):
        picked = numbers(sight.array)
        if not picked.size or not _is_cut(numbers(inputs[0].array)):
            return None
        return float(np.mean(picked < _EXCLUDED))
    if len(inputs) < 2:
        return None
    if op == "multiply":
        made = sight.graph.given(sight.node.inputs[0])
        port = 0 if made is not None and not made.is_leaf else 1
        logs, weights = numbers(inputs[port].array), numbers(inputs[1 - port].array)
        if logs.shape != weights.shape or weights.size == 0 or float(weights.min()) < 0:
            return None
        if not _is_cut(logs):
            return None
        total = float(weights.sum())
        return float(weights[logs < _EXCLUDED].sum()) / total if total > 0 else None
    return _of_labels(sight, numbers(inputs[0].array), inputs[1].array)


def _of_labels(sight: Sight, scores: Array, labels: Array) -> float | None:
    axis = sight.attrs.get("axis", -1)
    if labels.dtype.kind not in "iu" or scores.ndim != 2 or axis not in (-1, 1):
        return None
    ignored = sight.attrs.get("ignore_index")
    rows = np.flatnonzero(labels.reshape(-1) != ignored)
    chosen = labels.reshape(-1)[rows]
    if not rows.size or chosen.min() < 0 or chosen.max() >= scores.shape[1]:
        return None
    logs = scores[rows]
    if sight.node.op == "cross_entropy":
        logs = logs - logs.max(axis=1, keepdims=True)
    if not _is_cut(logs):
        return None
    return float(np.mean(logs[np.arange(len(rows)), chosen] < _EXCLUDED))


def _is_cut(logs: Array) -> bool:
    """Whether the excluded log probabilities are clearly separated from all others."""
    excluded = np.count_nonzero(logs < _EXCLUDED)
    unlikely = np.count_nonzero(logs < _UNLIKELY) - excluded
    return bool(unlikely <= _FEW * excluded)


def _mask(graph: ProgramGraph, node: Node) -> Node | None:
    """The node that masks the scores behind a node's log probabilities; None if there is none."""
    if node.op in ("cross_entropy", "nll_loss", "getitem", "take_along_axis"):
        values = node.inputs[:1]
    else:
        values = node.inputs
    for value in values:
        passed = {node.op}
        maker = graph.past(value, partial(_passes, passed))
        masks = maker is not None and (
            maker.op in _MASKS or (maker.op in _SHIFTS and _adds_data(graph, maker))
        )
        if masks and not passed.isdisjoint(("cross_entropy", "log_softmax")):
            return maker
    return None


def _passes(passed: set[str], maker: Node) -> bool:
    """Whether a node only moves or normalises scores; if so, its op is added to ``passed``."""
    if maker.op not in _MOVES and maker.op != "log_softmax":
        return False
    passed.add(maker.op)
    return True


def _adds_data(graph: ProgramGraph, node: Node) -> bool:
    roles = [leaf.role for value in node.inputs for leaf in graph.leaves(value)[:1]]
    return len(node.inputs) == 2 and any(role in _DATA for role in roles)


def _is_averaged(graph: ProgramGraph, node: Node) -> bool:
    """Whether a result is only summed, averaged or scaled before it becomes a loss."""
    value = node.outputs[0]
    for _ in range(8):
        if value in graph.losses:
            return True
        readers = [reader for reader in graph.readers(value) if reader.phase == "forward"]
        if len(readers) != 1 or not readers[0].outputs:
            return False
        scales = readers[0].op in ("multiply", "divide") and len(readers[0].inputs) == 1
        if readers[0].op not in _AVERAGES and not scales:
            return False
        value = readers[0].outputs[0]
    return value in graph.losses


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    return node.phase == "forward" and _mask(graph, node) is not None


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    data = {value for node in nodes if node.role in _DATA for value in node.outputs}
    masks = any(
        node.op in _MASKS or (node.op in _SHIFTS and not data.isdisjoint(node.inputs))
        for node in nodes
    )
    for node in nodes if masks else ():
        if node.op in ("log_softmax", "cross_entropy") and node.phase == "forward":
            return f"{node.name} may be given scores that a mask rules out"
    return ""


register(
    Rule(
        "targets_masked",
        "targets are at scores that a mask rules out",
        per_value(_begin),
        ops=_OPS,
        needs=frozenset({"summary", "inputs", "values", "history"}),
        parameters=(
            count("num_steps", 10, "number of consecutive steps", unit="steps", low=1),
            percent("share_gt", 5.0, "hit if more than this share of the targets is ruled out"),
        ),
        lasting=True,
        explains=True,
        suits=_suits,
        concerns=_concerns,
    )
)
