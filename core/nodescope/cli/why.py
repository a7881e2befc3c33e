"""``nodescope why``: the origin of an element of a recording, and the history of NaN and Inf; else
the error of the operation that ended the program.

Invariant: the recording is only read.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from nodescope.console_output import say, show
from nodescope.debug.replay.execution_index import ExecutionIndex
from nodescope.debug.report.gradient_ends import gradient_asked, gradient_end
from nodescope.debug.report.run_summary import first_words
from nodescope.debug.why import parse_target, render, render_spread, spread, why
from nodescope.debug.why.first_nonfinite import nonfinite_origin
from nodescope.debug.why.written_inf import written_inf
from nodescope.errors import RecordingError
from nodescope.record.ending import ended_by
from nodescope.record.recording import Recording
from nodescope.record.rows import HAS_SUMMARY, Execution

_PAGE: Final = 5000


def tell(options: argparse.Namespace) -> int:
    """Print the explanation; the status is 0, whatever the answer."""
    path: Path = options.recording
    if not path.is_file():
        raise RecordingError(f"no recording {str(path)!r}")
    # Nodes are rerun, and would warn again as in the run.
    with Recording.open(path) as recording, warnings.catch_warnings(action="ignore"):
        if recording.note:
            say(recording.note)
        if options.element is not None:
            book = ExecutionIndex(recording)
            target, lack, flat = gradient_asked(book, parse_target(options.element))
            if lack:
                show(f"{lack}\n", end="")
                return 0
            answer = why(recording, target, step=options.step)
            cut = flat or gradient_end(recording, answer.root.value)
            show((f"{cut}\n\n" if cut else "") + render(answer), end="")
            return 0
        origin = nonfinite_origin(recording) if options.step is None else None
        if origin is not None and origin.unseen_step:
            nodes = {row.node.id: row.node for row in recording.nodes()}
            show(f"{first_words(origin, nodes)}; --max-slowdown 0 observes every step")
        if options.step is not None or (origin is not None and origin.node):
            step = options.step if origin is None else origin.step
            show(render_spread(spread(recording, step)), end="")
        elif origin is None:
            show(_none_found(recording))
        if options.step is None:
            show(_error(recording), end="")
    return 0


def _error(recording: Recording) -> str:
    """The explanation of the error that ended the program; ``""`` if no operation raised one."""
    failed = ended_by(recording)
    if failed is None:
        return ""
    node = next(row.node for row in recording.nodes() if row.node.id == failed.node)
    if not node.outputs:
        return ""
    return "\n" + render(why(recording, node.outputs[0], seq=failed.seq))


def _none_found(recording: Recording) -> str:
    """A message that nothing was found, and in how much of the run it could have been."""
    name, with_statistics = recording.run().name, 0
    for page in _pages(recording):
        with_statistics += sum(bool(execution.flags & HAS_SUMMARY) for execution in page)
    if not with_statistics:
        return f"NaN and Inf are unknown for {name}: no statistics; run with --level summary"
    steps = recording.steps()
    left_out = sum(not step.observed for step in steps)
    count = len(steps) - left_out
    text = f"no NaN or Inf in {count:,} step{'s'[: count != 1]} of {name}"
    masks = len(written_inf(recording))
    if masks:
        text += f", except Inf that the program writes, in {masks:,} node{'s'[: masks != 1]}"
    return text + (f"; {left_out:,} more ran unobserved" if left_out else "")


def _pages(recording: Recording) -> Iterator[list[Execution]]:
    after = 0
    while page := recording.executions(after, limit=_PAGE):
        yield page
        after = page[-1].seq
