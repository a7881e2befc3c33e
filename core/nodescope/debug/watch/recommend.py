"""Recommended watches for a program, from what it contains, each with its reason.

They start from MindInsight's recommendations; cheap ones (statistics alone) come before those that
need whole arrays.

Invariant: pure; every recommended watch is valid and covers something in the program.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from nodescope.debug.watch import all_rules, get
from nodescope.debug.watch.evaluator import WatchEvaluator
from nodescope.debug.watch.rule import Setting
from nodescope.debug.watch.watch import Action, Watch
from nodescope.ir.graph import Node
from nodescope.record.recording import Recording

# Between what nearly all results of a saturated activation lie outside.
_TANH: Final = math.tanh(8.8)
_SIGMOID: Final = (1 / (1 + math.exp(16.2)), 1 / (1 + math.exp(-16.2)))
# What may well be so for a step or two.
_PATIENCE: Final = {"weight_not_changed": 3}
_HALVES: Final = ("float16", "bfloat16", "float8")


class Recommended(NamedTuple):
    """A watch and why it is recommended."""

    watch: Watch
    reason: str


def recommend(
    nodes: Iterable[Node],
    *,
    dtypes: Iterable[str] = (),
    gradients: Iterable[tuple[int, int]] = (),
    actions: tuple[Action, ...] = ("stop",),
) -> list[Recommended]:
    """The recommended watches for a program of these nodes, in order of how much they tell.

    Args:
        nodes: Every node that is known.
        dtypes: The dtypes of its values.
        gradients: Pairs of a value's id and its gradient's, as `GradientComputed` says them.
        actions: What is to follow a hit.
    """
    node_list = list(nodes)
    ops = Counter(node.op for node in node_list if node.phase == "forward")
    backward = any(node.phase == "backward" for node in node_list)
    updates = backward and any(node.writes for node in node_list)
    weights = sum(node.is_weight for node in node_list)
    rows: list[tuple[str, dict[str, Setting], str, str]] = [
        ("operator_overflow", {}, "",
         "finds the node that produces NaN or Inf, not those that receive it"),
    ]  # fmt: skip
    if weights:
        has = f"it has {weights} parameter{'s'[: weights > 1]}"
        rows += [("weight_overflow", {}, "", f"{has}; one NaN spoils everything downstream")]
        rows += [("weight_initialization", {}, "", f"{has}; all zeros would not break symmetry")]
    if backward:
        rows += [
            ("gradient_exploding", {}, "", "it computes gradients; they may overflow"),
            ("gradient_vanishing", {"abs_mean_lt": 1e-9}, "",
             "it computes gradients; below 1e-9 a weight stops learning"),
            ("gradient_norm_trend", {"factor_lt": 0.0}, "",
             "it computes gradients; a norm ten times its recent mean is a spike"),
        ]  # fmt: skip
    if weights and updates:
        rows += [
            ("weight_change_too_large", {"abs_mean_update_ratio_gt": 1.0, "min_axes": 2}, "",
             "it trains weights; an update larger than the weight itself is too large"),
            ("weight_not_changed", {"rtol": 0.0, "atol": 0.0}, "",
             "it trains weights; one that does not change for three steps is frozen"),
        ]  # fmt: skip
    rows += _about_losses(node_list, backward)
    rows += _about_activations(ops)
    rows += _about_the_graph(node_list)
    narrow = sorted({dtype for dtype in dtypes if dtype.startswith(_HALVES)})
    if narrow:
        rows.append(
            ("subnormal_share", {}, "", f"it computes in {narrow[0]}, whose normal range is narrow")
        )  # fmt: skip
    named = [
        Recommended(
            Watch(rule, number, params=params, select=select, actions=actions,
                  patience=_PATIENCE.get(rule, 1)), reason
        )
        for number, (rule, params, select, reason) in enumerate(rows, 1)
    ]  # fmt: skip
    return _covering(named, node_list, gradients)


def recommend_for(recording: Recording) -> list[Recommended]:
    """The recommended watches for the program that was recorded."""
    return recommend(
        {row.node.id: row.node for row in recording.nodes()}.values(),
        dtypes={row.value.spec.dtype for row in recording.values()},
        gradients=[(row.value, row.gradient) for row in recording.gradients()],
    )


def _about_losses(
    nodes: list[Node], backward: bool
) -> list[tuple[str, dict[str, Setting], str, str]]:
    losses = [node.name for node in nodes if node.family == "loss" and node.phase == "forward"]
    if not losses and not backward:
        return []
    reason = f"{losses[0]} is its loss" if losses else "its backward pass starts at a loss"
    rows: list[tuple[str, dict[str, Setting], str, str]] = [
        (
            "loss_not_falling",
            {"num_steps": 100},
            "",
            f"{reason}; 100 steps without a new minimum means no progress",
        )
    ]
    if any("val" in name for name in losses) and len(losses) > 1:
        rows.append(("overfit", {}, "", "it has training and validation losses"))
    return rows


def _about_the_graph(nodes: list[Node]) -> list[tuple[str, dict[str, Setting], str, str]]:
    """Rules that say themselves which programs they suit."""
    reasons = ((rule.name, rule.suits(nodes)) for rule in all_rules() if rule.suits is not None)
    return [(name, {}, "", reason) for name, reason in reasons if reason]


def _about_activations(ops: Counter[str]) -> list[tuple[str, dict[str, Setting], str, str]]:
    rows: list[tuple[str, dict[str, Setting], str, str]] = []
    ranges: tuple[tuple[str, float, float, str, float, str], ...] = (
        ("tanh", -_TANH, _TANH, "range_percentage_lt", 0.1, "saturated if nearly all results"),
        ("sigmoid", *_SIGMOID, "range_percentage_lt", 0.1, "saturated if nearly all results"),
        ("relu", -1.0, 0.0, "range_percentage_gt", 99.9, "dead if nearly all results"),
    )
    for op, low, high, name, share, condition in ranges:
        if ops[op]:
            params: dict[str, Setting] = {
                "range_start_inclusive": low, "range_end_inclusive": high, name: share,
            }  # fmt: skip
            times = f"it has {ops[op]} {op} node{'s'[: ops[op] > 1]}"
            side = "are at the bounds" if name.endswith("lt") else "are zero"
            rows.append(
                ("activation_range", params, f"op:{op}", f"{times}; {condition} {side}")
            )  # fmt: skip
    if ops["relu"] or ops["relu6"]:
        rows.append(
            ("dead_relu", {}, "", "it has ReLUs; units that output only zeros stop learning")
        )  # fmt: skip
    return rows


def _covering(
    recommended: list[Recommended], nodes: list[Node], gradients: Iterable[tuple[int, int]]
) -> list[Recommended]:
    """The watches that cover a value; those of values seen only in a live program count as well."""
    judging = WatchEvaluator(candidate.watch for candidate in recommended)
    judging.define(nodes)
    for value, gradient in gradients:
        judging.paired(value, gradient)
    covered = {outcome.watch.id for outcome in judging.outcomes if outcome.values}
    later = {"gradient_exploding", "gradient_vanishing", "gradient_norm_trend", "loss_not_falling"}
    return [
        candidate
        for candidate in recommended
        if candidate.watch.id in covered
        or candidate.watch.rule in later
        or get(candidate.watch.rule).study is not None
    ]
