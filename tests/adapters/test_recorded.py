"""Recordings of each adapter: the page's model, *why*, *what-if*, and earlier steps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from nodescope.debug.history.history import History, nothing
from nodescope.debug.replay import Replay, dialects
from nodescope.debug.watch.offline import Asking
from nodescope.debug.watch.watch import parse_watch
from nodescope.debug.why import render, render_spread, spread, why
from nodescope.errors import ReplayError
from nodescope.export import export
from nodescope.protocol import SetValue
from nodescope.record.recording import Recording
from nodescope_server import wire
from nodescope_server.wire import why_messages
from tests.adapters.cases import ROWS, WEIGHTS, Case
from tests.adapters.driving import recorded
from tests.adapters.foreign.rerun import RERUN
from tests.adapters.test_conformance import nodes_of
from tests.core.debug.replay.checking import check
from tests.server.support import Page, nodes_in, seqs, serving, values_in


class Opened:
    """A recording opened by a server, and a page showing it."""

    def __init__(self, page: Page, run: str) -> None:
        self.page, self.run = page, run
        self.snapshot = page.subscribe(run)
        self.nodes = [node for _, node in nodes_in(self.snapshot.nodes)]
        self.by_op = {node.op: node for node in reversed(self.nodes)}
        self.values = {
            row.value.id: row.value for row in values_in(self.snapshot.values, self.nodes)
        }


@pytest.fixture
def opened(case: Case, tmp_path: Path) -> Iterator[Opened]:
    """The program with a gradient, recorded with all values and opened in a page."""
    path = tmp_path / "run.nscope"
    recorded(path, case.differentiate, level="values")
    with serving() as live:
        # On another thread, since this one may have the event loop of an open browser.
        with ThreadPoolExecutor(1) as aside:
            aside.submit(asyncio.run, live.app.runs.open(path)).result()
        (info,) = live.app.runs.infos()
        page = Page(live)
        yield Opened(page, info.id)
        page.close()


def test_the_pages_model(case: Case, opened: Opened) -> None:
    snapshot = opened.snapshot
    assert [framework.dialect for framework in snapshot.run.frameworks] == [case.dialect]
    product, bend = opened.by_op[case.product], opened.by_op[case.bend]
    assert product.dialect == case.dialect
    assert bend.inputs == product.outputs
    assert opened.values[product.outputs[0]].spec.shape == (4, 3)
    assert len(seqs(snapshot.executions)) == len({node.id for node in opened.nodes})
    assert snapshot.dropped.summaries == 0
    weight, paired = opened.by_op[case.weight], {row.value for row in snapshot.gradients}
    assert paired.isdisjoint(weight.outputs) != case.capabilities.gradients
    assert not [node for node in opened.nodes if node.phase == "backward" and not node.forward]


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
    weights = opened.by_op[case.weight].outputs[0]
    edit = SetValue(weights, "scale", 2.0)
    answer = opened.page.ask(why_messages.WhatIf(opened.run, None, edit))
    assert isinstance(answer, why_messages.BranchAnswer)
    if opened.snapshot.run.frameworks[0].capabilities.rerun == "none":
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
        checked = check(replay)
        assert checked.differences == ()
        assert bool(checked.compared) != bool(checked.missing)


def test_what_cannot_be_run_again_is_refused(distant: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    for level in ("graph", "timing", "summary"):
        recorded(path, lambda: distant.loop(1), level=level)
        with Recording.open(path) as recording:
            product = nodes_of(recording)[distant.product]
            with pytest.raises(ReplayError) as refused:
                Replay(recording).value(product.outputs[0])
        # The message says what is wrong, why, and how to go on.
        assert f"{product.name}: distant::{distant.product} cannot be run again" in str(
            refused.value
        )
        assert "distant" in refused.value.message
        assert "--level values" in refused.value.hint


@pytest.fixture
def rerun(distant: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the foreign library run its operations again."""
    monkeypatch.setitem(dialects._known, distant.dialect, RERUN)


def test_values_that_were_not_kept_are_computed_again(
    distant: Case, rerun: None, tmp_path: Path
) -> None:
    path = tmp_path / "run.nscope"
    select = [f"op:{distant.bend}=summary", f"op:{distant.written}=summary"]
    recorded(path, lambda: distant.loop(3), level="values", select=select)
    with Recording.open(path) as recording:
        bend = nodes_of(recording)[distant.bend].outputs[0]
        replay = Replay(recording)
        value = replay.value(bend)
        assert value.how == "recomputed"
        np.testing.assert_allclose(value.array, distant.loop(3))
        assert check(replay).missing == {}


def test_what_if_in_another_library(distant: Case, rerun: None, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, distant.write, level="values")
    with Recording.open(path) as recording:
        by_op = nodes_of(recording)
        weights = by_op["parameter"].outputs[0]
        branch = Replay(recording).what_if({weights: np.zeros((3, 3))})
        assert branch.blocked == ()
        written = branch.value(by_op[distant.written].outputs[0])
        assert written is not None
        np.testing.assert_allclose(written.new, np.full((3, 3), 0.1))


def test_why_in_another_library(distant: Case, rerun: None, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, lambda: distant.loop(2), level="values")
    with Recording.open(path) as recording:
        by_op = nodes_of(recording)
        bend = why(recording, by_op[distant.bend].outputs[0], (1, 2)).root
        assert [operand.at for operand in bend.operands] == [(1, 2)]
        assert bend.words.endswith("(found by running distant::warp on other numbers)")
        product = bend.causes[0]
        assert product.words.startswith("frobnicate of 3 terms")
        assert {operand.at[0] for operand in product.operands if operand.port == 0} == {1}
        assert {operand.at[1] for operand in product.operands if operand.port == 1} == {2}


def test_why_where_nothing_can_be_run_again(distant: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, lambda: distant.loop(1), level="values")
    with Recording.open(path) as recording:
        bend = why(recording, nodes_of(recording)[distant.bend].outputs[0], (1, 2)).root
        assert bend.kind == "computed"
        assert bend.words == (
            "warp of 12 elements (distant::warp cannot be run again, so it is not known which "
            "elements matter)"
        )
        assert bend.culprit().kind == "leaf"


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
        result = spread(recording)
        assert [born.node for born in result.births] == [case.overflowing]


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


@pytest.mark.needs("gradients")
def test_the_loss_is_what_a_backward_pass_begins_with(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, case.differentiate)
    with Recording.open(path) as recording:
        asking = Asking(recording, [parse_watch("loss_not_falling")])
        assert list(asking) == []
        assert [outcome.values for outcome in asking.coverage().outcomes] == [1]


def test_exported(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, case.differentiate)
    export(path, tmp_path / "run.dot")
    assert case.product_name in (tmp_path / "run.dot").read_text()
