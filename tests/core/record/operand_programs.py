"""Random programs whose operands are those that the recording names; see `test_operand_writers`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import nodescope as ns
from nodescope.debug.replay import ExecutionIndex
from nodescope.record.recording import Recording

_ACTIONS = st.lists(
    st.tuples(st.sampled_from(("make", "read", "write", "view", "drop", "step")),
              st.integers(0, 7), st.integers(0, 7)),
    min_size=4, max_size=30,
)  # fmt: skip


class _Program:
    """Makes, keeps, writes to and drops tensors; each holds a number that no other one had."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.number = 0.0
        self.read: list[tuple[float, float]] = []

    def fresh(self) -> Any:
        self.number += 1.0
        return ns.tensor(np.full(2, self.number))

    def act(self, action: str, first: int, other: int) -> None:
        """Do one thing with the tensors that are kept."""
        kept = self.kept
        if action == "make" or not kept:
            kept.append(self.fresh() * 1.0)
            return
        one, two = kept[first % len(kept)], kept[other % len(kept)]
        if action == "read":
            with ns.name_scope("read"):
                np.subtract(one, two)
            self.read.append((float(one.numpy()[0]), float(two.numpy()[0])))
        elif action == "write":
            one[...] = self.fresh()
        elif action == "view":
            view = one[:1]
            view[...] = self.fresh()[:1]
        elif action == "drop":
            kept.pop(first % len(kept))


@given(_ACTIONS, st.booleans())
def every_operand_is_the_array_that_was_read(
    actions: list[tuple[str, int, int]], marked: bool
) -> None:
    """Whatever was kept, written to and dropped, and however often a node ran in between."""
    program = _Program()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.nscope"
        with ns.record(path, level="values"):
            for _ in ns.steps(range(3)) if marked else range(3):
                for action, first, other in actions:
                    program.act(action, first, other)
        with Recording.open(path) as recording:
            _check(recording, program.read)


def _check(recording: Recording, read: list[tuple[float, float]]) -> None:
    book = ExecutionIndex(recording)
    readers = [row for row in book.nodes() if row.scope == "read" and row.op == "subtract"]
    runs = sorted(
        (run for reader in readers for run in book.ran(reader.id)), key=lambda run: run.seq
    )
    assert len(runs) == len(read)
    for run, numbers in zip(runs, read, strict=True):
        sources = book.sources(run)
        arrays = [recording.array(source.value, source.seq) for source in sources]
        assert all(array is not None for array in arrays)
        assert tuple(float(array[0]) for array in arrays if array is not None) == numbers


if __name__ == "__main__":
    to_depth = settings(max_examples=int(sys.argv[1]), deadline=None, derandomize=True)
    to_depth(every_operand_is_the_array_that_was_read)()
