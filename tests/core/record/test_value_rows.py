"""Changed specs of outputs: found by column as if all outputs were looked at one by one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from nodescope.ir.graph import TensorSpec, Value
from nodescope.record.value_rows import ValueRows

IDS = (0, 1, 2, 3, 40, -7, 1 << 20, 1 << 40)
SHAPES = ((4,), (2,), (3,), ())
SPECS = [("float32", ",".join(map(str, shape))) for shape in SHAPES]

Output = tuple[int, int, int]
"""Seq, value, and the index of the spec."""


def looked_at(rows: ValueRows, outputs: list[Output]) -> list[Any]:
    changed = []
    for seq, value, kind in outputs:
        known = rows.specs.get(value)
        if known is not None and known[1:] != SPECS[kind]:
            changed.append(rows.changed(seq, value, *SPECS[kind]))
    return [row for row in changed if row is not None]


def batches(seed: int) -> list[tuple[list[tuple[int, Value]], list[Output], list[Output]]]:
    """Definitions, noted outputs and other outputs of several batches."""
    draw = random.Random(seed)
    seq, made = 0, []
    ids = draw.sample(IDS, draw.randint(1, len(IDS)))
    for _ in range(6):
        defined, noted, others = [], [], []
        for _ in range(draw.choice((0, 1, 30, 60))):
            seq += draw.choice((0, 1, 1, 5))
            value, kind = draw.choice(ids), draw.choice((0, 0, 0, draw.randrange(4)))
            if draw.random() < 0.1:
                spec = TensorSpec(draw.choice(SHAPES), "float32")
                defined.append((seq, Value(value, spec, "x")))
            (others if draw.random() < 0.05 else noted).append((seq, value, kind))
        made.append((defined, noted, others))
    return made


@pytest.mark.parametrize("seed", range(200))
def test_columns_give_what_single_outputs_give(seed: int) -> None:
    one, other = ValueRows(), ValueRows()
    for defined, noted, others in batches(seed):
        for seq, value in defined:
            assert one.defined(seq, value) == other.defined(seq, value)
        expected = looked_at(one, sorted([*noted, *others], key=lambda output: output[0]))
        seqs, values, kinds = np.array(noted, dtype=np.int64).reshape(-1, 3).T
        several = np.array([value for _, value, _ in others], dtype=np.int64)
        places = other.differing(seqs, values, kinds, SPECS, several).tolist()
        some = [noted[place] for place in places]
        assert some == sorted(some, key=lambda output: output[0])
        merged = sorted([*some, *others], key=lambda output: output[0])
        assert looked_at(other, merged) == expected
        assert one.specs == other.specs


def test_outputs_of_known_specs_are_not_looked_at() -> None:
    rows = ValueRows()
    for value in range(9):
        rows.defined(1, Value(value, TensorSpec((4,), "float32"), "x"))
    values = np.arange(900) % 9
    kinds = np.zeros(900, dtype=np.int64)
    others = np.zeros(0, dtype=np.int64)
    seqs = np.arange(900)
    assert not len(rows.differing(seqs, values, kinds, SPECS, others))
    kinds[500:] = 1
    assert rows.differing(seqs, values, kinds, SPECS, others).tolist() == [
        *range(9), *range(500, 509)
    ]  # fmt: skip
    for value in range(9):  # late: defined again after most of them
        rows.defined(700, Value(value, TensorSpec((2,), "float32"), "x"))
    assert not len(rows.differing(seqs, values, kinds, SPECS, others))


def test_definitions_that_return_give_the_same_rows() -> None:
    rows = ValueRows()
    large, small = (Value(3, TensorSpec((n, 2), "float32"), "relu", 9) for n in (64, 5))
    for seq, value in enumerate((large, small) * 3):
        shape = "64,2" if value is large else "5,2"
        assert rows.defined(seq, value) == (
            None,
            seq,
            3,
            "relu",
            "float32",
            shape,
            None,
            9,
            "",
            None,
        )
        assert rows.specs[3] == ("relu", "float32", shape)
    assert rows.defined(9, Value(3, TensorSpec((7, 2), "float32"), "relu", 9))[5] == "7,2"
    assert rows.defined(10, large)[5] == "64,2"
