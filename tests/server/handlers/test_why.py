"""Why and what-if over the wire: real recordings, bounded work, other requests meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import nodescope as ns
from nodescope.debug.replay import branch
from nodescope.protocol import SetValue
from nodescope.record import branches as record_branches
from nodescope_server import wire
from nodescope_server.handlers import what_if, why
from nodescope_server.runs import branches
from nodescope_server.runs.runs import Run
from nodescope_server.wire import why_messages
from tests.core.debug.replay.programs import recorded
from tests.core.debug.why import programs
from tests.server.support import Live, Page, nodes_in, serving, values_in


def training() -> None:
    w = ns.parameter(np.array([1.0, -2.0, 3.0]), name="w")
    optimizer = ns.optim.SGD([w], lr=0.1)
    for x in ns.steps([np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.0, -1.0])]):
        a = ns.tensor(x, name="a")
        with ns.name_scope("net"):
            b = w * 2.0
        with ns.name_scope("loss"):
            loss = np.sum(np.square(a * b))
        with ns.name_scope("other"):
            np.maximum(b, 100.0)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


class Opened:
    """A recording that the server knows, and a page."""

    def __init__(self, live: Live, page: Page, path: Path) -> None:
        asyncio.run(live.app.runs.open(path))
        (info,) = live.app.runs.infos()
        self.run: Run = live.app.runs.get(info.id)
        self.id = info.id
        self.page = page
        snapshot = page.subscribe(info.id)
        nodes = [node for _, node in nodes_in(snapshot.nodes)]
        values = values_in(snapshot.values, nodes)
        self.values = {value.value.name: value.value.id for value in values}
        self.nodes = {node.name: node.id for node in nodes}
        self.last = {step.step: step.end_seq for step in snapshot.steps}

    def what_if(self, value: str, step: int = 1, **more: Any) -> Any:
        edit = SetValue(self.values[value], **{"number": 0.0, **more.pop("edit", {})})
        return self.page.ask(why_messages.WhatIf(self.id, self.last[step], edit, **more))


@pytest.fixture
def opened(live: Live, page: Page, tmp_path: Path) -> Callable[..., Opened]:
    return lambda program: Opened(live, page, recorded(tmp_path / "r.nscope", program))


def test_the_chain_of_a_nan_with_its_culprit(opened: Callable[..., Opened]) -> None:
    run = opened(programs.log_of_a_negative)
    request = why_messages.AskWhy(run.id, run.values["loss/mean"], seq=run.last[2])
    result = run.page.ask(request)
    assert isinstance(result, why_messages.WhyAnswer)
    (group,) = result.groups
    assert "log of -" in group.text
    (culprit,) = [link for link in group.links if link.culprit]
    assert (culprit.name, culprit.state, culprit.kind) == ("loss/log", "nan", "birth")
    assert culprit.node == run.nodes["loss/log"]
    assert (culprit.step, "np.log(q)" in culprit.code) == (2, True)
    (operand,) = [value for value in culprit.operands if value.state == "finite"]
    assert float(operand.number) < 0
    assert [link.name for link in group.links][:2] == ["loss/mean", "loss/square"]
    assert all(a.seq >= b.seq for a, b in zip(group.links, group.links[1:], strict=False))
    many = run.page.ask(
        why_messages.AskWhy(run.id, run.values["loss/log"], None, "nan", run.last[2])
    )
    assert many.elements == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": 10**6}, "has not been computed"),
        ({"index": (7, 7)}, "loss/log has shape"),
        ({"which": "odd"}, "no elements are 'odd'"),
        ({"which": "zero"}, "no zero element"),
        ({"seq": -5}, "has not been computed"),
    ],
)
def test_what_cannot_be_answered_is_reported(
    opened: Callable[..., Opened], change: dict[str, Any], message: str
) -> None:
    run = opened(programs.log_of_a_negative)
    fields = {"run": run.id, "value": run.values["loss/log"], **change}
    result = run.page.ask(why_messages.AskWhy(**fields))
    assert isinstance(result, wire.Failed)
    assert message in result.message


def test_a_long_question_is_abandoned_without_delaying_others(
    opened: Callable[..., Opened], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = opened(programs.log_of_a_negative)
    go_on = threading.Event()
    run.run.study.pool.submit(go_on.wait)
    value = run.page.ask(wire.GetValue(run.id, run.values["loss/log"]))
    assert value.available
    go_on.set()
    monkeypatch.setattr(why, "PATIENCE_S", -1.0)
    result = run.page.ask(why_messages.AskWhy(run.id, run.values["loss/log"]))
    assert isinstance(result, wire.Failed)
    assert "gave up after" in result.message


def test_what_nan_did_in_a_step(opened: Callable[..., Opened]) -> None:
    run = opened(programs.log_of_a_negative)
    result = run.page.ask(why_messages.AskSpread(run.id, 2))
    assert isinstance(result, why_messages.SpreadAnswer)
    assert result.births[0].node == run.nodes["loss/log"]
    assert result.births[0].kind == "log of a negative number"
    assert result.births[0].label == "first culprit"
    assert result.births[0].reached.endswith("nodes, the loss among them")
    assert run.page.ask(why_messages.AskSpread(run.id, 1)).touched == 0
    assert "not in the recording" in run.page.ask(why_messages.AskSpread(run.id, 77)).message


def test_a_branch_lists_what_changed_in_the_order_of_the_run(
    opened: Callable[..., Opened],
) -> None:
    run = opened(training)
    result = run.what_if("net/multiply", edit={"how": "scale", "number": 10.0})
    assert isinstance(result, why_messages.BranchAnswer)
    first, *rest = result.changes
    assert (first.name, first.edited, first.node) == (
        "net/multiply", True, run.nodes["net/multiply"],
    )  # fmt: skip
    assert (first.at, first.before, first.after, first.largest) == ((2,), "6", "60", 54.0)
    names = [item.name for item in rest]
    assert names.index("loss/square") < names.index("loss/sum")
    assert "other/maximum" not in names
    assert any(node.phase == "backward" for node in rest)
    assert [item.seq for item in rest] == sorted(item.seq for item in rest)
    loss = rest[names.index("loss/sum")]
    assert loss.new.preview[0] == pytest.approx(100 * loss.old.preview[0])
    assert result.info.name == result.info.edit == "net/multiply times 10"
    assert result.info.changed == len(rest)
    assert "later steps, stay as recorded" in result.redone


def test_a_value_in_a_branch_is_that_of_the_branch(opened: Callable[..., Opened]) -> None:
    run = opened(training)
    branch = run.what_if("net/multiply", edit={"how": "scale", "number": 10.0}).info.id

    def value(name: str, branch: int, step: int = 1) -> Any:
        moment = run.last[step]
        return run.page.ask(wire.GetValue(run.id, run.values[name], moment, branch=branch))

    there, recorded = value("loss/sum", branch), value("loss/sum", 0)
    assert (there.branch, recorded.branch, there.seq) == (branch, 0, recorded.seq)
    assert np.frombuffer(there.data) == pytest.approx(100 * np.frombuffer(recorded.data))
    assert there.summary.preview[0] == np.frombuffer(there.data)[0]
    # The recorded value: the branch does not change it.
    assert value("other/maximum", branch).branch == 0
    assert value("loss/sum", branch, step=2).branch == 0  # The branch ends before step 2.
    run.page.ask(why_messages.DropBranch(run.id, branch))
    assert "deleted" in value("loss/sum", branch).message


def test_why_in_a_branch_leads_to_the_edit(opened: Callable[..., Opened]) -> None:
    run = opened(training)
    branch = run.what_if("net/multiply", edit={"how": "scale", "number": 10.0}).info.id

    def why(name: str, branch: int, step: int = 1) -> Any:
        value, moment = run.values[name], run.last[step]
        return run.page.ask(why_messages.AskWhy(run.id, value, None, "", moment, branch))

    there, recorded = why("loss/sum", branch), why("loss/sum", 0)
    first, end = there.groups[0].links[0], there.groups[0].links[-1]
    assert (there.branch, recorded.branch) == (branch, 0)
    assert first.recorded == recorded.groups[0].links[0].number != first.number
    assert (end.kind, end.name, end.culprit) == ("set", "net/multiply", True)
    assert "of the branch and" in there.groups[0].text
    # A value that does not depend on the edit, and one after the end of the branch.
    assert (why("other/maximum", branch).branch, why("other/maximum", 0).branch) == (0, 0)
    assert why("loss/sum", branch, 2) == why("loss/sum", 0, 2)
    run.page.ask(why_messages.DropBranch(run.id, branch))
    assert "deleted" in why("loss/sum", branch).message


def test_branches_of_branches_are_named_and_deleted(opened: Callable[..., Opened]) -> None:
    run = opened(training)
    first = run.what_if("net/multiply", name="zero").info
    two = run.what_if("loss/square", parent=first.id, edit={"number": 5.0})
    assert [change.name for change in two.changes[:2]] == ["loss/square", "loss/sum"]
    assert two.changes[1].old.preview[0] == 0.0  # The value in the parent branch.
    three = run.what_if("a").info
    run.page.ask(why_messages.RenameBranch(run.id, two.info.id, "  five   everywhere "))
    listed = run.page.ask(why_messages.GetBranches(run.id)).branches
    assert [(item.name, item.parent) for item in listed] == [
        ("zero", 0), ("five everywhere", first.id), ("a set to 0", 0),
    ]  # fmt: skip
    assert "needs a name" in run.page.ask(why_messages.RenameBranch(run.id, first.id, " ")).message
    again = run.page.ask(why_messages.GetBranch(run.id, two.info.id))
    assert again.changes == two.changes
    left = run.page.ask(why_messages.DropBranch(run.id, first.id)).branches
    assert [item.id for item in left] == [three.id]
    assert "deleted" in run.page.ask(why_messages.GetBranch(run.id, first.id)).message
    assert "deleted" in run.what_if("a", parent=first.id).message


def test_a_branch_of_another_step_is_not_a_start(opened: Callable[..., Opened]) -> None:
    run = opened(training)
    first = run.what_if("net/multiply").info
    result = run.what_if("net/multiply", step=2, parent=first.id)
    assert "this branch was run in step 1, and the moment is in step 2" in result.message


def test_a_branch_continues_into_later_steps(opened: Callable[..., Opened]) -> None:
    run = opened(training)
    first = run.what_if("net/multiply", edit={"how": "scale", "number": 10.0}, steps=1)
    assert (first.info.step, first.info.last_step) == (1, 2)
    losses = [change for change in first.changes if change.name == "loss/sum"]
    assert [loss.step for loss in losses] == [1, 2]
    assert losses[1].new.preview[0] != losses[1].old.preview[0]
    assert first.redone.startswith("Re-ran everything that depends on it from step 1 to 2, ")
    assert "later steps" not in first.redone
    whole = run.what_if("net/multiply", edit={"how": "scale", "number": 10.0}, steps=None)
    assert [change.new for change in whole.changes] == [change.new for change in first.changes]
    # A branch from the later step begins with the parent's values of that step.
    two = run.what_if(
        "net/multiply", step=2, parent=first.info.id, edit={"how": "add", "number": 0.0}
    )
    before = next(e for e in first.changes if (e.name, e.step) == ("net/multiply", 2))
    assert two.changes[0].old == before.new


def test_with_many_changes_scalars_are_listed_for_every_step(
    opened: Callable[..., Opened], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = opened(training)
    monkeypatch.setattr(what_if, "MOST_CHANGES", 3)
    result = run.what_if("net/multiply", edit={"how": "scale", "number": 10.0}, steps=None)
    assert [(change.name, change.step) for change in result.changes] == [
        ("net/multiply", 1), ("loss/sum", 1), ("loss/sum", 2),
    ]  # fmt: skip
    assert result.unlisted > 0
    monkeypatch.undo()
    whole = run.what_if("net/multiply", edit={"how": "scale", "number": 10.0}, steps=None)
    assert whole.unlisted == 0
    assert set(result.changed_values) == {(change.node, change.value) for change in whole.changes}


def test_setting_a_value_to_itself_changes_nothing(opened: Callable[..., Opened]) -> None:
    run = opened(training)
    result = run.what_if("net/multiply", edit={"how": "add", "number": 0.0})
    assert (result.info.changed, result.info.blocked) == (0, 0)
    assert result.info.same > 0
    assert [(change.edited, change.differ) for change in result.changes] == [(True, 0)]
    assert result.changed_values == ()


def test_an_edit_that_does_not_fit_is_refused(opened: Callable[..., Opened]) -> None:
    run = opened(training)
    assert "is out of range" in run.what_if("net/multiply", edit={"index": "9"}).message
    assert run.page.ask(why_messages.GetBranches(run.id)).branches == ()


def test_branches_are_bounded_and_none_is_lost(
    opened: Callable[..., Opened], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = opened(training)
    monkeypatch.setattr(branches, "MAX_BRANCHES", 3)
    monkeypatch.setattr(branches, "MAX_BYTES", 1)
    first = run.what_if("a", name="one").info
    two = run.what_if("net/multiply", name="two", parent=first.id)
    assert all(item.branch is None for item in run.run.branches.line(two.info.id))
    # Values that were evicted are computed again, with the same results.
    three = run.what_if("loss/sum", name="three", parent=two.info.id)
    assert three.info.parent == two.info.id
    assert "3 branches are kept" in run.what_if("a").message
    listed = run.page.ask(why_messages.GetBranches(run.id))
    assert [item.name for item in listed.branches] == ["one", "two", "three"]
    assert run.page.ask(why_messages.GetBranch(run.id, two.info.id)) == two


def test_branches_are_kept_in_the_recording(opened: Callable[..., Opened]) -> None:
    first = opened(training)
    left_one = first.what_if("a", name="one")
    two = first.what_if("net/multiply", parent=left_one.info.id, steps=1)
    removed_branch = first.what_if("a", name="gone")
    first.page.ask(why_messages.RenameBranch(first.id, two.info.id, "日本 <b>"))
    first.page.ask(why_messages.DropBranch(first.id, removed_branch.info.id))

    with serving(lost_after_s=0.05) as other, contextlib.closing(Page(other)) as page:
        again = Opened(other, page, Path(first.run.info.recording))
        listed = again.page.ask(why_messages.GetBranches(again.id)).branches
        assert [item.name for item in listed] == ["one", "日本 <b>"]
        result = again.page.ask(why_messages.GetBranch(again.id, two.info.id))
        assert result.changes == two.changes
        assert result.redone == two.redone
        child = again.what_if("loss/sum", parent=left_one.info.id)
        assert child.info.id > two.info.id


def test_a_branch_that_comes_out_otherwise_says_so(opened: Callable[..., Opened]) -> None:
    run = opened(training)
    first = run.what_if("a")
    kept = run.run.branches.get(first.info.id)
    row = msgspec.structs.replace(kept.row, digest=b"other")
    run.run.branches._kept[row.id] = branches.KeptBranch(row)
    result = run.page.ask(why_messages.GetBranch(run.id, row.id))
    assert result.redone.startswith("Recomputed now, it differs")
    assert result.changes == first.changes


def test_where_the_file_cannot_be_written_it_is_reported(
    opened: Callable[..., Opened], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = opened(training)
    monkeypatch.setattr(record_branches, "_PATIENCE_S", 0.05)
    database = sqlite3.connect(run.run.info.recording)
    database.execute("BEGIN EXCLUSIVE")
    try:
        first = run.what_if("a", name="one")
    finally:
        database.close()
    listed = run.page.ask(why_messages.GetBranches(run.id))
    assert [item.id for item in listed.branches] == [first.info.id]
    assert "end with the server" in listed.notes[0]


def test_a_branch_is_bounded(
    opened: Callable[..., Opened], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = opened(training)
    monkeypatch.setattr(branch, "MOST_CHANGED_BYTES", 1)
    monkeypatch.setattr(what_if, "MOST_SUMMARISED", 1)
    result = run.what_if("net/multiply")
    assert [change.name for change in result.changes] == ["net/multiply"]
    assert (result.unlisted, result.info.changed) == (1, 1)
    assert "already take 0 MiB" in result.blocked[0].reason
    assert result.info.blocked == len(result.blocked) > 3


def test_an_edit_on_which_nothing_depends(opened: Callable[..., Opened]) -> None:
    run = opened(training)
    result = run.what_if("other/maximum")
    assert (result.info.changed, len(result.changes)) == (0, 1)
    assert "Nothing recorded" in result.redone
