"""A loss that is no better than that of a constant prediction, and no longer falls.

Always predicting the shares of the labels, or the mean of the targets, has a loss that follows from
the targets alone: their entropy or their variance. A model that uses its inputs does better. It
does not if inputs and labels were shuffled separately, or belong to different rows.

The rule requires other targets in each step: memorising a few rows may take long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, MissingData, Sight
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

_CLASSES: Final = frozenset({"cross_entropy", "nll_loss"})
_BINARY: Final = frozenset({"bce_with_logits", "bce"})
_SQUARES: Final = frozenset({"mse", "subtract"})
_OPS: Final = _CLASSES | _BINARY | _SQUARES
_MOST_KINDS: Final = 256  # classes, or columns of targets
_PER_KIND: Final = 20  # least number of examples per class or column
_MOST_MARKS: Final = 256
_FEWEST_MARKS: Final = 8
_FALLS: Final = 0.98  # ratio of the losses of the last two quarters below which the loss falls
_LEAST: Final = 0.1  # least entropy; least ratio of variance to mean square


class _Totals(NamedTuple):
    """Sums over all steps so far.

    Attributes:
        loss: The sum of the examples' losses.
        examples: The number of examples.
        first, second: For classes, ``first`` counts labels by class; else the sums of targets and
            of their squares, by column.
    """

    loss: float
    examples: int
    first: Array
    second: Array

    def less(self, other: _Totals) -> _Totals:
        return _Totals(self.loss - other.loss, self.examples - other.examples,
                       self.first - other.first, self.second - other.second)  # fmt: skip

    @property
    def mean(self) -> float:
        return self.loss / self.examples

    def of_one_answer(self, classes: bool) -> float | None:
        """The loss of the best constant prediction; None if it is close to zero."""
        shares = self.first / self.examples
        if classes:
            entropy = -float(np.sum(shares * np.log(np.where(shares > 0, shares, 1.0))))
            return entropy if entropy > _LEAST else None
        squares = float(np.mean(self.second)) / self.examples
        variance = squares - float(np.mean(shares * shares))
        return variance if variance > _LEAST * squares > 0 else None


def _begin(settings: Settings) -> Look:
    steps, examples = settings["num_steps"], settings["examples"]
    marks: list[_Totals] = []
    known: set[int] = set()  # targets, by their hash
    seen = every = 1
    fits = True

    def look(sight: Sight) -> Finding | None:
        nonlocal seen, every, fits
        graph, node = sight.graph, sight.node
        if not fits or (seen > 1 and not is_only_loss(graph, node)):
            raise Inapplicable("no loss alone compares predictions with labels or targets")
        taken = _taken(sight)
        before, targets = marks[-1] if marks else None, hash(_targets(sight))
        fits = taken is not None and (before is None or before.first.shape == taken.first.shape)
        fits &= targets not in known
        known.add(targets)
        if taken is None or not fits:
            raise Inapplicable("no loss alone compares predictions with labels or targets")
        total = taken if before is None else _Totals(
            before.loss + taken.loss, before.examples + taken.examples,
            before.first + taken.first, before.second + taken.second,
        )  # fmt: skip
        seen += 1
        if seen % every == 0 or not marks:
            marks.append(total)
        else:
            marks[-1] = total
        if len(marks) > _MOST_MARKS:
            del marks[1:-1:2]
            every *= 2
        if (
            len(marks) < _FEWEST_MARKS
            or seen <= steps
            or total.examples < max(examples, _PER_KIND * total.first.size)
        ):
            raise needs_steps(steps, seen - 1)
        return _judge(sight, marks)

    return look


def _judge(sight: Sight, marks: list[_Totals]) -> Finding | None:
    total = marks[-1]
    half = total.less(marks[len(marks) // 2])
    third = marks[len(marks) * 3 // 4].less(marks[len(marks) // 2])
    last = total.less(marks[len(marks) * 3 // 4])
    if not (third.examples and last.examples):
        return None
    classes = sight.node.op not in _SQUARES
    answer = half.of_one_answer(classes)
    if answer is None or not half.mean >= answer:
        return None
    # Relative to the loss of a constant prediction, since targets differ from step to step.
    before, after = third.of_one_answer(classes), last.of_one_answer(classes)
    if not before or not after or last.mean / after < _FALLS * third.mean / before:
        return None
    graph, target = sight.graph, _target_of(sight)
    data = [
        leaf
        for leaf in graph.leaves(sight.node.inputs[1 - target])
        if leaf.role == "input" and leaf.outputs[0] != sight.node.inputs[target]
    ]
    targets = graph.given(sight.node.inputs[target])
    one = "the shares of the classes" if classes else "the mean"
    name, source = (_named(targets) if targets else "the targets"), _named(data[0]) if data else ""
    return Finding(
        f"over the last half of the run it is {half.mean:.4g}, no better than {answer:.4g} for "
        f"always predicting {one}, and it no longer falls: nothing of {source or 'the inputs'} "
        f"is used. Are its rows those of {name}, shuffled together? If so, what tells the answers "
        "apart does not reach the prediction: look for a result that is not used, a sum over the "
        "wrong axis, or a step that is too large",
        {"loss": half.mean, "of_one_answer": answer},
    )


def _named(node: Node) -> str:
    return f"{node.name} (line {node.source.line})" if node.source is not None else node.name


def _targets(sight: Sight) -> bytes:
    return sight.inputs[_target_of(sight)].array.tobytes() if len(sight.inputs) > 1 else b""


def _target_of(sight: Sight) -> int:
    """The input port of a loss with the targets."""
    if sight.node.op != "subtract":
        return 1
    port = target_port(sight.graph, sight.node)
    return 1 if port is None else port


def _taken(sight: Sight) -> _Totals | None:
    """The contribution of one execution; None if the node is not a suitable comparison."""
    node, inputs = sight.node, sight.inputs
    port = target_port(sight.graph, node)
    if port is None or len(inputs) != 2 or node.attrs.get("label_smoothing"):
        return None
    if node.op != "subtract" and port != 1:
        return None
    summary = sight.summary
    if summary.mean is None or summary.norm is None or summary.nan_count or summary.inf_count:
        return None
    try:
        targets, guess = inputs[port].array, inputs[1 - port].spec.shape
    except MissingData:
        return None
    if node.op in _CLASSES:
        return _of_classes(summary.mean, targets, guess)
    if targets.shape != guess or not targets.size:
        return None
    values = targets.astype(np.float64)
    if node.op in _BINARY:
        if not np.isin(values, (0.0, 1.0)).all():
            return None
        ones = float(values.sum())
        counts = np.array([values.size - ones, ones])
        return _Totals(summary.mean * values.size, values.size, counts, np.zeros(2))
    columns = values.reshape(len(values), -1) if values.ndim > 1 else values.reshape(-1, 1)
    if columns.shape[1] > _MOST_KINDS:
        return None
    loss = summary.mean if node.op == "mse" else summary.norm**2 / values.size
    rows = len(columns)
    return _Totals(loss * rows, rows, columns.sum(axis=0), (columns**2).sum(axis=0))


def _of_classes(loss: float, labels: Array, scores: tuple[int | None, ...]) -> _Totals | None:
    if labels.dtype.kind not in "iu" or len(scores) != labels.ndim + 1 or not labels.size:
        return None
    classes = scores[1 if len(scores) > 1 else 0] or 0
    flat = labels.reshape(-1)
    numbers_rows = labels.ndim == 1 and np.unique(flat).size == flat.size  # contrastive labels
    if not 1 < classes <= _MOST_KINDS or flat.min() < 0 or flat.max() >= classes or numbers_rows:
        return None
    counts = np.bincount(flat, minlength=classes).astype(np.float64)
    return _Totals(loss * flat.size, flat.size, counts, np.zeros(classes))


def _suits(nodes: Sequence[Node]) -> str:
    return comparing(
        nodes,
        _OPS,
        "may compare predictions with targets, which show what a constant prediction would score",
    )


register(
    Rule(
        "nothing_learned",
        "a loss is no better than that of a constant prediction, and no longer falls",
        per_value(_begin),
        ops=_OPS,
        needs=frozenset({"summary", "inputs", "values", "history"}),
        parameters=(
            count("num_steps", 60, "number of steps required", unit="steps", low=1),
            count("examples", 1000, "number of examples required", low=1),
        ),
        lasting=True,
        explains=True,
        follows=(
            "mask_inverted", "targets_masked", "inputs_skipped", "batches_overlap",
            "batches_repeat", "worse_than_chance",
            "rows_change", "one_class_batches", "softmax_twice", "broadcast_in_loss",
            "mean_of_one", "zero_slope", "clipped_layer", "dead_layer", "saturated_layer",
            "no_gradient_path", "gradient_lost", "units_identical", "weight_frozen",
            "attention_over_batch", "norm_over_batch", "reshaped_axes", "data_overwritten",
            "loss_diverging", "predictions_far_off", "loss_flat", "steps_too_large",
            "decay_too_large", "gradient_not_zeroed", "update_without_effect",
            "inputs_constant", "labels_constant", "targets_out_of_range", "clip_too_small",
            "classes_over_batch", "picks_all_pairs", "error_of_means", "update_overwritten",
            "optimizer_made_anew", "both_factors_zero", "signal_fades", "rounds_unused",
            "inputs_scale", "schedule_ends_early", "dropout_takes_most",
        ),
        suits=_suits,
        concerns=takes_two_forward,
    )
)  # fmt: skip
