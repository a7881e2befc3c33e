"""The recommended watches, and that the document describes them correctly."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from nodescope.debug.watch import get
from nodescope.debug.watch.recommend import recommend, recommend_for
from nodescope.debug.watch.watch import checked, parse_watch
from nodescope.ir.graph import Node
from nodescope.record.recording import Recording
from tests.core.debug.watch import programs
from tests.core.debug.watch.programs import Train, Watched
from tests.parts import in_parts

DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "watches.md"


def recommended(train: Train, path: Path) -> dict[str, str]:
    watched = Watched(train, path)
    with Recording.open(watched.path) as recording:
        result = recommend_for(recording)
    assert len({item.watch.id for item in result}) == len(result)
    for item in result:
        assert checked(item.watch)[0] == item.watch
        assert item.reason
    return {f"{item.watch.rule} {item.watch.select}".strip(): item.reason for item in result}


def test_a_classifier_with_tanh(tmp_path: Path) -> None:
    result = recommended(programs.healthy, tmp_path / "run.nscope")
    about_values = [name for name in result if get(name.split()[0]).study is None]
    assert about_values == [
        "operator_overflow", "weight_overflow", "gradient_exploding", "both_factors_zero",
        "clip_too_small", "decay_too_large", "evaluation_inputs", "gradient_lost", "inputs_scale",
        "loss_diverging", "loss_flat", "loss_without_floor", "rate_negative",
        "schedule_ends_early", "signal_fades", "steps_too_small", "update_without_effect",
        "batches_repeat", "data_overwritten", "inputs_constant", "inputs_drift",
        "label_in_inputs", "labels_constant", "nothing_learned", "one_class_batches",
        "rows_change", "saturated_layer", "saturated_start", "self_among_candidates",
        "steps_too_large", "units_identical", "weight_frozen", "worse_than_chance",
    ]  # fmt: skip
    assert result["weight_overflow"].startswith("it has 4 parameters")
    assert result["saturated_layer"].startswith("it has 1 tanh node;")
    assert result["weight_frozen"].startswith("it trains weights;")


@pytest.mark.parametrize(
    ("train", "rule"),
    [
        ("nan_loss", "operator_overflow"),
        ("exploding_gradient", "gradient_exploding"),
        ("dead_relu", "dead_layer"),
        ("frozen_layer", "weight_frozen"),
    ],
)
def test_recommended_watches_hit_only_the_mistake(train: str, rule: str, tmp_path: Path) -> None:
    def hits(train: Any, name: str) -> set[str]:
        watched = Watched(train, tmp_path / f"{name}.nscope")
        with Recording.open(watched.path) as recording:
            watches = [item.watch for item in recommend_for(recording)]
        return {hit.rule for hit in watched.asked(*watches)[0]}

    assert rule in hits(getattr(programs, train), train)
    assert hits(programs.healthy, "healthy") == set()


def test_a_program_without_training() -> None:
    result = recommend([Node(1, "log", "log", "elementwise", outputs=(1,))])
    assert [item.watch.rule for item in result] == ["operator_overflow"]
    assert recommend([]) == []
    (first, *_) = recommend([Node(1, "a", "log", "elementwise", outputs=(1,))], actions=("log",))
    assert first.watch.actions == ("log",)


def test_values_carried_from_step_to_step_are_watched() -> None:
    """A clock whose node reads its own result."""
    clock = Node(1, "clock", "add", "elementwise", inputs=(1,), outputs=(1,))
    reasons = {item.watch.rule: item.reason for item in recommend([clock])}
    assert reasons["update_without_effect"].startswith("clock adds to")
    once = Node(1, "sum", "add", "elementwise", inputs=(2, 3), outputs=(1,))
    assert "update_without_effect" not in {item.watch.rule for item in recommend([once])}


def test_losses_of_validation_are_seen() -> None:
    nodes = [
        Node(number, name, "mse", "loss", outputs=(number,))
        for number, name in enumerate(("train/mse", "val/mse"), 1)
    ]
    assert "validation_rises" in [item.watch.rule for item in recommend(nodes)]


# ---------------------------------------------------------------- the document


def test_the_watches_in_the_document_can_be_read() -> None:
    (block,) = re.findall(r"```text\n(.*?)```", DOCUMENT.read_text(), re.S)
    watches = [parse_watch(line) for line in block.splitlines()]
    assert [watch.rule for watch in watches][:2] == ["nan", "gradient_vanishing"]
    assert [watch.enabled for watch in watches].count(False) == 1


def test_the_program_in_the_document_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.S)
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "watches.md", "exec"), {})
    captured = capsys.readouterr().out
    assert (
        "log produces 1 NaN in 2 elements, first at [0], from finite inputs in [-0.5, 2]"
        in captured
    )
    assert "dead_relu: no value in the recording matches it" in captured


CATALOGUE = (
    "OO TO WO GE TZ WI TL WL GL TS WS GV TR AR WNC WCL WCS DeadRelu ExplodingTensor "
    "PoorWeightInitialization SaturatedActivation VanishingGradient WeightUpdateRatio AllZero "
    "ClassImbalance Confusion LossNotDecreasing Overfit Overtraining SimilarAcrossRuns "
    "StalledTrainingRule TensorVariance UnchangedTensor CheckInputImages NLPSequenceRatio "
    "inf_or_nan inf nan max_gt max_lt min_gt min_lt mean_gt mean_lt range_gt range_lt std_gt std_lt"
)


@in_parts(1)
@pytest.mark.parametrize("name", CATALOGUE.split())
def test_the_whole_catalogue_is_there(name: str) -> None:
    assert get(name).origin != "nodescope"
