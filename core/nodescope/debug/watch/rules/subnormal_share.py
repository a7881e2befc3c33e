"""Subnormal numbers: so small that precision is lost, and slow on many machines."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Sight, blocks
from nodescope.debug.watch.rule import Example, Finding, Rule, Settings, percent, plain


def _look(sight: Sight, settings: Settings) -> Finding | None:
    summary = sight.summary
    if not sight.size or summary.min is None or summary.max is None:
        return None
    dtype = np.dtype(summary.spec.dtype)
    if dtype.kind in "biu":
        return None
    limits = np.finfo(dtype) if dtype.kind in "fc" else ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    least = float(limits.smallest_normal)
    if dtype.kind != "c" and (summary.min >= least or summary.max <= -least):
        return None
    subnormal = 0
    for (block,) in blocks(sight.array):
        parts = (block.real, block.imag) if block.dtype.kind == "c" else (block,)
        small = [(np.abs(part) < least) & (part != 0) for part in parts]
        subnormal += int(np.count_nonzero(np.logical_or.reduce(small)))
    share, limit = 100 * subnormal / sight.size, settings["threshold"]
    if share <= limit:
        return None
    return Finding(
        f"{subnormal} of {sight.size} elements are subnormal in {dtype.name} ({share:.6g}%, "
        f"more than {limit:g}%)",
        {"threshold": share},
    )


register(
    Rule(
        "subnormal_share",
        "too many elements are subnormal: not zero, and smaller than the smallest normal number",
        plain(_look),
        needs=frozenset({"summary", "values"}),
        parameters=(percent("threshold", 1.0, "hit if a larger share is subnormal"),),
        aliases=("denormal_share",),
        examples=(
            Example([[1e-40, 1.0], [1e-30, 0.0], [0.0, -1e-42]], (1, 3)),
            Example([[1e-40, 1.0]], (), {"threshold": 50}, about="exactly at the limit"),
            Example([np.array([6e-8, 1.0], np.float16), np.array([7e-5, 1.0], np.float16)], (1,)),
            Example([[1, 2], [True]], ()),
        ),
    )
)
