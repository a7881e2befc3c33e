"""Contrastive learning in which each row is a candidate for its own partner.

A row's similarity to itself is the largest, and no label asks for it. The score matrix is symmetric
with its largest elements on the diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, MissingData, Sight, numbers
from nodescope.debug.watch.rule import (
    Example,
    Finding,
    Look,
    Rule,
    Settings,
    count,
    needs_steps,
    per_value,
)
from nodescope.ir.graph import Node

_FEWEST_ROWS: Final = 4
_CLOSE: Final = 1e-3  # tolerance relative to the largest element


def _begin(settings: Settings) -> Look:
    least = settings["num_steps"]
    steps = 0

    def look(sight: Sight) -> Finding | None:
        nonlocal steps
        inputs = sight.inputs
        if len(inputs) < 2:
            raise MissingData("the node has no second input with labels")
        shape, labelled = inputs[0].spec.shape, inputs[1].spec.shape
        if len(shape) != 2 or shape[0] != shape[1] or labelled != shape[:1]:
            raise Inapplicable("no loss compares rows with each other")
        if shape[0] < _FEWEST_ROWS:
            raise Inapplicable(f"no loss compares {_FEWEST_ROWS} rows or more with each other")
        scores, labels = numbers(inputs[0].array), inputs[1].array
        if labels.dtype.kind not in "iu" or scores.dtype.kind == "c":
            return None
        own = np.diagonal(scores)
        slack = _CLOSE * float(np.abs(scores).max())
        itself = (
            np.isfinite(scores).all()
            and float(np.ptp(scores)) > slack
            and not (labels == np.arange(len(labels))).any()
            and (own >= scores.max(axis=1) - slack).all()
            and (np.abs(scores - scores.T) <= slack).all()
        )
        steps = steps + 1 if itself else 0
        if itself and steps < least:
            raise needs_steps(least, steps)
        if not itself:
            return None
        return Finding(
            f"each of the {len(own)} rows is among its own candidates: the largest element of each "
            "row is its similarity to itself, on the diagonal, which no label asks for; exclude it "
            "(subtract 1e9·eye(n) from the scores)",
            {"rows": len(own)},
        )

    return look


def _suits(nodes: Sequence[Node]) -> str:
    for node in nodes:
        if node.op == "cross_entropy" and node.phase == "forward":
            return f"{node.name} may compare rows with each other, but none with itself"
    return ""


_ALIKE: Final = np.array(
    [[9, 2, 1, 0], [2, 9, 0, 1], [1, 0, 9, 3], [0, 1, 3, 9]], np.float32
)  # rows 0 and 1 are partners, and so are 2 and 3
_PARTNERS: Final = np.array([1, 0, 3, 2])
_OPS: Final = {"x": "cross_entropy"}
_MASKED: Final = _ALIKE - 1e9 * np.eye(4, dtype=np.float32)
_TURNED: Final = _ALIKE[:, [1, 0, 3, 2]]

register(
    Rule(
        "self_among_candidates",
        "in a contrastive loss each row is a candidate for its own partner",
        per_value(_begin),
        ("losses",),
        ops=frozenset({"cross_entropy"}),
        needs=frozenset({"inputs", "values", "history"}),
        parameters=(
            count("num_steps", 3, "number of steps in a row", unit="steps", low=1),
        ),
        explains=True,
        suits=_suits,
        examples=(
            Example([(2.0, _ALIKE, _PARTNERS)] * 4, (3, 4), {}, _OPS),
            Example([(2.0, _MASKED, _PARTNERS)] * 4, (), {}, _OPS,
                    about="the diagonal is excluded"),
            Example([(2.0, _ALIKE, np.arange(4))] * 4, (), {}, _OPS,
                    about="two views: each row's partner is of its own number"),
            Example([(2.0, _TURNED, _PARTNERS)] * 4, (), {}, _OPS),
        ),
    )
)  # fmt: skip
