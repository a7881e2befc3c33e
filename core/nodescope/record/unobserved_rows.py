"""Rows of unobserved steps, which are most steps of a long run, so that each must cost little."""

from __future__ import annotations

from typing import Any

from nodescope.events import StepsUnobserved

Rows = list[tuple[Any, ...]]


def rows_of_unobserved(seq: int, event: StepsUnobserved) -> tuple[Rows, Rows]:
    """Rows of the tables `step` and `loss`.

    Args:
        seq: The seq of the first step's start; later starts and ends have the next seqs.
        event: The steps.
    """
    steps: Rows = []
    losses: Rows = []
    first, starts, ended = event.first, event.starts, len(event.ends)
    for step, began, start_ns in zip(
        range(first, first + len(starts)), range(seq, seq + 2 * len(starts), 2), starts, strict=True
    ):
        nth = step - first
        if nth >= ended:
            steps.append((step, began, start_ns, None, None, 0))
            continue
        steps.append((step, began, start_ns, began + 1, event.ends[nth], 0))
        for loss in event.losses[nth]:
            row = (None, began + 1, step, loss.curve, loss.node, loss.times, loss.value)
            losses.append(row)
    return steps, losses


def last_of(steps: Rows) -> tuple[int, int]:
    """The last seq and time in rows of the table `step`."""
    _, began, start_ns, ended, end_ns, _ = steps[-1]
    return ended or began, end_ns or start_ns
