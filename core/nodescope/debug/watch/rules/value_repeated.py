"""A value is bit-identical to an earlier one: the same batch again, or nothing learned."""

from __future__ import annotations

import hashlib
from collections import deque

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Sight
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


def _begin(settings: Settings) -> Look:
    history: deque[tuple[int, bytes]] = deque(maxlen=settings["num_steps"])

    def look(sight: Sight) -> Finding | None:
        array = sight.array
        if not array.size:
            return None
        digest = hashlib.blake2b(repr((array.shape, array.dtype.str)).encode(), digest_size=16)
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        now = digest.digest()
        equal_step = next((step for step, earlier in reversed(history) if earlier == now), None)
        first = not history
        if first or history[-1][0] != sight.step:
            history.append((sight.step, now))
        if first:
            raise needs_steps(2, 1)
        if equal_step is None or equal_step == sight.step:
            return None
        return Finding(
            f"it is bit-identical to its value in step {equal_step}", {"step": equal_step}
        )

    return look


register(
    Rule(
        "value_repeated",
        "a value is bit-identical to its value in one of the previous steps",
        per_value(_begin),
        ("inputs", "activations", "losses"),
        needs=frozenset({"values", "history"}),
        parameters=(
            count(
                "num_steps",
                1,
                "number of previous steps to compare with",
                unit="steps",
                low=1,
                high=10_000,
            ),
        ),
        examples=(
            Example([[1.0, 2.0], [1.0, 2.0], [1.0, 3.0], [1.0, 2.0]], (2,)),
            Example([[1.0], [2.0], [1.0], [0.0], [-0.0]], (3,), {"num_steps": 2}),
            Example([[float("nan")], [float("nan")], []], (2,)),
        ),
    )
)
