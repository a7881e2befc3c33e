"""One value at two moments, a node's attributes at one, and breakpoints on what is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.protocol import Breakpoint, Continue, Pause, SessionInfo, SetBreakpoints
from nodescope_server import wire
from nodescope_server.handlers import array_diff, value_diff
from nodescope_server.wire import diff_messages as wm
from tests.core.debug.replay.programs import recorded
from tests.server.support import Live, Page, nodes_in, values_in

NAN, INF = float("nan"), float("inf")


def program() -> None:
    rows = [[1.0, 2.0, 3.0, 4.0], [1.0, 2.5, 3.0, 1.0], [1.0, 2.5, NAN, INF]]
    for k, row in enumerate(ns.steps(rows)):
        x = ns.tensor(np.array([row, row]), name="x")
        with ns.name_scope("net"):
            np.multiply(x, 2.0)
            np.sum(x, axis=k % 2)
            np.argmax(x, axis=1)


class Opened:
    """A recording that the server knows, and a page."""

    def __init__(self, live: Live, page: Page, path: Path) -> None:
        asyncio.run(live.app.runs.open(path))
        (info,) = live.app.runs.infos()
        self.id, self.page = info.id, page
        snapshot = page.subscribe(info.id)
        assert snapshot.session is None
        nodes = [node for _, node in nodes_in(snapshot.nodes)]
        values = values_in(snapshot.values, nodes)
        self.values = {value.value.name: value.value.id for value in values}
        self.nodes = {node.name: node.id for node in nodes}
        self.last = {step.step: step.end_seq for step in snapshot.steps}

    def compare(self, name: str, first: int, other: int, **more: Any) -> Any:
        request = wm.CompareMoments(
            self.id, self.values[name], self.last.get(first, first), self.last[other], **more
        )
        return self.page.ask(request)


@pytest.fixture
def opened(live: Live, page: Page, tmp_path: Path) -> Callable[..., Opened]:
    return lambda level="values", of=program: Opened(
        live, page, recorded(tmp_path / "r.nscope", of, level)
    )


def test_all_elements_are_compared(opened: Callable[..., Opened]) -> None:
    run = opened()
    result = run.compare("net/multiply", 1, 2)
    assert isinstance(result, wm.MomentsCompared)
    assert (result.one.step, result.other.step, result.same) == (1, 2, False)
    assert (result.measure.source, result.measure.elements, result.differ) == ("arrays", 8, 4)
    assert (result.measure.max_abs, result.measure.equal) == (6.0, False)
    assert result.first == wm.ElementPair((0, 1), "4", "5")
    assert result.largest == wm.ElementPair((0, 3), "8", "2")
    assert result.difference is not None
    assert (result.difference.min, result.difference.max) == (-6.0, 1.0)
    gap = np.frombuffer(result.data).reshape(result.window[2:])
    np.testing.assert_array_equal(gap, [[0, 1, 0, -6]] * 2)
    part = run.compare("net/multiply", 1, 2, row=1, col=1, rows=1, cols=2)
    assert (part.window, part.grid) == ((1, 1, 1, 2), (2, 4))
    np.testing.assert_array_equal(np.frombuffer(part.data), [1, 0])


def test_nonfinite_elements_are_counted_and_shown(opened: Callable[..., Opened]) -> None:
    result = opened().compare("net/multiply", 2, 3)
    assert (result.differ, result.measure.nan, result.measure.inf) == (4, (0, 2), (0, 2))
    assert result.first == wm.ElementPair((0, 2), "6", "nan")
    assert result.largest is None
    gap = np.frombuffer(result.data).reshape(2, 4)
    np.testing.assert_array_equal(gap[0], [0, 0, NAN, INF])


def test_the_same_execution_and_none_at_all(opened: Callable[..., Opened]) -> None:
    run = opened()
    same = run.compare("net/multiply", 2, 2)
    assert (same.same, same.differ, same.measure.equal) == (True, 0, True)
    none = run.compare("net/multiply", 0, 2)
    assert (none.one.found, none.measure.source) == (False, "none")
    assert "not computed" in none.measure.why
    # Reducing another axis gives another shape.
    other = run.compare("net/sum", 1, 2)
    assert other.measure.why == "the shapes differ: (4,) and (2,)"
    whole = run.compare("net/argmax", 1, 2)
    assert (whole.differ, whole.measure.ulp) == (2, None)


def test_statistics_are_compared_where_no_elements_are(opened: Callable[..., Opened]) -> None:
    result = opened("summary").compare("net/multiply", 1, 2)
    assert (result.measure.source, result.differ, result.difference) == ("summaries", None, None)
    assert result.measure.max_abs == pytest.approx(3.744593)  # The difference of the norms.
    assert not result.one.elements
    assert "run with --level values" in result.one.reason


def test_at_level_timing_it_is_reported(opened: Callable[..., Opened]) -> None:
    result = opened("timing").compare("net/multiply", 1, 2)
    assert (result.measure.source, result.one.step, result.other.step) == ("none", 1, 2)
    assert result.measure.why == "no statistics at one of the moments"


def test_large_arrays_are_compared_by_statistics(
    opened: Callable[..., Opened], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_diff, "MOST_BYTES", 16)
    result = opened().compare("net/multiply", 1, 2)
    assert result.measure.source == "summaries"
    assert "statistics are compared" in result.other.reason


@pytest.mark.parametrize(
    ("first", "other", "expected"),
    [
        ([INF, NAN, 1.0], [INF, NAN, 3.0], [0, 0, 2]),
        ([1, 2], [4, 0], [3, -2]),
        ([True, False], [True, True], [0, 1]),
        ([3 + 4j], [0j], [5]),
        ([1.0], [1.0, 2.0], None),
        (["a"], ["b"], None),
    ],
)
def test_subtracted(first: Any, other: Any, expected: Any) -> None:
    result = array_diff.subtracted(np.array(first), np.array(other))
    if expected is None:
        assert result is None
    else:
        np.testing.assert_array_equal(result, expected)  # type: ignore[arg-type]


def test_attributes_are_those_of_the_execution(opened: Callable[..., Opened]) -> None:
    run = opened()
    node = run.nodes["net/sum"]
    attributes = [
        run.page.ask(wm.GetAttributes(run.id, node, run.last[step])) for step in (1, 2, 3)
    ]
    assert [(n.step, n.attrs["axis"], n.changed) for n in attributes] == [
        (1, 0, {}), (2, 1, {"axis": 0}), (3, 0, {}),
    ]  # fmt: skip
    assert run.page.ask(wm.GetAttributes(run.id, node, 0)).step == 0
    assert run.page.ask(wm.GetAttributes(run.id, 999)).attrs == {}


def test_memory_is_that_of_the_step(opened: Callable[..., Opened]) -> None:
    run = opened()
    node = run.nodes["net/sum"]
    memory = run.page.ask(wm.GetMemory(run.id, node, 2))
    assert 0 < memory.live <= memory.peak
    assert memory.peak_node in run.nodes.values()
    assert run.page.ask(wm.GetMemory(run.id, node, 999)).live is None


def test_statistics_are_those_of_the_moment(opened: Callable[..., Opened]) -> None:
    run = opened("summary")

    def at(step: int | None) -> dict[int, tuple[float, float, float]]:
        statistics = run.page.ask(
            wm.GetStatistics(run.id, None if step is None else run.last[step])
        )
        ids = np.frombuffer(statistics.values, "<u4")
        columns = (statistics.elements, statistics.zeros, statistics.norms)
        rows = np.stack([np.frombuffer(column, "<f8") for column in columns], axis=1)
        assert len(rows) == statistics.count
        return {int(value): tuple(row) for value, row in zip(ids, rows, strict=True)}

    doubled, largest = run.values["net/multiply"], run.values["net/argmax"]
    assert at(1)[doubled] == pytest.approx((8, 0, np.sqrt(240)))
    assert at(2)[doubled] == pytest.approx((8, 0, np.sqrt(2 * (4 + 25 + 36 + 4))))
    # Only finite elements count.
    assert at(None)[doubled] == pytest.approx((8, 0, np.sqrt(2 * (4 + 25))))
    assert at(1)[largest] == pytest.approx((2, 0, np.sqrt(18)))
    assert at(2)[largest][:2] == (2, 0)
    assert run.page.ask(wm.GetStatistics(run.id, 0)).count == 0


def breakpoints(page: Page, run: str, *wanted: Breakpoint) -> Any:
    return page.ask(wire.Control(run, SetBreakpoints(wanted)))


def test_breakpoints_are_set_on_a_recording_and_found(opened: Callable[..., Opened]) -> None:
    run = opened()
    wanted = Breakpoint("node", "net/multiply", condition="max(value) < 7")
    assert breakpoints(run.page, run.id, wanted) == wire.Done()
    session: SessionInfo = run.page.wait(wire.SessionChanged).info
    (status,) = session.breakpoints
    assert (session.phase, status.breakpoint.id, status.verified) == ("finished", 1, True)
    result = run.page.ask(wire.Move(run.id, 0, Continue(), back=False))
    assert (result.node, result.step) == (run.nodes["net/multiply"], 2)
    assert "net/multiply, step 2: breakpoint net/multiply if max(value) < 7" in result.text
    # A page that connects later gets the kept breakpoints; a new list replaces all of them.
    assert run.page.subscribe(run.id).session == session
    breakpoints(run.page, run.id, status.breakpoint, Breakpoint("op", "summ"))
    session = run.page.wait(wire.SessionChanged).info
    assert [item.breakpoint.id for item in session.breakpoints] == [1, 2]
    assert not session.breakpoints[1].verified
    assert "sum" in session.breakpoints[1].message
    breakpoints(run.page, run.id)
    assert run.page.wait(wire.SessionChanged).info.breakpoints == ()


def test_breakpoints_on_a_recording_are_checked_like_live_ones(
    opened: Callable[..., Opened],
) -> None:
    run = opened()
    wrong = breakpoints(run.page, run.id, Breakpoint("node", "net/sum", condition="max(valu) > 1"))
    assert isinstance(wrong, wire.Failed)
    assert "valu" in wrong.message
    late = breakpoints(run.page, run.id, Breakpoint("node", "x", when="before", condition="value"))
    assert isinstance(late, wire.Failed)
    paused = run.page.ask(wire.Control(run.id, Pause()))
    assert "not connected" in paused.message


def test_a_condition_that_cannot_be_evaluated_is_reported(opened: Callable[..., Opened]) -> None:
    def large() -> None:
        for number in ns.steps([1.0, 2.0, 3.0]):
            np.multiply(ns.tensor(np.full(9, number), name="x"), 2.0)

    run = opened("summary", large)
    breakpoints(run.page, run.id, Breakpoint("op", "multiply", condition="mean(value) > 0"))
    result = run.page.ask(wire.Move(run.id, 0, Continue(), back=False))
    assert result.seq is None
    assert "breakpoint op:multiply if mean(value) > 0 could not be evaluated 3 times" in result.text
    # Conditions that statistics can answer are evaluated.
    breakpoints(run.page, run.id, Breakpoint("op", "multiply", condition="max(value) > 3"))
    result = run.page.ask(wire.Move(run.id, 0, Continue(), back=False))
    assert "At multiply, step 2" in result.text
