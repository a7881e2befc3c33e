"""Batches of one class each: the labels are sorted, and each batch undoes the one before."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.classifier_labels import LOSSES, labelled
from nodescope.debug.watch.observation import Inapplicable, MissingData, NotYet, Sight
from nodescope.debug.watch.rule import (
    Example,
    Finding,
    Look,
    Need,
    Rule,
    Settings,
    count,
    per_value,
    percent,
)
from nodescope.events import Array
from nodescope.ir.graph import Node

_BINARY = frozenset({"bce", "bce_with_logits"})
_NEEDS: frozenset[Need] = frozenset({"inputs", "values", "history"})
_CHANCE = -20.0  # limit of the log probability of such batches if labels were mixed
_MANY = 5


def _begin(settings: Settings) -> Look:
    least, rows, share = settings["batches"], settings["rows"], settings["share"] / 100
    single: list[int] = []  # by batch: its only class, or -1
    sizes: list[int] = []
    totals: Counter[int] = Counter()

    def look(sight: Sight) -> Finding | None:
        labels = _labels(sight)
        if labels is None or labels.size < rows:
            raise Inapplicable(f"no loss takes class labels of {rows} rows or more")
        classes, counts = np.unique(labels, return_counts=True)
        single.append(int(classes[0]) if classes.size == 1 else -1)
        sizes.append(int(labels.size))
        totals.update(dict(zip(classes.tolist(), counts.tolist(), strict=True)))
        if len(single) < least:
            raise NotYet(f"needs {least} batches, had {len(single)}")
        pure = [item for item in single if item >= 0]
        turns = [item for item, after in pairwise([*pure, None]) if item != after]
        kinds = len(set(turns))
        comes_back = kinds >= 2 and len(turns) > kinds
        if len(pure) < share * len(single) or not (comes_back or kinds >= _MANY):
            return None
        all_labels = sum(totals.values())
        log_chance = sum(
            math.log(sum((number / all_labels) ** size for number in totals.values()) or 1e-300)
            for item, size in zip(single, sizes, strict=True)
            if item >= 0
        )
        if log_chance > _CHANCE:
            return None
        return Finding(
            f"{len(pure)} of {len(single)} batches hold a single class (of {len(totals)} "
            "classes), so each batch unlearns the one before; shuffle the rows before splitting "
            "them into batches",
            {"batches": len(pure)},
        )

    return look


def _labels(sight: Sight) -> Array | None:
    """The labels of a loss as integers, or None."""
    if sight.node.op not in _BINARY:
        labelling = labelled(sight, argmax=False)
        return labelling[0] if labelling is not None else None
    inputs = sight.inputs
    if len(inputs) < 2:
        raise MissingData("the node has no second input with labels")
    targets = inputs[1].array.reshape(-1)
    if not np.isin(targets, (0, 1)).all():
        return None
    return targets.astype(np.int64)


def _suits(nodes: Sequence[Node]) -> str:
    for node in nodes:
        if node.phase == "forward" and node.op in LOSSES | _BINARY:
            return f"{node.name} takes class labels, which should be mixed in each batch"
    return ""


def _batch(*labels: int) -> tuple[object, ...]:
    return 0.5, np.zeros((len(labels), 2), np.float32), list(labels)


_ZEROS, _ONES, _MIXED = _batch(*[0] * 8), _batch(*[1] * 8), _batch(*[0, 1] * 4)

register(
    Rule(
        "one_class_batches",
        "nearly all batches hold labels of a single class, and the classes alternate",
        per_value(_begin),
        ("losses",),
        ops=LOSSES | _BINARY,
        needs=_NEEDS,
        parameters=(
            count("batches", 6, "batches needed before it is evaluated", low=3),
            count("rows", 8, "labels that a batch needs in order to count", low=2),
            percent("share", 70.0, "hit if at least this share of batches holds a single class"),
        ),
        explains=True,
        suits=_suits,
        examples=(
            Example([_ZEROS, _ZEROS, _ONES, _ONES, _ZEROS, _ZEROS, _ONES], (7,),
                    ops={"x": "cross_entropy"}),
            Example([_MIXED] * 8, (), ops={"x": "cross_entropy"}),
            Example([_ZEROS] * 4 + [_ONES] * 4, (), ops={"x": "cross_entropy"},
                    about="a curriculum: one class, then another"),
            Example([_ZEROS] * 8, (), ops={"x": "bce_with_logits"}, about="one side of a GAN"),
        ),
    )
)  # fmt: skip
