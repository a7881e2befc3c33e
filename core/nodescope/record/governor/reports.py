"""Governor reports: when the limit is exceeded, and at the end."""

from __future__ import annotations

from typing import Final

from nodescope.console_output import counted, factor
from nodescope.record.rows import Governed

EXCEEDED: Final = "{} takes about {} as long while it is observed, the limit is {}. {}"
FEWER_STEPS: Final = "From now on about {:.2g} % of steps are observed, the others run unobserved"
LESS_DETAIL: Final = (
    "From now on only parts of it are recorded as you asked, the others are timed or counted"
)
SEEN_WHOLE: Final = "It cannot be met: no training step may run unobserved, since {}"
IN_VAIN: Final = "It cannot be met"
IN_VAIN_BY_HAND: Final = IN_VAIN + " ({} without the levels set by hand)"
RAISED: Final = (
    "the program failed in step {} or after it. That step was not observed (slowdown limit): only "
    "a failing operation was recorded. --max-slowdown 0 observes every step"
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
