"""Recurring calls of the native core: whatever is expected next, events are those of Python."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import nodescope as ns
from nodescope import native
from nodescope.ir.identity import Cursor, Entry, Identity, NodeSpec
from tests.core.engine.contents import content
from tests.core.engine.test_native_calls import check_same

CALLS: dict[str, Any] = {
    "add": lambda x, w, number: x + w,
    "add x": lambda x, w, number: x + x,
    "scalar": lambda x, w, number: x * 2.0,
    "other scalar": lambda x, w, number: x * float(number),
    "whole scalar": lambda x, w, number: x * 2,
    "true": lambda x, w, number: np.clip(x, 0, True),
    "one": lambda x, w, number: np.clip(x, 0, 1),
    "minus zero": lambda x, w, number: x + (-0.0 if number % 2 else 0.0),
    "nan": lambda x, w, number: np.nan_to_num(x * float("nan")),
    "axis": lambda x, w, number: x - x.sum(axis=number % 2, keepdims=True),
    "axes": lambda x, w, number: np.transpose(x, (1, 0)),
    "slice": lambda x, w, number: x[number % 2 :][:1] + w,
    "leaf": lambda x, w, number: x + ns.tensor(np.full((3, 3), float(number))),
    "read parameter": lambda x, w, number: w * w,
}


def run(steps: list[list[tuple[str, str]]]) -> list[Any]:
    """Steps of calls, each in a scope."""
    w = ns.parameter(np.arange(9.0).reshape(3, 3), name="w")
    results = []
    for number in ns.steps(range(len(steps))):
        x: Any = w
        for call, scope in steps[number]:
            if scope:
                with ns.name_scope(scope):
                    x = CALLS[call](x, w, number)
            else:
                x = CALLS[call](x, w, number)
        results.append(x)
        if len(steps[number]) % 2:
            x.sum().backward()
            results.append(w.grad)
            w.grad = None
    return results


sequences = st.lists(
    st.tuples(st.sampled_from([*CALLS]), st.sampled_from(["", "a", "b"])), min_size=1, max_size=6
)


@example(kinds=[[("add", "")], [("read parameter", ""), ("add", "")]], order=[0, 0, 1, 0, 1, 0])
@example(kinds=[[("add x", ""), ("add", "")], [("add", "")]], order=[0, 0, 1, 0, 1])
@given(st.lists(sequences, min_size=1, max_size=3), st.lists(st.integers(0, 2), max_size=8))
def test_calls_in_any_order(kinds: list[list[tuple[str, str]]], order: list[int]) -> None:
    """Steps of up to three kinds, in any order, so that they recur, change, and recur again."""
    steps = [kinds[kind % len(kinds)] for kind in order]
    with pytest.MonkeyPatch.context() as patch:
        check_same(lambda: run(steps), patch)


@pytest.mark.parametrize("level", ["timing", "summary", "values"])
def test_recordings_of_numbers_that_change_in_every_step(
    level: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of Adam: at level ``timing``, they are not recorded, and the core runs them."""
    steps = [[(name, "a") for name in ("other scalar", "add", "other scalar", "axis", "add")]] * 5
    with ns.record(tmp_path / "core.nscope", level=level):
        run(steps)
    monkeypatch.setattr(native, "Calls", None)
    with ns.record(tmp_path / "python.nscope", level=level):
        run(steps)
    core, python = content(tmp_path / "core.nscope"), content(tmp_path / "python.nscope")
    for name, rows in python.items():
        assert core[name] == rows, name


def test_threads_that_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads run calls in turn, so that what one expects is what the other does."""

    def program() -> list[Any]:
        w = ns.parameter(np.ones((3, 3)), name="w")
        results: list[Any] = []
        turns = [threading.Semaphore(1), threading.Semaphore(0)]

        def work(index: int) -> None:
            with ns.name_scope(f"worker_{index}"):
                x: Any = w
                for number in range(6):
                    turns[index].acquire()
                    x = x * w + 1.0 if number % 2 else x - w
                    turns[1 - index].release()
            results.append((index, x))

        for _ in ns.steps(range(4)):
            workers = [threading.Thread(target=work, args=(index,)) for index in range(2)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        return [x for _, x in sorted(results, key=lambda result: result[0])]

    check_same(program, monkeypatch)


def test_records_end_with_their_run(tmp_path: Path) -> None:
    def known() -> int:
        gc.collect()
        return sum(isinstance(item, Entry | Cursor) for item in gc.get_objects())

    def record(name: str) -> None:
        with ns.record(tmp_path / name, level="timing"):
            run([[("add", "a"), ("scalar", ""), ("axis", "b"), ("other scalar", "")]] * 4)

    record("first.nscope")  # whose thread keeps its cursors until the next run
    before = known()
    record("second.nscope")
    assert known() <= before


def test_each_change_of_entries_replaces_the_token() -> None:
    identity = Identity()
    tokens = {identity.changed}

    def define(nth: int, inputs: tuple[int, ...], loop: int = 0) -> None:
        spec = NodeSpec(
            op="add", family="elementwise", inputs=inputs, specs=(), attrs={}, scope="",
            phase="forward", source=None, loop=loop,
        )  # fmt: skip
        identity.define(identity.entries("", "add", "forward", loop), nth, spec)

    for change in (
        lambda: define(0, (1,)),
        lambda: define(0, (2,)),
        lambda: define(0, (1,), loop=1),
        lambda: identity.move(1, 2),
        identity.forget_loops,
    ):
        change()
        assert identity.changed not in tokens
        tokens.add(identity.changed)
    define(0, (2,))  # as it is
    assert identity.changed in tokens
