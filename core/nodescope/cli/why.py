"""``nodescope why``: where an element of a recording comes from, and what NaN and Inf did.

Invariant: the recording is only read.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from nodescope.debug.why import parse_target, render, render_spread, spread, why
from nodescope.errors import RecordingError
from nodescope.record.recording import Recording
from nodescope.record.rows import HAS_INF, HAS_NAN, HAS_SUMMARY, Execution
from nodescope.telling import say, show

_PAGE: Final = 5000


def tell(options: argparse.Namespace) -> int:
    """Say why; status 0, whatever the answer."""
    path: Path = options.recording
    if not path.is_file():
        raise RecordingError(f"no recording {str(path)!r}")
    # Nodes are run again, and would warn again as they did in the run.
    with Recording.open(path) as recording, warnings.catch_warnings(action="ignore"):
        if recording.note:
            say(recording.note)
        if options.element is not None:
            target = parse_target(options.element)
            show(render(why(recording, target, step=options.step)), end="")
            return 0
        step = options.step if options.step is not None else first_broken_step(recording)
        if step is None:
            show(_none_found(recording))
        else:
            show(render_spread(spread(recording, step)), end="")
    return 0


def _none_found(recording: Recording) -> str:
    """That nothing was found, and in how much of the run it could have been."""
    seen, known = recording.run().name, 0
    for page in _pages(recording):
        known += sum(bool(each.flags & HAS_SUMMARY) for each in page)
    if not known:
        return f"NaN and Inf are unknown for {seen}: no statistics; run with --level summary"
    steps = recording.steps()
    left_out = sum(not each.observed for each in steps)
    count = len(steps) - left_out
    said = f"no NaN or Inf in {count:,} step{'s'[: count != 1]} of {seen}"
    return said + (f"; {left_out:,} more ran unobserved" if left_out else "")


def first_broken_step(recording: Recording) -> int | None:
    """The first training step in which a node gave NaN or Inf; None if there is none."""
    for page in _pages(recording):
        for each in page:
            if each.flags & (HAS_NAN | HAS_INF):
                return each.step
    return None


def _pages(recording: Recording) -> Iterator[list[Execution]]:
    after = 0
    while page := recording.executions(after, limit=_PAGE):
        yield page
        after = page[-1].seq
