"""What is made of a recording of each adapter: the page's model, *why*, *what if*, looking back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nodescope.debug.history.history import History, nothing
from nodescope.debug.replay import Replay
from nodescope.debug.watch.offline import Asking
from nodescope.debug.watch.watch import parse_watch
from nodescope.debug.why import render, render_spread, spread, why
from nodescope.export import export
from nodescope.protocol import SetValue
from nodescope.record.recording import Recording
from nodescope_server import wire
from nodescope_server.wire import why_messages
from tests.adapters.cases import ROWS, WEIGHTS, Case
from tests.adapters.driving import recorded
from tests.adapters.test_conformance import nodes_of
from tests.server.support import Page, seqs, serving


class Opened:
    """A recording that a server knows, and a page of it."""

    def __init__(self, page: Page, run: str) -> None:
        self.page, self.run = page, run
        self.snapshot = page.subscribe(run)
        self.by_op = {node.op: node for node in reversed(self.snapshot.nodes)}
        self.values = {row.value.id: row.value for row in self.snapshot.values}


@pytest.fixture
def opened(case: Case, tmp_path: Path) -> Iterator[Opened]:
    """The gradient of each library, recorded whole and opened in a page."""
    path = tmp_path / "run.nscope"
    recorded(path, case.differentiate, level="values")
    with serving() as live:
        asyncio.run(live.app.runs.open(path))
        (info,) = live.app.runs.infos()
        page = Page(live)
        yield Opened(page, info.id)
        page.close()


def test_the_pages_model(case: Case, opened: Opened) -> None:
    snapshot = opened.snapshot
    assert snapshot.run.framework == case.dialect
    product, bend = opened.by_op[case.product], opened.by_op[case.bend]
    assert product.dialect == case.dialect
    assert bend.inputs == product.outputs
    assert opened.values[product.outputs[0]].spec.shape == (4, 3)
    assert len(seqs(snapshot.executions)) == len({node.id for node in snapshot.nodes})
    assert snapshot.dropped.summaries == 0
    assert {row.value for row in snapshot.gradients} & set(opened.by_op["parameter"].outputs)
    assert not [row for row in snapshot.nodes if row.phase == "backward" and not row.forward]


def test_a_window_of_a_value(case: Case, opened: Opened) -> None:
    value = opened.by_op[case.product].outputs[0]
    part = opened.page.ask(wire.GetValue(opened.run, value, row=1, col=1, rows=2, cols=2))
    assert part.available
    assert part.window == (1, 1, 2, 2)
    shown = np.frombuffer(part.data, "<f8").reshape(2, 2)
    np.testing.assert_allclose(shown, (ROWS @ WEIGHTS)[1:3, 1:3])


def test_why_over_the_wire(case: Case, opened: Opened) -> None:
    value = opened.by_op[case.bend].outputs[0]
    answer = opened.page.ask(why_messages.AskWhy(opened.run, value, (1, 2)))
    assert isinstance(answer, why_messages.WhyAnswer)
    assert not isinstance(opened.page.ask(why_messages.AskSpread(opened.run, 0)), wire.Failed)


def test_what_if_over_the_wire(case: Case, opened: Opened) -> None:
    weights = opened.by_op["parameter"].outputs[0]
    edit = SetValue(weights, "scale", 2.0)
    answer = opened.page.ask(why_messages.Fork(opened.run, None, edit))
    assert isinstance(answer, why_messages.BranchAnswer)
    if opened.snapshot.run.capabilities.rerun == "none":
        assert answer.blocked[0].node == opened.by_op[case.product].id
        assert "cannot be run again" in answer.blocked[0].reason
    else:
        assert not answer.blocked


def test_replay_gives_what_is_recorded(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, case.write, level="values")
    with Recording.open(path) as recording:
        replay = Replay(recording)
        for row in recording.values():
            assert replay.value(row.value.id).how == "recorded"
        checked = replay.check()
        assert checked.differences == ()
        assert bool(checked.compared) != bool(checked.missing)


@pytest.mark.parametrize("which", ["differentiate", "write", "view", "select", "overflow", "train"])
def test_why_and_spread_answer_for_every_value(case: Case, tmp_path: Path, which: str) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, getattr(case, which), level="values")
    with Recording.open(path) as recording:
        for row in recording.values():
            assert render(why(recording, row.value.id))
        assert render_spread(spread(recording))


def test_why_names_the_node_that_made_an_infinity(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, case.overflow, level="values")
    with Recording.open(path) as recording:
        value = nodes_of(recording)[case.overflowing].outputs[0]
        answer = why(recording, value, "inf")
        assert answer.culprit.name == case.overflowing
        assert answer.culprit.number == np.inf
        found = spread(recording)
        assert [born.node for born in found.births] == [case.overflowing]


def test_looking_back(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, lambda: case.loop(3), level="values")
    with Recording.open(path) as recording:
        history = History(recording)
        history.refresh()
        moments = list(history.backwards(recording.last_seq() + 1))
        assert [moment.node.op for moment in moments] == [case.bend, case.product] * 3
        x = np.tanh(ROWS @ WEIGHTS)
        for moment in reversed(moments[:-2]):
            data = history.inputs(moment, nothing)[0].array
            if moment.node.op == case.product:
                np.testing.assert_allclose(data, x)
                x = np.tanh(x @ WEIGHTS)


def test_watches_of_a_recording(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, case.overflow)
    with Recording.open(path) as recording:
        hits = list(Asking(recording, [parse_watch("tensor_overflow")]))
        assert case.overflowing in [hit.node_name for hit in hits]


def test_exported(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, case.differentiate)
    export(path, tmp_path / "run.dot")
    assert case.product in (tmp_path / "run.dot").read_text()
