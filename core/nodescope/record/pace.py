"""What the governor says to a person: when it lowers, when it cannot, and at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from nodescope.record.governor import Change, Rung, Verdict
from nodescope.record.rows import Governed, Keeping

_MOST_NAMES = 3
_KEPT: dict[Rung, str] = {
    "values": "values",
    "summary": "summary",
    "timing": "timing",
    "graph": "graph",
    "thinned": "every tenth execution",
    "counted": "counts only",
}


def lowered(
    changes: Sequence[Change], before: float, after: float, limit: float, *, steps: bool
) -> str:
    """One line about nodes that are recorded with less from now on.

    Args:
        before, after: The slowdown that the last look found, and the forecast with the changes.
        steps: Whether training steps may be left out as well.
    """
    ways = Counter(
        f"{_KEPT[each.load.rungs[each.load.rung]]} to {_KEPT[each.load.rungs[each.rung]]}"
        for each in changes
    )
    told = ", ".join(f"{way} ({count:,})" for way, count in ways.most_common())
    most = sorted(changes, key=lambda each: -each.saved_ns)[:_MOST_NAMES]
    names = ", ".join(each.load.name for each in most)
    slows = factor(max(before, after))
    return (
        f"recording slows the program about {slows}, the limit is {factor(limit)}: "
        f"less is recorded of {_count(len(changes), 'node')}, {told}; costliest {names}. "
        f"{_expected(after, limit, steps)}"
    )


def _expected(after: float, limit: float, steps: bool) -> str:
    if after <= limit:
        return f"Expected from now on: {factor(after)}"
    if steps:
        return f"An observed step still takes {factor(after)} as long, so some steps run unobserved"
    return f"That still leaves {factor(after)}, above the limit"


def stuck(verdict: Verdict, limit: float) -> str:
    """One line about a limit that cannot be kept."""
    text = (
        f"the limit of {factor(limit)} cannot be met: with as little recorded as allowed, "
        f"a run takes about {factor(verdict.after)} as long"
    )
    if verdict.by_hand < verdict.after:
        text += f" ({factor(verdict.by_hand)} without the levels set by hand)"
    return text


def leaving_out(slowdown: float, limit: float, share: float) -> str:
    """One line about training steps that are not observed from now on."""
    return (
        f"a training step takes about {factor(slowdown)} as long while it is observed, the limit "
        f"is {factor(limit)}: from now on about one step in {_ratio(share)} is observed, the "
        "others run unobserved"
    )


def forbidden(slowdown: float, limit: float, why: str) -> str:
    """One line about training steps that should be left out and may not."""
    return (
        f"the limit of {factor(limit)} cannot be met now: no training step may run unobserved, "
        f"since {why}; an observed run takes about {factor(slowdown)} as long"
    )


def raised(step: int) -> str:
    """One line about a program that raised where nobody looked."""
    return (
        f"the program raised in step {step} or after it, and that step ran unobserved to stay "
        "within the limit: if it raised there, none of its nodes was recorded; run again with "
        "--max-slowdown 0 to see which one it was"
    )


def ended(found: Governed) -> str:
    """One line about the whole run."""
    head = f"slowdown about {factor(found.slowdown)}"
    if found.measured:
        head += " (measured against unobserved steps)"
    head += f", limit {factor(found.limit)}"
    if found.slowdown > found.limit:
        head += ": over the limit"
        if found.because:
            head += f", since {found.because}"
        elif found.stuck:
            head += ", with as little recorded as allowed"
    nodes = f" of {_count(found.lowered, 'node')}" if found.lowered else ""
    parts = [
        f"{found.steps_left_out:,} of {_count(found.steps, 'step')}"
        if found.steps_left_out
        else "",
        f"elements of {_count(found.arrays, 'output')}" if found.arrays else "",
        f"statistics of {_count(found.summaries, 'output')}" if found.summaries else "",
        f"{_count(found.executions, 'execution')} (counted)" if found.executions else "",
    ]
    parts = [each for each in parts if each]
    if not parts:
        return f"{head}. Nothing was left out"
    return f"{head}. Left out{nodes and ','}{nodes}: {', '.join(parts)}"


def kept(keeping: Keeping, governed: Governed | None) -> str:
    """One line about what is kept of a run by default, and the way to more."""
    newest = (
        "the newest values whole"
        if governed is None or not governed.steps
        else f"whole values of the last {keeping.newest_steps} steps"
    )
    lowered = governed is not None and (governed.executions or governed.summaries)
    parts = [f"kept statistics of {'most values' if lowered else 'all values'}, {newest}"]
    if governed is not None:
        if governed.steps_left_out:
            parts.append(
                f"{governed.steps_left_out:,} of {_count(governed.steps, 'step')} not observed"
            )
        parts.append(f"about {factor(governed.slowdown)} slower (limit {factor(governed.limit)})")
    return "; ".join(parts) + ". --level values keeps every element"


def factor(slowdown: float) -> str:
    """``1.47x``; ``12x`` where digits no longer tell anything."""
    return f"{slowdown:.0f}x" if slowdown >= 10 else f"{slowdown:.3g}x"


def _ratio(share: float) -> str:
    share = max(share, 1e-9)
    return f"{1 / share:,.0f}" if share < 0.3 else f"{1 / share:.2g}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
