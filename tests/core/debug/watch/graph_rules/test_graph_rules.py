"""Graph rules, and others tested by programs: what they must report, and what they must not."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from nodescope.debug.watch import Rule, all_rules
from nodescope.debug.watch.rules import batches_overlap
from nodescope.debug.watch.watch import Watch
from tests import depth
from tests.core.debug.watch.graph_rules import (
    right,
    right_batches,
    right_comparisons,
    right_data,
    right_evaluation,
    right_models,
    right_outcomes,
    right_pairs,
    right_paths,
    right_scales,
    right_scores,
    right_sequences,
    right_training,
    right_training_state,
    wrong,
    wrong_batches,
    wrong_comparisons,
    wrong_data,
    wrong_evaluation,
    wrong_models,
    wrong_outcomes,
    wrong_pairs,
    wrong_paths,
    wrong_scales,
    wrong_scores,
    wrong_sequences,
    wrong_training,
    wrong_training_state,
)
from tests.core.debug.watch.graph_rules.running import Program, judge, marked
from tests.core.debug.watch.programs import Watched
from tests.parts import in_parts


def programs(*modules: object) -> list[Program]:
    return [
        function
        for module in modules
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == getattr(module, "__name__", "") and not name.startswith("_")
    ]


def _marked() -> set[str]:
    return {name for program in WRONG for name, _ in marked(program)}


WRONG = programs(
    wrong, wrong_batches, wrong_comparisons, wrong_data, wrong_models, wrong_outcomes, wrong_paths,
    wrong_pairs, wrong_scales, wrong_scores, wrong_sequences, wrong_training, wrong_training_state,
    wrong_evaluation,
)  # fmt: skip
RIGHT = programs(
    right, right_batches, right_comparisons, right_data, right_models, right_outcomes, right_paths,
    right_pairs, right_scales, right_scores, right_sequences, right_training, right_training_state,
    right_evaluation,
)  # fmt: skip


RULES = [rule for rule in all_rules() if rule.study is not None or rule.name in _marked()]
NAMES = [rule.name for rule in RULES]


@pytest.mark.one_in(8)
@in_parts(8)
@pytest.mark.parametrize("program", WRONG, ids=lambda program: program.__name__)
def test_wrong_programs_are_reported_at_their_line(program: Program, tmp_path: Path) -> None:
    judged = judge(program, tmp_path / "run.nscope", NAMES)
    expected = marked(program)
    assert expected
    assert {(hit.rule, line) for hit, line in judged.hits} == expected
    for hit, line in judged.hits:
        assert hit.node_name in hit.text
        assert f":{line})" in hit.text
        assert hit.text.count("\n") == 0


@pytest.mark.one_in(8)
@in_parts(8)
@pytest.mark.parametrize("program", depth.some(RIGHT, 3), ids=lambda program: program.__name__)
def test_right_programs_have_no_hits(program: Program, tmp_path: Path) -> None:
    judged = judge(program, tmp_path / "run.nscope", NAMES)
    assert [hit.text for hit, _ in judged.hits] == []


@in_parts(1)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_has_programs_and_words(rule: Rule) -> None:
    assert any(rule.name in {name for name, _ in marked(program)} for program in WRONG)
    assert rule.about
    assert (rule.applies == ("graph",)) == (rule.study is not None)
    assert rule.suits is not None
    assert rule.suits([]) == ""


def test_live_hits_are_those_of_the_recording(tmp_path: Path) -> None:
    for number, program in enumerate((wrong.gradients_are_never_zeroed,
                                      wrong.softmax_before_cross_entropy)):  # fmt: skip
        watched = Watched(program, tmp_path / f"{number}.nscope", *map(Watch, NAMES))
        asked, _ = watched.asked()
        assert watched.faults == []
        assert watched.live
        assert [(hit.text, hit.step) for hit in watched.live] == [
            (hit.text, hit.step) for hit in asked
        ]


def test_a_file_is_read_once_for_slices_that_overlap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = batches_overlap._read_overlaps
    asked: list[object] = []
    monkeypatch.setattr(
        batches_overlap, "_read_overlaps", lambda tree: (asked.append(tree), read(tree))[1]
    )
    batches_overlap._overlaps.cache_clear()
    lines = []
    for number in range(2):
        path = tmp_path / f"{number}.nscope"
        judged = judge(wrong_batches.a_number_taken_for_a_row, path, ["batches_overlap"])
        lines.append([line for _, line in judged.hits])
    assert lines[0] == lines[1] != []
    assert len(asked) == 1


def test_a_selection_and_patience_hold(tmp_path: Path) -> None:
    program = wrong.softmax_before_cross_entropy
    watches = [
        Watch("softmax_twice", select="op:cross_entropy"),
        Watch("softmax_twice", select="op:mse"),
        Watch("softmax_twice", patience=2),
        Watch("softmax_twice", patience=9),
    ]
    watched = Watched(program, tmp_path / "run.nscope")
    hits, _ = watched.asked(*watches)
    assert sorted(hit.watch for hit in hits) == [1, 3]
