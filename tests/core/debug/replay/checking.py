"""Checks a replay: reruns every node of its step, and compares it with the recording."""

from __future__ import annotations

from typing import Any, NamedTuple

from nodescope.debug.replay import Difference, Replay
from nodescope.debug.replay.arrays import difference
from nodescope.debug.replay.execution_index import ValueSource
from nodescope.errors import ReplayError
from nodescope.events import Array
from nodescope.record.recording import Recording
from nodescope.record.summary import summarise


class Checked(NamedTuple):
    """The comparison of a recomputed step with the recording.

    Attributes:
        compared: The number of compared arrays.
        differences: Arrays whose bits differ.
        statistics: Values without a recorded array whose statistics differ.
        missing: By node name: why it could not be rerun.
    """

    compared: int
    differences: tuple[Difference, ...]
    statistics: tuple[Difference, ...]
    missing: dict[str, str]


def check(replay: Replay) -> Checked:
    """Rerun every node of the step on its recorded inputs, and compare bit for bit."""
    compared = 0
    differences: list[Difference] = []
    statistics: list[Difference] = []
    missing: dict[str, str] = {}
    for execution in replay.executions():
        node = replay.book.node(execution.node, execution.seq)
        if not node.inputs or replay.book.latest(node.id, execution.seq + 1) != execution:
            continue
        replay._ran = 0
        try:
            arrays = [replay.written(source).array for source in replay.sources(execution)]
            outputs = replay.run(execution, arrays)
        except ReplayError as error:
            missing.setdefault(node.name, str(error))
            continue
        for value, computed in zip(node.outputs, outputs, strict=False):
            recorded = replay.recorded(ValueSource(value, execution))
            if recorded is not None:
                compared += 1
                mismatch = difference(recorded, computed, node.name, value, execution.seq)
                differences += [mismatch] if mismatch is not None else []
            else:
                mismatch = _statistics(replay.recording, node.name, value, execution.seq, computed)
                statistics += [mismatch] if mismatch is not None else []
    return Checked(compared, tuple(differences), tuple(statistics), missing)


def _statistics(
    recording: Recording, name: str, value: int, seq: int, computed: Array
) -> Difference | None:
    recorded = recording.latest_at(value, seq)
    if recorded is None or recorded.seq != seq:
        return None
    before_summary, other = recorded.summary, summarise(computed)
    for field in ("spec", "nan_count", "inf_count", "zero_count", "min", "max", "preview"):
        before, now = getattr(before_summary, field), getattr(other, field)
        if before != now and not (before != before or _same_numbers(before, now)):
            note = f"recorded {field} {before}, recomputed {now}"
            return Difference(name, value, seq, 1, computed.size, note=note)
    return None


def _same_numbers(left: Any, other: Any) -> bool:
    if not isinstance(left, tuple) or not isinstance(other, tuple) or len(left) != len(other):
        return False
    return all(a == b or (a != a and b != b) for a, b in zip(left, other, strict=True))
