"""The effect of the clean-up passes on small programs, as text: before, rewrites, after.

    NODESCOPE_GOLDEN=write pytest tests/core/passes/test_golden.py

writes the files anew.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.ir.text import print_graph
from tests.core.passes.checking import lowered, nasty

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "passes"
PASSES = ("dce", "fold", "cse", "reshape", "broadcast", "simplify", "strength", "bodies", "dce",
          "own")  # fmt: skip


def _loop(x):
    return ns.scan(lambda c, row: (np.tanh(c + np.exp(x[0])) * 1.0, -c), x[0], x)


PROGRAMS = {
    "constants": lambda x: x + np.exp(ns.constant(2.0)) * 3,
    "common": lambda x: np.exp(x) + np.exp(x) * 2.0,
    "transposes": lambda x: np.exp(x).T.T + 1.0,
    "shapes": lambda x: np.squeeze(np.expand_dims(x, 0), 0) * 2.0,
    "bias": lambda x: np.broadcast_to(x[0], (6, 8)) + x,
    "sunk": lambda x: np.broadcast_to(x[0], (6, 8)) * 2.0,
    "ones": lambda x: x * 1.0 / 1.0 - 0.0,
    "signs": lambda x: x + np.negative(-x) - (-x),
    "conversions": lambda x: x.astype("float64").astype("float32"),
    "powers": lambda x: np.power(x, 2) / 4.0,
    "choice": lambda x: np.where(np.logical_not(x > 0), 0.0, x),
    "loop": _loop,
    "shared": lambda x: (x, np.negative(-x)),
}


def told(function):
    """The file of a program."""
    result = lowered(function, [nasty("float32")], PASSES)
    parts = [print_graph(result.traced), "\n".join(map(str, result.rewrites)) or "nothing",
             print_graph(result.graph)]  # fmt: skip
    text = "\n\n".join(part.strip() for part in parts) + "\n"
    return re.sub(r"graph \d+ ", "graph ", re.sub(r"  \S+\.py:\d+ .*", "", text))


@pytest.mark.parametrize("name", PROGRAMS)
def test_small_programs(name):
    file = GOLDEN / f"{name}.txt"
    text = told(PROGRAMS[name])
    if os.environ.get("NODESCOPE_GOLDEN") == "write":
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text
