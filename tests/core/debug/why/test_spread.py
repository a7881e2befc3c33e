"""Spread: the first culprit of a step, how far it got, and where it healed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import nodescope as ns
from nodescope.debug.why import render, render_spread, spread, why
from nodescope.debug.why.rendering import others_words
from nodescope.record.recording import Recording
from tests.core.debug.replay.programs import recorded
from tests.core.debug.why import programs as broken


def test_a_log_of_a_negative_and_how_far_it_got(tmp_path: Path) -> None:
    with Recording.open(recorded(tmp_path / "r.nscope", broken.log_of_a_negative)) as recording:
        assert spread(recording, 1).births == ()
        result = spread(recording, 2)
        first = result.births[0]
        assert (first.node, first.kind, first.at) == (
            "loss/log",
            "log of a negative number",
            (4, 0),
        )
        assert first.ranges == ("loss/subtract ranges from -3.196 to 1.223 (4 negative of 20)",)
        assert first.reached == result.touched - 1
        assert [event.node for event in result.passed][:2] == ["loss/square", "loss/mean"]
        assert result.passed[0].sources == ("loss/log",)
        # In step 2 the parameter brings the NaN in, and no NaN is born.
        after = spread(recording, 3)
        assert after.births == ()
        assert after.passed[0].node == "w"
        text = render_spread(result)
        assert "first culprit: loss/log at [4, 0]" in text
        assert "spread to loss/mean from loss/square" in text


def test_operations_that_remove_nan_are_listed(tmp_path: Path) -> None:
    def program() -> None:
        x = ns.tensor(np.array([0.0, 4.0]))
        bad = x / x
        np.nan_to_num(bad)
        np.where(np.isnan(bad), 0.0, bad)
        np.fmax(bad, 1.0)
        bad[1]
        np.zeros_like(bad)  # zeros_like does not read the elements.

    with Recording.open(recorded(tmp_path / "r.nscope", program)) as recording:
        result = spread(recording)
    assert [(event.node, event.sources) for event in result.healed] == [
        ("nan_to_num", ("divide",)),
        ("isnan", ("divide",)),
        ("where", ("divide",)),
        ("fmax", ("divide",)),
        ("getitem", ("divide",)),
    ]
    assert (result.births[0].node, result.births[0].kind) == ("divide", "0/0")
    assert result.births[0].reached == 0
    text = render_spread(result)
    assert others_words(result.births) == ""
    assert others_words([result.births[0]] * 3) == "2 further origins, all of them healed"
    assert "healed: divide at [0]" in text
    assert "    it reached no other node: it was healed by nan_to_num, isnan, where" in text
    assert "culprit" not in text
    assert "healed by where: where does not select those elements" in render_spread(result)


def test_a_number_of_the_program_is_not_the_first_culprit(tmp_path: Path) -> None:
    with Recording.open(recorded(tmp_path / "r.nscope", broken.masked_softmax)) as recording:
        result = spread(recording)
    assert [(birth.node, birth.kind) for birth in result.births] == [
        ("attention/softmax", "softmax of all -inf"),
        ("attention/where", "number"),
    ]


def test_data_that_holds_nan_already(tmp_path: Path) -> None:
    with Recording.open(
        recorded(tmp_path / "r.nscope", lambda: np.exp(ns.tensor([1.0, np.nan])))
    ) as recording:
        result = spread(recording)
    assert (result.births[0].kind, result.births[0].reached) == ("data", 1)


def test_a_birth_beside_what_came_in(tmp_path: Path) -> None:
    def program() -> None:
        np.log(ns.tensor(np.array([np.nan, 1.0, -1.0]), name="x"))

    with Recording.open(recorded(tmp_path / "r.nscope", program)) as recording:
        result = spread(recording)
    assert [(birth.node, birth.at) for birth in result.births] == [("x", None), ("log", (2,))]


def test_statistics_are_enough_to_name_the_node(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.nscope", broken.log_of_a_negative, level="summary")
    with Recording.open(path) as recording:
        result = spread(recording, 2)
    assert (result.births[0].node, result.births[0].kind) == ("loss/log", "unknown")
    words = result.births[0].words
    assert words.startswith("from finite inputs; its elements are not known: ")
    assert "loss/tensor (a tensor) is an input here, but its elements in step 2 were not" in words


def test_without_statistics_it_says_so(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.nscope", broken.log_of_a_negative, level="timing")
    with Recording.open(path) as recording:
        result = spread(recording, 2)
    assert result.known == 0
    assert "no statistics were recorded" in render_spread(result)


def test_a_nan_that_follows_from_another_through_finite_values_is_not_a_birth(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.nscope"
    with ns.record(path, level="values"), np.errstate(all="ignore"):
        for low in ns.steps([1.0, -1.0]):
            x = np.log(ns.tensor([[low, 1.0], [1.0, 2.0]]))
            hit = (x == np.max(x, axis=1, keepdims=True)).astype(np.float64)
            # In a row with NaN, no element equals the maximum.
            _ = hit / np.sum(hit, axis=1, keepdims=True)
            _ = ns.tensor([0.0]) / ns.tensor([0.0])  # Unrelated to the other NaN.
    with Recording.open(path) as recording:
        report = spread(recording, 2)
        divided = why(recording, "divide", step=2)
    assert [(birth.node, birth.at) for birth in report.births] == [
        ("log", (0, 0)), ("divide_1", (0,)),
    ]  # fmt: skip
    assert report.births[0].reached == 2  # The NaN reaches max and divide; `hit` is finite.
    assert ("divide", ("log",)) in [(node.node, node.sources) for node in report.passed]
    assert divided.culprit.name == "log"
    text = render(divided)
    assert text.startswith("divide at [0, 0] is nan in step 2: log of -1, in log at [0, 0]")
