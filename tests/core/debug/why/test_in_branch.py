"""Why in a what-if branch: its values are traced back to the edit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.debug.replay import Branch, Replay
from nodescope.debug.why import Why, render, why
from nodescope.errors import ReplayError
from nodescope.record.recording import Recording


def recorded(path: Path, *, compiled: bool = False) -> Recording:
    rng = np.random.default_rng(0)
    with ns.record(path, level="values"):
        w = ns.parameter(rng.normal(size=(4, 3)), name="w")
        optimizer = ns.optim.SGD([w], lr=0.1)

        def score(h: ns.Tensor) -> ns.Tensor:
            return np.mean(np.log(np.square(h) + 1.0))

        loss_of = ns.compile(score) if compiled else score
        for x in ns.steps([rng.normal(size=(5, 4)) for _ in range(3)]):
            h = np.tanh(ns.tensor(x, name="x") @ w)
            loss = loss_of(h)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return Recording.open(path)


class Asked:
    """A branch of step 2 in which one element of tanh is 3, and queries about it."""

    def __init__(self, recording: Recording, until_step: int = 2) -> None:
        self.recording = recording
        self.replay = Replay(recording, 2)
        self.ids = {name: value for value, name in self.replay.book.values.items()}
        array = self.replay.value(self.ids["tanh"]).array.copy()
        array[1, 1] = 3.0
        until = self.replay.book.step_range(until_step)[1]
        self.branch: Branch = self.replay.what_if({self.ids["tanh"]: array}, until=until)

    def why(
        self, name: str, index: object = None, step: int = 2, within: Branch | None = None
    ) -> Why:
        replay = Replay(self.recording, step, book=self.replay.book)
        branch = within or self.branch
        return why(
            self.recording, self.ids[name], index, seq=replay.last, replay=replay, branch=branch
        )


def test_a_value_of_a_branch_is_led_back_to_the_edit(tmp_path: Path) -> None:
    asked = Asked(recorded(tmp_path / "r.nscope"))
    answer = asked.why("mean")
    root, culprit = answer.root, answer.culprit
    change = asked.branch.value(asked.ids["mean"])
    assert change is not None
    assert (root.number, root.recorded, root.how) == (change.new, change.old, "in the branch")
    assert [link.name for link in root.chain()] == ["mean", "log", "add", "square", "tanh"]
    assert (culprit.kind, culprit.at, culprit.number) == ("set", (1, 1), 3.0)
    text = render(answer)
    assert "of the branch and 0.2542 as recorded: it differs because of tanh at [1, 1]" in text
    assert "set in this branch; it was -0.04473 before" in text
    # Without an index, the question is about the element that the branch changed most, not the
    # largest.
    assert asked.why("log").root.at == (1, 1)


def test_what_a_branch_leaves_alone_is_explained_as_recorded(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "r.nscope")
    asked = Asked(recording)
    for name, index in (("matmul", None), ("tanh", (0, 0)), ("log", (0, 0))):
        moment = Replay(recording, 2).last
        there = asked.why(name, index)
        plain = why(recording, asked.ids[name], index, seq=moment)
        assert [link.words for link in there.root.chain()] == [
            link.words for link in plain.root.chain()
        ]
        assert there.culprit == plain.culprit
    # The branch ends before step 3.
    assert asked.why("mean", step=3).root.recorded is None


def test_later_steps_lead_back_through_the_weights(tmp_path: Path) -> None:
    asked = Asked(recorded(tmp_path / "r.nscope"), until_step=3)
    answer = asked.why("mean", step=3)
    chain = answer.root.chain()
    assert (answer.culprit.kind, answer.culprit.step) == ("set", 2)
    assert all(link.recorded is not None for link in chain)
    assert "w" in {link.name for link in chain}


def test_inside_a_kernel_what_differs_is_followed(tmp_path: Path) -> None:
    asked = Asked(recorded(tmp_path / "r.nscope", compiled=True))
    name = next(name for name in asked.ids if "fused" in name or name.endswith("mean"))
    answer = asked.why(name)
    assert (answer.culprit.kind, answer.culprit.name) == ("set", "tanh")


def test_an_edit_of_an_edit_and_what_could_not_be_computed(tmp_path: Path) -> None:
    asked = Asked(recorded(tmp_path / "r.nscope"))
    array = asked.branch.overlay[(asked.ids["tanh"], asked.branch.changes[0].seq)].copy()
    array[2, 2] = 5.0
    child = asked.replay.what_if({asked.ids["tanh"]: array}, parent=asked.branch.name)
    for at, number in (((1, 1), 3.0), ((2, 2), 5.0)):
        root = asked.why("tanh", at, within=child).root
        assert (root.kind, root.number) == ("set", number)
    log = asked.branch.changes[-1]
    stuck = {(log.value, log.seq): "its operands are lost"}
    overlay = {key: array for key, array in asked.branch.overlay.items() if key not in stuck}
    broken = Branch("b", 2, None, asked.branch.until, (), (), (), overlay, stuck)
    name = next(name for name, value in asked.ids.items() if value == log.value)
    with pytest.raises(ReplayError, match="the branch could not compute it: its operands are lost"):
        asked.why(name, within=broken)
