"""The message at the end of a run about the values that were kept by default."""

from __future__ import annotations

from collections.abc import Sequence

from nodescope.console_output import factor
from nodescope.record.rows import Governed, Keeping

_LITTLE_S = 0.25
_UNNOTICED_S = 0.05


def kept(keeping: Keeping, governed: Governed) -> str:
    """One line about the values kept by default, and how to keep more."""
    values, newest = "every observed value", "the newest values whole"
    if governed.summaries:
        observed = governed.values - governed.summaries
        values = f"{observed:,} of {governed.values:,} observed values"
    if governed.steps:
        newest = f"whole values of the last {keeping.newest_steps} observed steps"
    if keeping.made_room:
        newest += f" as far as {keeping.newest_bytes / 2**20:.4g} MiB hold them"
    parts = [f"kept statistics of {values}, {newest}{_first_nonfinite(keeping.nonfinite_steps)}"]
    for what, number, left_out in (
        ("steps", governed.steps, governed.steps_left_out),
        ("calls outside of steps", governed.calls, governed.calls_left_out),
    ):
        if left_out:
            parts.append(f"{number - left_out:,} of {number:,} {what} observed")
    if governed.extra_s >= _LITTLE_S:
        parts.append(f"about {factor(governed.slowdown)} slower (limit {factor(governed.limit)})")
    elif governed.extra_s >= _UNNOTICED_S:  # a factor says little about a short run
        parts.append(f"about {governed.extra_s:.1f} s overhead")
    return "; ".join(parts) + ". --level values keeps every element"


def _first_nonfinite(steps: Sequence[int]) -> str:
    text, numbers = "", [f"{step:,}" for step in steps if step]
    if numbers:
        where = f"steps {', '.join(numbers[:-1])} and " if numbers[1:] else "step "
        text = f" and of {where}{numbers[-1]}, where NaN or Inf first appeared"
    return text + (" and around the first NaN or Inf outside of steps" if 0 in steps else "")
