"""The watches that suit a program, by what it contains, each with its reason in words.

MindInsight's recommendations are the start; what is cheap (statistics alone) comes before what
needs whole arrays.

Invariant: pure; every watch that is recommended makes sense and covers something in the program.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from nodescope.debug.watch.judging import Judging
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
    known = list(nodes)
    ops = Counter(node.op for node in known if node.phase == "forward")
    backward = any(node.phase == "backward" for node in known)
    updates = backward and any(node.family == "update" for node in known)
    weights = sum(node.op == "parameter" and node.phase != "optimizer" for node in known)
    found: list[tuple[str, dict[str, Setting], str, str]] = [
        ("operator_overflow", {}, "",
         "finds NaN and Inf where they are made, not where they arrive"),
    ]  # fmt: skip
    if weights:
        has = f"it has {weights} parameter{'s'[: weights > 1]}"
        found += [("weight_overflow", {}, "", f"{has}; one NaN spoils everything downstream")]
        found += [("weight_initialization", {}, "", f"{has}; zeros do not break symmetry")]
    if backward:
        found += [
            ("gradient_exploding", {}, "", "it computes gradients; they may overflow"),
            ("gradient_vanishing", {"abs_mean_lt": 1e-9}, "",
             "it computes gradients; below 1e-9 nothing is learned"),
            ("gradient_norm_trend", {"factor_lt": 0.0}, "",
             "it computes gradients; a norm ten times as large as before is a jump"),
        ]  # fmt: skip
    if weights and updates:
        found += [
            ("weight_change_too_large", {"abs_mean_update_ratio_gt": 1.0, "min_axes": 2}, "",
             "its weights are trained; more than doubling them in a step is too much"),
            ("weight_not_changed", {"rtol": 0.0, "atol": 0.0}, "",
             "its weights are trained; one that stays as it is for three steps is frozen"),
        ]  # fmt: skip
    found += _about_losses(known, backward)
    found += _about_activations(ops)
    narrow = sorted({each for each in dtypes if each.startswith(_HALVES)})
    if narrow:
        found.append(
            ("subnormal_share", {}, "", f"it computes in {narrow[0]}, where little is normal")
        )  # fmt: skip
    named = [
        Recommended(
            Watch(rule, number, params=params, select=select, actions=actions,
                  patience=_PATIENCE.get(rule, 1)), reason
        )
        for number, (rule, params, select, reason) in enumerate(found, 1)
    ]  # fmt: skip
    return _covering(named, known, gradients)


def recommend_for(
    recording: Recording, *, actions: tuple[Action, ...] = ("stop",)
) -> list[Recommended]:
    """The recommended watches for the program that was recorded."""
    return recommend(
        {row.node.id: row.node for row in recording.nodes()}.values(),
        dtypes={row.value.spec.dtype for row in recording.values()},
        gradients=[(row.value, row.gradient) for row in recording.gradients()],
        actions=actions,
    )


def _about_losses(
    nodes: list[Node], backward: bool
) -> list[tuple[str, dict[str, Setting], str, str]]:
    losses = [node.name for node in nodes if node.family == "loss" and node.phase == "forward"]
    if not losses and not backward:
        return []
    which = f"{losses[0]} is its loss" if losses else "its backward pass begins at a loss"
    found: list[tuple[str, dict[str, Setting], str, str]] = [
        (
            "loss_not_falling",
            {"num_steps": 100},
            "",
            f"{which}; 100 steps without a new minimum mean no progress",
        )
    ]
    if any("val" in name for name in losses) and len(losses) > 1:
        found.append(("overfit", {}, "", "it has training and validation losses"))
    return found


def _about_activations(ops: Counter[str]) -> list[tuple[str, dict[str, Setting], str, str]]:
    found: list[tuple[str, dict[str, Setting], str, str]] = []
    ranges: tuple[tuple[str, float, float, str, float, str], ...] = (
        ("tanh", -_TANH, _TANH, "range_percentage_lt", 0.1, "saturated, nearly all its results"),
        ("sigmoid", *_SIGMOID, "range_percentage_lt", 0.1, "saturated, nearly all its results"),
        ("relu", -1.0, 0.0, "range_percentage_gt", 99.9, "dead, nearly all its results"),
    )
    for op, low, high, name, share, what in ranges:
        if ops[op]:
            params: dict[str, Setting] = {
                "range_start_inclusive": low, "range_end_inclusive": high, name: share,
            }  # fmt: skip
            times = f"it has {ops[op]} {op} node{'s'[: ops[op] > 1]}"
            side = "lie at the bounds" if name.endswith("lt") else "are zero"
            found.append(
                ("activation_range", params, f"op:{op}", f"{times}; {what} {side}")
            )  # fmt: skip
    if ops["relu"] or ops["relu6"]:
        found.append(
            ("dead_relu", {}, "", "it has ReLUs; units that give only zeros learn no more")
        )  # fmt: skip
    return found


def _covering(
    found: list[Recommended], nodes: list[Node], gradients: Iterable[tuple[int, int]]
) -> list[Recommended]:
    """Those that cover something; what shows only while the program runs counts as covered."""
    judging = Judging(each.watch for each in found)
    judging.define(nodes)
    for value, gradient in gradients:
        judging.paired(value, gradient)
    covered = {each.watch.id for each in judging.asked if each.values}
    later = {"gradient_exploding", "gradient_vanishing", "gradient_norm_trend", "loss_not_falling"}
    return [each for each in found if each.watch.id in covered or each.watch.rule in later]
