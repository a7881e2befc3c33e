"""SageMaker's ClassImbalance and Confusion: labels and predictions, as a loss was given them."""

from __future__ import annotations

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.classes import LOSSES, labelled
from nodescope.debug.watch.rule import (
    Example,
    Finding,
    Inapplicable,
    Look,
    Need,
    NotYet,
    Rule,
    Settings,
    count,
    flag,
    number,
    per_value,
    plain,
)
from nodescope.debug.watch.sight import Sight

_ARGMAX = flag("argmax", False, "labels and predictions are both scores per class")
_NO_CLASSES = "no loss was given labels that are classes"
_NEEDS: frozenset[Need] = frozenset({"inputs", "values"})


def _imbalance(settings: Settings) -> Look:
    samples = settings["samples"]
    most_apart, most_wrong = settings["threshold_imbalance"], settings["threshold_misprediction"]
    seen = np.zeros(0, np.int64)
    wrong = np.zeros(0, np.int64)

    def look(sight: Sight) -> Finding | None:
        nonlocal seen, wrong
        found = labelled(sight, argmax=settings["argmax"])
        if found is None:
            raise Inapplicable(_NO_CLASSES)
        labels, predicted, classes = found
        classes = max(classes, seen.size)
        seen = np.bincount(labels, minlength=classes) + np.pad(seen, (0, classes - seen.size))
        failed = np.bincount(labels[labels != predicted], minlength=classes)
        wrong = failed + np.pad(wrong, (0, classes - wrong.size))
        total = int(seen.sum())
        if total < samples:
            raise NotYet(f"needs {samples} labels, had {total}")
        # Of the classes that were seen at all.
        rare, often = int(np.where(seen, seen, total + 1).argmin()), int(seen.argmax())
        apart = float(seen[often] / seen[rare])
        if apart > most_apart:
            return Finding(
                f"of {total} labels class {often} has {seen[often]} and class {rare} "
                f"{seen[rare]}: {apart:.6g} times as many, more than {most_apart:g}",
                {"threshold_imbalance": apart},
            )
        shares = wrong / np.maximum(seen, 1)
        worst = int(shares.argmax())
        if shares[worst] > most_wrong:
            return Finding(
                f"{wrong[worst]} of {seen[worst]} labels of class {worst} are mispredicted "
                f"({shares[worst]:.6g}, more than {most_wrong:g})",
                {"threshold_misprediction": float(shares[worst])},
            )
        return None

    return look


def _confusion(sight: Sight, settings: Settings) -> Finding | None:
    found = labelled(sight, argmax=settings["argmax"])
    if found is None:
        raise Inapplicable(_NO_CLASSES)
    labels, predicted, classes = found
    classes = max(classes, settings["category_no"] or 0)
    # A table by pairs that occur; the classes may be very many.
    pairs, counts = np.unique(labels * classes + predicted, return_counts=True)
    totals = np.bincount(labels, minlength=classes)
    label, guess = pairs // classes, pairs % classes
    right = np.zeros(classes)
    right[label[label == guess]] = counts[label == guess]
    seen = np.flatnonzero(totals)
    shares = right[seen] / totals[seen]
    low, high = settings["min_diag"], settings["max_off_diag"]
    if shares.min() < low:
        worst = int(seen[shares.argmin()])
        return Finding(
            f"{shares.min():.6g} of the {totals[worst]} labels of class {worst} are predicted "
            f"right, less than {low:g}",
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
        "some class has far more labels than another, or is mispredicted too often",
        per_value(_imbalance),
        ("losses",),
        ops=LOSSES,
        needs=_NEEDS | {"history"},
        parameters=(
            number("threshold_imbalance", 10.0, "hit if one class has more labels by this", low=1),
            number("threshold_misprediction", 0.7, "hit above this share", low=0, high=1),
            count("samples", 500, "labels to see first", low=1),
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
        "some class is predicted right too rarely, or taken for another too often",
        plain(_confusion),
        ("losses",),
        ops=LOSSES,
        needs=_NEEDS,
        parameters=(
            count("category_no", None, "how many classes there are; else as the scores say"),
            number("min_diag", 0.9, "hit if a smaller share is right", low=0, high=1),
            number("max_off_diag", 0.1, "hit if a larger share is taken for one other",
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
