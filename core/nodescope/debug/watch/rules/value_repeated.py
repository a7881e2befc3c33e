"""A value is bit for bit what it was in a step before: the same batch again, nothing learned."""

from __future__ import annotations

import hashlib
from collections import deque

import numpy as np

from nodescope.debug.watch import register
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
from nodescope.debug.watch.sight import Sight


def _begin(settings: Settings) -> Look:
    history: deque[tuple[int, bytes]] = deque(maxlen=settings["num_steps"])

    def look(sight: Sight) -> Finding | None:
        array = sight.array
        if not array.size:
            return None
        digest = hashlib.blake2b(repr((array.shape, array.dtype.str)).encode(), digest_size=16)
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        now = digest.digest()
        same = next((step for step, then in reversed(history) if then == now), None)
        first = not history
        if first or history[-1][0] != sight.step:
            history.append((sight.step, now))
        if first:
            raise needs_steps(2, 1)
        if same is None or same == sight.step:
            return None
        return Finding(f"it is bit for bit what it was in step {same}", {"step": same})

    return look


register(
    Rule(
        "value_repeated",
        "a value is bit for bit what it was in one of the steps before",
        per_value(_begin),
        ("inputs", "activations", "losses"),
        needs=frozenset({"values", "history"}),
        parameters=(
            count("num_steps", 1, "compare with this many steps", unit="steps", low=1, high=10_000),
        ),
        examples=(
            Example([[1.0, 2.0], [1.0, 2.0], [1.0, 3.0], [1.0, 2.0]], (2,)),
            Example([[1.0], [2.0], [1.0], [0.0], [-0.0]], (3,), {"num_steps": 2}),
            Example([[float("nan")], [float("nan")], []], (2,)),
        ),
    )
)
