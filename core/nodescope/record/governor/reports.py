"""Governor reports: when less is observed, when the limit cannot be met, and at the end."""

from __future__ import annotations

from collections.abc import Sequence

from nodescope.console_output import counted
from nodescope.record.rows import Governed, Keeping

_LITTLE_S = 0.25
_UNNOTICED_S = 0.05


def leaving_out(what: str, slowdown: float, limit: float, share: float = 0.0) -> str:
    """One line that announces that some steps, or parts of the program, will run unobserved.

    Args:
        what: A training step, or the program if it has no steps.
        slowdown: The slowdown while observed.
        limit: The slowdown limit.
        share: The share of steps that will be observed; 0 for a program without steps.
    """
    rest = "only parts of it are recorded as you asked, and the others are timed or counted"
    if share:
        one_in = f"{1 / share:,.0f}" if share < 0.3 else f"{1 / share:.2g}"
        rest = f"about one step in {one_in} is observed, the others run unobserved"
    return (
        f"{what} takes about {factor(slowdown)} as long while it is observed, the limit is "
        f"{factor(limit)}: from now on {rest}"
    )


def stuck(slowdown: float, by_hand: float, limit: float) -> str:
    """One line about a limit that cannot be kept.

    Args:
        by_hand: The slowdown excluding nodes whose level the user chose.
    """
    without = f" ({factor(by_hand)} without the levels set by hand)" if by_hand < slowdown else ""
    return (
        f"the limit of {factor(limit)} cannot be met: with as little recorded as allowed, "
        f"a run takes about {factor(slowdown)} as long{without}"
    )


def forbidden(slowdown: float, limit: float, reason: str) -> str:
    """One line about training steps that should run unobserved but must be observed."""
    return (
        f"the limit of {factor(limit)} cannot be met now: no training step may run unobserved, "
        f"since {reason}; an observed run takes about {factor(slowdown)} as long"
    )


def raised(step: int) -> str:
    """One line about a program that raised in an unobserved step."""
    return (
        f"the program failed in step {step} or after it, which was not observed (slowdown limit): "
        "only a failing operation was recorded. --max-slowdown 0 observes every step"
    )


def ended(governed: Governed) -> str:
    """One line about the whole run."""
    measured = " (measured against unobserved steps)" if governed.measured else ""
    head = f"slowdown about {factor(governed.slowdown)}{measured}, limit {factor(governed.limit)}"
    why = ", with as little recorded as allowed" if governed.stuck else ""
    if governed.because:
        why = f", since {governed.because}"
    if governed.slowdown > governed.limit:
        head += f": over the limit{why}"
    left_out = (
        (governed.steps_left_out, f"{{:,}} of {counted(governed.steps, 'step')}"),
        (governed.calls_left_out, f"{{:,}} of {counted(governed.calls, 'call')} outside of steps"),
        (governed.arrays, f"elements of {counted(governed.arrays, 'value')}"),
        (governed.summaries, f"statistics of {counted(governed.summaries, 'value')}"),
        (governed.executions, f"{counted(governed.executions, 'execution')} (counted)"),
    )
    parts = ", ".join([text.format(number) for number, text in left_out if number])
    nodes = f", of {counted(governed.lowered, 'node')}" if governed.lowered else ""
    return f"{head}. " + (f"Left out{nodes}: {parts}" if parts else "Nothing was left out")


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


def factor(slowdown: float) -> str:
    """A factor such as ``1.47×``, or ``12×`` without meaningless digits."""
    return f"{slowdown:.0f}×" if slowdown >= 10 else f"{slowdown:.3g}×"
