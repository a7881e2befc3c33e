"""SageMaker's ClassImbalance and Confusion: labels and predictions, as passed to a loss."""

from __future__ import annotations

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.classifier_labels import LOSSES, labelled
from nodescope.debug.watch.observation import Inapplicable, NotYet, Sight
from nodescope.debug.watch.rule import (
    Example,
    Finding,
    Look,
    Need,
    Rule,
    Settings,
    count,
    flag,
    number,
    per_value,
    plain,
)

_ARGMAX = flag("argmax", False, "labels and predictions are both scores per class")
_NO_CLASSES = "no loss takes class labels"
_NEEDS: frozenset[Need] = frozenset({"inputs", "values"})


def _imbalance(settings: Settings) -> Look:
    samples = settings["samples"]
    most_apart, most_wrong = settings["threshold_imbalance"], settings["threshold_misprediction"]
    label_counts = np.zeros(0, np.int64)
    wrong = np.zeros(0, np.int64)

    def look(sight: Sight) -> Finding | None:
        nonlocal label_counts, wrong
        labelling = labelled(sight, argmax=settings["argmax"])
        if labelling is None:
            raise Inapplicable(_NO_CLASSES)
        labels, predicted, classes = labelling
        classes = max(classes, label_counts.size)
        label_counts = np.bincount(labels, minlength=classes) + np.pad(
            label_counts, (0, classes - label_counts.size)
        )
        failed = np.bincount(labels[labels != predicted], minlength=classes)
        wrong = failed + np.pad(wrong, (0, classes - wrong.size))
        total = int(label_counts.sum())
        if total < samples:
            raise NotYet(f"needs {samples} labels, had {total}")
        # The rarest class is one that was seen at least once.
        rare, often = (
            int(np.where(label_counts, label_counts, total + 1).argmin()),
            int(label_counts.argmax()),
        )
        apart = float(label_counts[often] / label_counts[rare])
        if apart > most_apart:
            return Finding(
                f"of {total} labels, class {often} has {label_counts[often]} and class {rare} "
                f"{label_counts[rare]}: {apart:.6g} times as many, more than {most_apart:g}",
                {"threshold_imbalance": apart},
            )
        shares = wrong / np.maximum(label_counts, 1)
        worst = int(shares.argmax())
        if shares[worst] > most_wrong:
            return Finding(
                f"{wrong[worst]} of {label_counts[worst]} labels of class {worst} are mispredicted "
                f"({shares[worst]:.6g}, more than {most_wrong:g})",
                {"threshold_misprediction": float(shares[worst])},
            )
        return None

    return look


def _confusion(sight: Sight, settings: Settings) -> Finding | None:
    labelling = labelled(sight, argmax=settings["argmax"])
    if labelling is None:
        raise Inapplicable(_NO_CLASSES)
    labels, predicted, classes = labelling
    classes = max(classes, settings["category_no"] or 0)
    # Count only the pairs that occur, because there may be very many classes.
    pairs, counts = np.unique(labels * classes + predicted, return_counts=True)
    totals = np.bincount(labels, minlength=classes)
    label, guess = pairs // classes, pairs % classes
    right = np.zeros(classes)
    right[label[label == guess]] = counts[label == guess]
    present = np.flatnonzero(totals)
    shares = right[present] / totals[present]
    low, high = settings["min_diag"], settings["max_off_diag"]
    if shares.min() < low:
        worst = int(present[shares.argmin()])
        return Finding(
            f"{shares.min():.6g} of the {totals[worst]} labels of class {worst} are predicted "
            f"correctly, less than {low:g}",
            {"min_diag": float(shares.min())},
        )
    off = label != guess
    if not off.any():
        return None
    mixed = counts[off] / totals[label[off]]
    place = int(mixed.argmax())
    if mixed[place] <= high:
        return None
    return Finding(
        f"{mixed[place]:.6g} of the labels of class {label[off][place]} are predicted as class "
        f"{guess[off][place]}, more than {high:g}",
        {"max_off_diag": float(mixed[place])},
    )


_RIGHT = [[2.0, 1.0], [0.0, 1.0]]

register(
    Rule(
        "class_imbalance",
        "one class has far more labels than another, or is mispredicted too often",
        per_value(_imbalance),
        ("losses",),
        ops=LOSSES,
        needs=_NEEDS | {"history"},
        parameters=(
            number("threshold_imbalance", 10.0, "hit if label counts differ by more", low=1),
            number("threshold_misprediction", 0.7, "hit if more are mispredicted", low=0, high=1),
            count("samples", 500, "labels needed before it is evaluated", low=1),
            _ARGMAX,
        ),
        origin="SageMaker",
        aliases=("ClassImbalance",),
        examples=(
            Example([(0.5, _RIGHT, [0, 1]), (0.5, _RIGHT, [0, 0])], (2,),
                    {"samples": 3, "threshold_imbalance": 2}, {"x": "cross_entropy"}),
            Example([(0.5, _RIGHT, [0, 1]), (0.5, _RIGHT, [1, 0])], (2,),
                    {"samples": 4, "threshold_misprediction": 0.4}, {"x": "cross_entropy"}),
            Example([(0.5, _RIGHT, [1, 0])], (), {}, {"x": "nll_loss"}),
            Example([(0.5, _RIGHT, [[1, 0], [1, 0]])], (1,),
                    {"argmax": True, "samples": 2, "threshold_misprediction": 0.4},
                    {"x": "cross_entropy"}),
        ),
    ),
    Rule(
        "confusion",
        "a class is predicted correctly too rarely, or confused with another too often",
        plain(_confusion),
        ("losses",),
        ops=LOSSES,
        needs=_NEEDS,
        parameters=(
            count("category_no", None, "number of classes; by default, that of the scores"),
            number("min_diag", 0.9, "hit if a smaller share is correct", low=0, high=1),
            number("max_off_diag", 0.1, "hit if a larger share goes to one other class",
                   low=0, high=1),
            _ARGMAX,
        ),
        origin="SageMaker",
        aliases=("Confusion",),
        examples=(
            Example([(0.5, _RIGHT, [0, 1]), (0.5, _RIGHT, [0, 0])], (2,), {},
                    {"x": "cross_entropy"}),
            Example([(0.5, _RIGHT, [0, 0])], (1,), {"min_diag": 0.5, "max_off_diag": 0.25},
                    {"x": "cross_entropy"}),
            Example([(0.5, _RIGHT, [0, 0])], (), {"min_diag": 0.5, "max_off_diag": 0.5},
                    {"x": "cross_entropy"}),
            Example([(0.5, _RIGHT, [-1, 1])], (), {}, {"x": "cross_entropy"}),
        ),
    ),
)  # fmt: skip
