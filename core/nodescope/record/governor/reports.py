"""Governor reports: when less is observed, when the limit cannot be met, and at the end."""

from __future__ import annotations

from nodescope.console_output import counted, factor
from nodescope.record.rows import Governed


def leaving_out(what: str, slowdown: float, limit: float, share: float = 0.0) -> str:
    """One line that announces that parts of a program will run unobserved: all but a share of its
    steps, or without steps, parts of the program.
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
    """One line about a limit that cannot be kept; ``by_hand`` is the slowdown without nodes whose
    level the user chose.
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
    if governed.slowdown > governed.limit:
        why = ", with as little recorded as allowed" if governed.stuck else ""
        head += f": over the limit{f', since {governed.because}' if governed.because else why}"
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
