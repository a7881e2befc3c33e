"""Values: the right window at the right moment, from the file or from the stopped program."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nodescope.ir.graph import TensorSpec
from nodescope.link import messages
from nodescope.record.newest.held_values import Held, Whole
from nodescope_server import wire
from nodescope_server.handlers import values
from nodescope_server.runs.runs import Run
from tests.depth import examples
from tests.server.support import Page, Program

NewProgram = Callable[..., Program]


def elements(answer: wire.ValueSlice) -> list[list[float]]:
    _, _, rows, cols = answer.window
    return np.frombuffer(answer.data, "<f8").reshape(rows, cols).tolist()  # type: ignore[no-any-return]


def settled(page: Page, program: Program) -> int:
    """Commit, and wait until a page has received it."""
    seq = program.commit()
    page.subscribe(program.run.id)
    while not page.ask(wire.GetState(program.run.id, seq)).executions.count:
        page.records_until(seq)
    return seq


def test_a_window_of_a_moment(program: Program, page: Page) -> None:
    node = program.define()
    program.execute(node, np.arange(12.0).reshape(3, 4))
    middle = settled(page, program)
    program.execute(node, np.full((3, 4), 7.0))
    program.commit()
    value = node.outputs[0]
    answer = page.ask(wire.GetValue(program.run.id, value, middle, row=1, col=2, rows=5, cols=1))
    assert answer.available
    assert answer.found
    assert answer.reason == ""
    assert answer.seq == middle
    assert answer.window == (1, 2, 2, 1)
    assert answer.grid == (3, 4)
    assert answer.shape == (3, 4)
    assert answer.spec == TensorSpec((3, 4), "float64")
    assert elements(answer) == [[6.0], [10.0]]
    assert answer.summary is not None
    before = page.ask(wire.GetValue(program.run.id, value, 1))
    assert not before.found
    assert "Not computed yet" in before.reason


def test_a_value_that_is_not_kept_says_how_to_keep_it(new_program: NewProgram, page: Page) -> None:
    program = new_program(level="summary")
    node = program.define()
    program.execute(node)
    settled(page, program)
    answer = page.ask(wire.GetValue(program.run.id, node.outputs[0]))
    assert answer.found
    assert answer.summary is not None
    assert not answer.available
    assert answer.data == b""
    assert answer.reason == (
        "Only statistics were kept, at level summary; run with --level values."
    )


@pytest.mark.parametrize("level", ["graph", "timing"])
def test_without_summaries_the_execution_is_still_named(
    new_program: NewProgram, page: Page, level: str
) -> None:
    program = new_program(level=level)
    node = program.define()
    program.execute(node)
    seq = settled(page, program)
    answer = page.ask(wire.GetValue(program.run.id, node.outputs[0]))
    assert (answer.found, answer.seq, answer.summary) == (True, seq, None)
    assert answer.spec is not None
    assert answer.shape == answer.spec.shape == (2, 3)
    assert f"at level {level}" in answer.reason


def answer_live(program: Program, reply: Callable[[messages.ReadLive], Any]) -> threading.Thread:
    """Answer the next question for a live value, in a thread."""

    def run() -> None:
        program.send(reply(program.until(messages.ReadLive)))

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_stopped_program_is_asked_once_for_a_value(new_program: NewProgram, page: Page) -> None:
    program = new_program(level="summary")
    node = program.define()
    array = np.arange(6.0).reshape(2, 3)
    program.execute(node, array)
    seq = settled(page, program)
    info = program.stop_at(node, seq)
    page.wait(wire.SessionChanged, lambda item: item.info == info)
    spec = TensorSpec((2, 3), "float64")
    thread = answer_live(
        program, lambda item: messages.LiveValue(item.request, True, spec, array.tobytes())
    )
    request = wire.GetValue(program.run.id, node.outputs[0])
    assert elements(page.ask(request)) == array.tolist()
    thread.join(60)
    # The server answers from its cache: the program answers only once.
    assert elements(page.ask(request)) == array.tolist()
    # When the program continues, it no longer holds this array.
    info = program.update(wire.SessionInfo("running", info.version + 1))
    page.wait(wire.SessionChanged, lambda item: item.info == info)
    assert not page.ask(request).available


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (lambda n: messages.LiveValue(n, False), "no longer holds it"),
        (
            lambda n: messages.LiveValue(n, True, TensorSpec((9, 9), "float64"), b"12345678"),
            "unreadable value",
        ),
        (lambda n: messages.LiveValue(n, True, TensorSpec((1,), "O"), b"12345678"), "object"),
        (
            lambda n: messages.LiveValue(n, True, TensorSpec((1,), "nonsense"), b""),
            "unreadable value",
        ),
        (lambda n: messages.CommandTaken(n), "another request"),
    ],
)
def test_a_useless_answer_is_reported_as_useless(
    new_program: NewProgram, page: Page, reply: Callable[[int], Any], reason: str
) -> None:
    program = new_program(level="summary")
    node = program.define()
    program.execute(node)
    seq = settled(page, program)
    info = program.stop_at(node, seq)
    page.wait(wire.SessionChanged, lambda item: item.info == info)
    thread = answer_live(program, lambda item: reply(item.request))
    answer = page.ask(wire.GetValue(program.run.id, node.outputs[0]))
    thread.join(60)
    assert not answer.available
    assert reason in answer.reason


@given(
    array=hnp.arrays(
        dtype=st.sampled_from([np.float32, np.int16, np.bool_, np.complex64, np.complex128]),
        shape=hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4),
    ),
    index=st.lists(st.integers(-3, 6), max_size=4).map(tuple),
    where=st.tuples(*[st.integers(0, 5)] * 4),
)
@settings(deadline=None, max_examples=examples(200))
def test_every_element_of_a_window_is_the_one_it_says(
    array: Any, index: tuple[int, ...], where: tuple[int, int, int, int]
) -> None:
    row, col, rows, cols = where
    window, grid, shown = values.cut(array, index, *where)
    assert window.dtype == np.float64
    assert len(shown) == max(array.ndim - 2, 0)
    assert window.shape[0] <= rows
    assert window.shape[1] <= cols
    if 0 in array.shape:
        assert window.size == 0
        return
    assert grid == (1,) * (2 - min(array.ndim, 2)) + array.shape[-2:]
    assert window.shape == (
        max(0, min(rows, grid[0] - row)),
        max(0, min(cols, grid[1] - col)),
    )
    plain = np.abs(array.astype(np.complex128)) if array.dtype.kind == "c" else array
    expected = [
        plain[(*shown, row + i, col + j)[max(2 - array.ndim, 0) if array.ndim < 2 else 0 :]]
        for i in range(window.shape[0])
        for j in range(window.shape[1])
    ]
    np.testing.assert_array_equal(window.ravel(), np.array(expected, np.float64))


def test_a_window_is_bounded(program: Program, page: Page) -> None:
    node = program.define()
    program.execute(node, np.zeros((600, 700)))
    settled(page, program)
    request = wire.GetValue(program.run.id, node.outputs[0], rows=10**9, cols=10**9)
    assert page.ask(request).window == (0, 0, values.MAX_ROWS, values.MAX_COLS)
    outside = wire.GetValue(program.run.id, node.outputs[0], row=10**6, col=-5)
    answer = page.ask(outside)
    assert answer.available
    assert answer.window[2] == 0


def test_elements_that_a_stop_left_behind_are_waited_for(
    new_program: NewProgram, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = new_program(level="summary")
    node = program.define()
    program.execute(node, np.full((2, 3), 5.0))
    seq = settled(page, program)
    program.send(messages.Committed(seq, owes=True))
    asked, whole = threading.Event(), Run.whole

    async def seen(run: Run) -> bool:
        asked.set()
        return await whole(run)

    monkeypatch.setattr(Run, "whole", seen)
    answers: list[Any] = []
    waiting = threading.Thread(
        target=lambda: answers.append(page.ask(wire.GetValue(program.run.id, node.outputs[0])))
    )
    waiting.start()
    assert asked.wait(60)
    late = Held(seq, 0, ((node.outputs[0], np.full((2, 3), 5.0)),), 48)
    program.recorder._note(Whole((late,)), 48, always=True)
    program.commit()
    waiting.join(60)
    assert answers[0].available
    assert elements(answers[0]) == [[5.0] * 3] * 2
