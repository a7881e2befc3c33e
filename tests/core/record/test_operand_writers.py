"""Operand writers: which execution wrote what another read, compared with the program."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodescope.ir.graph import Node
from nodescope.native import _identities, identities
from nodescope.record.operand_writers import UNKNOWN, PythonWriters, operand_writers
from tests.depth import examples

ROOT = Path(__file__).parents[3]


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_every_operand_is_the_array_that_was_read() -> None:
    """In a process of its own: a write to a tensor that has views looks at every object there is,
    and pytest has many.
    """
    command = [sys.executable, "-m", "tests.core.record.operand_programs", str(examples(60))]
    subprocess.run(command, check=True, timeout=500, cwd=ROOT)


both = pytest.mark.parametrize("make", [operand_writers, PythonWriters])


def node(id: int, inputs: tuple[int, ...] = (), outputs: tuple[int, ...] = ()) -> Node:
    return Node(id, f"n{id}", "add", "elementwise", inputs=inputs, outputs=outputs)


@both
def test_the_latest_is_not_noted_and_an_earlier_one_is(make: Callable[[], Any]) -> None:
    writers = make()
    maker, reader = node(1, outputs=(1,)), node(2, inputs=(1,), outputs=(2,))
    assert list(writers.ran(1, maker, (100,))) == []
    assert list(writers.ran(2, reader, (100, 900))) == []
    assert list(writers.ran(3, maker, (101,))) == []
    assert list(writers.ran(4, reader, (100, 901))) == [(4, 0, 1)]
    assert list(writers.ran(5, reader, (101, 900))) == []
    assert list(writers.failed(6, reader, (100,))) == [(6, 0, 1)]


@both
def test_an_identity_that_is_used_again_is_of_the_last_one(make: Callable[[], Any]) -> None:
    writers = make()
    maker, reader = node(1, outputs=(1,)), node(2, inputs=(1,), outputs=(2,))
    for seq, array in ((1, 100), (2, 101), (3, 100)):
        assert list(writers.ran(seq, maker, (array,))) == []
    assert list(writers.ran(4, reader, (100, 900))) == []
    assert list(writers.ran(5, reader, (101, 901))) == [(5, 0, 2)]


@both
def test_unknowns_are_reported_as_unknown(make: Callable[[], Any]) -> None:
    writers = make()
    maker, reader = node(1, outputs=(1,)), node(2, inputs=(1,), outputs=(2,))
    assert list(writers.ran(1, maker, (100,))) == []
    assert list(writers.ran(2, reader, (555, 900))) == [(2, 0, UNKNOWN)]
    writers.moved(1, 100, 555)
    assert list(writers.ran(3, reader, (555, 900))) == []
    writers.edited(1, 4)  # The edited value is in an array that was not seen.
    assert list(writers.ran(5, reader, (777, 900))) == []


@both
def test_the_table_of_writers_is_bounded(make: Callable[[], Any]) -> None:
    writers = make()
    maker, reader = node(1, outputs=(1,)), node(2, inputs=(1,), outputs=(2,))
    for seq in range(1, 1001):
        assert list(writers.ran(seq, maker, (seq,))) == []
    assert list(writers.ran(2000, reader, (1000, 5))) == []
    assert list(writers.ran(2001, reader, (990, 5))) == [(2001, 0, 990)]
    assert list(writers.ran(2002, reader, (1, 5))) == [(2002, 0, UNKNOWN)]


@both
def test_nodes_may_be_defined_again_and_again(make: Callable[[], Any]) -> None:
    writers = make()
    maker, first = node(1, outputs=(1,)), node(2, inputs=(1,), outputs=(2,))
    held = sys.getrefcount(first)
    assert list(writers.ran(1, maker, (100,))) == []
    assert list(writers.ran(2, first, (100, 900))) == []
    assert list(writers.ran(3, maker, (101,))) == []
    for seq in range(4, 20_000):
        again = node(2, inputs=(1,), outputs=(seq,))
        assert list(writers.ran(seq, again, (100, 1000 + seq))) == [(seq, 0, 1)]
    assert sys.getrefcount(first) == held  # not all of them are kept


_NUMBERS = st.integers(1, 5)
_TOLD = st.lists(
    st.one_of(
        st.tuples(st.just("ran"), _NUMBERS, st.lists(st.integers(100, 112), max_size=4)),
        st.tuples(st.just("failed"), _NUMBERS, st.lists(st.integers(100, 104), max_size=3)),
        st.tuples(st.just("edited"), _NUMBERS, st.just([])),
        st.tuples(st.just("moved"), _NUMBERS, st.tuples(*[st.integers(100, 112)] * 2).map(list)),
    ),
    max_size=200,
)  # fmt: skip


@given(_TOLD)
def test_the_core_finds_the_writers_that_python_finds(
    told: list[tuple[str, int, list[int]]],
) -> None:
    nodes = [
        node(1, outputs=(1,)), node(2, (1,), (2,)), node(3, (1, 2), (3,)), node(4, (3, 1), (4, 5)),
        Node(5, "other", "add", "elementwise", inputs=(1,), outputs=(2,), dialect="torch"),
    ]  # fmt: skip
    pair = operand_writers(), PythonWriters()
    for seq, (what, number, arrays) in enumerate(told, 1):
        results = []
        for writers in pair:
            if what in ("ran", "failed"):
                results.append(list(getattr(writers, what)(seq, nodes[number - 1], arrays)))
            elif what == "edited":
                results.append(writers.edited(number, seq))
            else:
                results.append(writers.moved(number, *arrays))
        assert results[0] == results[1]


def test_a_batch_gives_the_writers_of_single_executions() -> None:
    rng = np.random.default_rng(0)
    makers = [node(k, (k - 1,) if k > 1 else (), (k,)) for k in range(1, 5000)]
    for _ in range(2):
        ran = [makers[k] for k in rng.integers(0, len(makers), 20_000)]
        seqs = np.arange(1, len(ran) + 1)
        counts = np.array([len(one.inputs) + 1 for one in ran])
        counts[::50] = 0  # No operands are known for these.
        ids = rng.integers(1, 30, counts.sum()).astype(np.uint64)
        moves = np.column_stack(
            [np.sort(rng.integers(0, len(ran) + 1, 900)), rng.integers(1, 5000, 900),
             *rng.integers(1, 30, (2, 900))]
        )  # fmt: skip
        singly, at, expected = PythonWriters(), 0, []
        for place, (one, count) in enumerate(zip(ran, counts.tolist(), strict=True)):
            for move in moves[moves[:, 0] == place].tolist():
                singly.moved(*move[1:])
            expected += singly.ran(place + 1, one, ids[at : at + count].tolist())
            at += count
        for writers in (operand_writers(), PythonWriters()):
            assert writers.many_ran(seqs, ran, counts, ids, moves.tolist()) == expected
        assert len(expected) > 1000


def test_identities_are_those_of_id() -> None:
    first, second = (np.ones(2), object()), (np.zeros(3),)
    expected = [id(item) for item in (*first, *second)]
    # The function of the native core, and the one in Python.
    for function in (identities, _identities):
        assert list(memoryview(function(first, second)).cast("Q")) == expected
        assert function((), ()) == b""
