"""Governor reports: when less is observed, when the limit cannot be met, and at the end."""

from __future__ import annotations

from collections.abc import Sequence

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
    rest = (
        f"about one step in {_ratio(share)} is observed, the others run unobserved"
        if share
        else "only parts of it are recorded as you asked, and the others are timed or counted"
    )
    return (
        f"{what} takes about {factor(slowdown)} as long while it is observed, the limit is "
        f"{factor(limit)}: from now on {rest}"
    )


def stuck(slowdown: float, by_hand: float, limit: float) -> str:
    """One line about a limit that cannot be kept.

    Args:
        by_hand: The slowdown excluding nodes whose level the user chose.
    """
    text = (
        f"the limit of {factor(limit)} cannot be met: with as little recorded as allowed, "
        f"a run takes about {factor(slowdown)} as long"
    )
    without = f" ({factor(by_hand)} without the levels set by hand)"
    return text + (without if by_hand < slowdown else "")


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
    head = f"slowdown about {factor(governed.slowdown)}"
    if governed.measured:
        head += " (measured against unobserved steps)"
    head += f", limit {factor(governed.limit)}"
    if governed.slowdown > governed.limit:
        head += ": over the limit"
        if governed.because:
            head += f", since {governed.because}"
        elif governed.stuck:
            head += ", with as little recorded as allowed"
    left_out = [
        (governed.steps_left_out, f"{{:,}} of {_count(governed.steps, 'step')}"),
        (governed.calls_left_out, f"{{:,}} of {_count(governed.calls, 'call')} outside of steps"),
        (governed.arrays, f"elements of {_count(governed.arrays, 'value')}"),
        (governed.summaries, f"statistics of {_count(governed.summaries, 'value')}"),
        (governed.executions, f"{_count(governed.executions, 'execution')} (counted)"),
    ]
    parts = [text.format(number) for number, text in left_out if number]
    nodes = f", of {_count(governed.lowered, 'node')}" if governed.lowered else ""
    return f"{head}. " + (
        f"Left out{nodes}: {', '.join(parts)}" if parts else "Nothing was left out"
    )


def kept(keeping: Keeping, governed: Governed) -> str:
    """One line about the values kept by default, and how to keep more."""
    newest = "the newest values whole"
    if governed.steps:
        newest = f"whole values of the last {keeping.newest_steps} observed steps"
    if keeping.made_room:
        newest += f" as far as {keeping.newest_bytes / 2**20:.4g} MiB hold them"
    newest += _first_nonfinite(keeping.nonfinite_steps)
    parts = [f"kept statistics of {_with_statistics(governed)}, {newest}"]
    if governed.steps_left_out:
        observed = governed.steps - governed.steps_left_out
        parts.append(f"{observed:,} of {_count(governed.steps, 'step')} observed")
    if governed.calls_left_out:
        observed = governed.calls - governed.calls_left_out
        parts.append(f"{observed:,} of {_count(governed.calls, 'call')} outside of steps observed")
    if governed.extra_s >= _LITTLE_S:
        limit = f"(limit {factor(governed.limit)})"
        parts.append(f"about {factor(governed.slowdown)} slower {limit}")
    elif governed.extra_s >= _UNNOTICED_S:  # a factor says little about a short run
        parts.append(f"about {governed.extra_s:.1f} s overhead")
    return "; ".join(parts) + ". --level values keeps every element"


def _with_statistics(governed: Governed) -> str:
    if not governed.summaries:
        return "every observed value"
    return f"{governed.values - governed.summaries:,} of {governed.values:,} observed values"


def _first_nonfinite(steps: Sequence[int]) -> str:
    numbers = [f"{step:,}" for step in steps if step]
    parts = ["around the first NaN or Inf outside of steps"] if 0 in steps else []
    if numbers:
        head, last = ", ".join(numbers[:-1]), numbers[-1]
        where = f"steps {head} and {last}" if head else f"step {last}"
        parts.insert(0, f"of {where}, where NaN or Inf first appeared")
    return "".join(f" and {part}" for part in parts)


def factor(slowdown: float) -> str:
    """A factor such as ``1.47×``, or ``12×`` without meaningless digits."""
    return f"{slowdown:.0f}×" if slowdown >= 10 else f"{slowdown:.3g}×"


def _ratio(share: float) -> str:
    share = max(share, 1e-9)
    return f"{1 / share:,.0f}" if share < 0.3 else f"{1 / share:.2g}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
