"""Operand writers: which execution wrote what another one read, as the program knows it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nodescope as ns
from nodescope.debug.replay import ExecutionIndex
from nodescope.ir.graph import Node
from nodescope.native import _identities, identities
from nodescope.record.operand_writers import UNKNOWN, OperandWriters
from nodescope.record.recording import Recording
from tests.depth import examples

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


@pytest.mark.deep
@pytest.mark.timeout(600)
@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(_ACTIONS, st.booleans())
def test_every_operand_is_the_array_that_was_read(
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


def node(id: int, inputs: tuple[int, ...] = (), outputs: tuple[int, ...] = ()) -> Node:
    return Node(id, f"n{id}", "add", "elementwise", inputs=inputs, outputs=outputs)


def test_the_latest_is_not_noted_and_an_earlier_one_is() -> None:
    writers = OperandWriters()
    maker, reader = node(1, outputs=(1,)), node(2, inputs=(1,), outputs=(2,))
    assert list(writers.ran(1, maker, (100,))) == []
    assert list(writers.ran(2, reader, (100, 900))) == []
    assert list(writers.ran(3, maker, (101,))) == []
    assert list(writers.ran(4, reader, (100, 901))) == [(4, 0, 1)]
    assert list(writers.ran(5, reader, (101, 900))) == []
    assert list(writers.failed(6, reader, (100,))) == [(6, 0, 1)]


def test_an_identity_that_is_used_again_is_of_the_last_one() -> None:
    writers = OperandWriters()
    maker, reader = node(1, outputs=(1,)), node(2, inputs=(1,), outputs=(2,))
    for seq, array in ((1, 100), (2, 101), (3, 100)):
        assert list(writers.ran(seq, maker, (array,))) == []
    assert list(writers.ran(4, reader, (100, 900))) == []
    assert list(writers.ran(5, reader, (101, 901))) == [(5, 0, 2)]


def test_unknowns_are_reported_as_unknown() -> None:
    writers = OperandWriters()
    maker, reader = node(1, outputs=(1,)), node(2, inputs=(1,), outputs=(2,))
    assert list(writers.ran(1, maker, (100,))) == []
    assert list(writers.ran(2, reader, (555, 900))) == [(2, 0, UNKNOWN)]
    writers.moved(1, 100, 555)
    assert list(writers.ran(3, reader, (555, 900))) == []
    writers.edited(1, 4)  # it lies in an array that nobody saw
    assert list(writers.ran(5, reader, (777, 900))) == []


def test_it_is_bounded() -> None:
    writers = OperandWriters()
    maker, reader = node(1, outputs=(1,)), node(2, inputs=(1,), outputs=(2,))
    for seq in range(1, 1001):
        assert list(writers.ran(seq, maker, (seq,))) == []
    assert list(writers.ran(2000, reader, (1000, 5))) == []
    assert list(writers.ran(2001, reader, (990, 5))) == [(2001, 0, 990)]
    assert list(writers.ran(2002, reader, (1, 5))) == [(2002, 0, UNKNOWN)]


def test_identities_are_those_of_id() -> None:
    first, second = (np.ones(2), object()), (np.zeros(3),)
    expected = [id(item) for item in (*first, *second)]
    for function in (identities, _identities):  # of the native core, and without it
        assert list(memoryview(function(first, second)).cast("Q")) == expected
        assert function((), ()) == b""
