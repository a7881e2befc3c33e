"""Every registered rule: its examples, hostile arrays, and that it changes nothing."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nodescope as ns
from nodescope.api import Run
from nodescope.debug.watch import Rule, all_rules
from nodescope.debug.watch.rule import TARGETS, Example, Setting
from nodescope.debug.watch.watch import Watch, describe, parse_watch
from nodescope.ops import get as op
from tests import depth
from tests.core.debug.watch.driving import Program, events_of, watched
from tests.depth import is_deep
from tests.parts import in_parts

# The others have their examples in graph_rules/.
RULES = [rule for rule in all_rules() if rule.study is None]
EXAMPLES = [
    pytest.param(rule, example, id=f"{rule.name}-{number}")
    for rule in RULES
    for number, example in enumerate(rule.examples)
]
# Rules that decide without arrays: by times, attributes, the graph or the step.
QUIET = ("stalled_training", "within", "without", "gradient_lost", "saturated_layer",
         "schedule_ends_early", "decay_too_large", "target_not_updated", "average_from_zero",
         "dropout_in_evaluation",
         "nothing_learned", "predictions_far_off", "targets_out_of_range", "loss_without_floor",
         "clip_too_small", "inputs_constant", "labels_constant", "label_in_inputs",
         "optimizer_made_anew", "kernel_is_identity", "both_factors_zero", "signal_fades",
         "views_collapse", "inputs_scale", "sides_equal", "worse_than_mean",
         "steps_too_small", "rate_negative", "term_stays_zero", "saturated_start",
         "updates_rounded", "mask_inverted", "masked_by_zero",
         "loop_unstable", "attention_looks_ahead", "targets_masked",
         "state_runs_away", "evaluation_in_training", "evaluation_targets",
         "optimizers_opposed", "used_without_gradient", "log_probability_above_zero")  # fmt: skip
# Rules whose examples are programs, in graph_rules/.
SHOWN_BY_PROGRAMS = (
    "schedule_ends_early", "evaluation_inputs", "rows_change", "decay_too_large",
    "target_not_updated", "clipped_layer", "targets_are_inputs", "training_in_evaluation",
    "average_from_zero", "data_overwritten", "nothing_learned", "predictions_far_off",
    "inputs_drift", "dropout_in_evaluation", "targets_out_of_range", "loss_without_floor",
    "clip_too_small", "inputs_constant", "labels_constant", "label_in_inputs",
    "optimizer_made_anew", "kernel_is_identity", "both_factors_zero", "signal_fades",
    "views_collapse", "inputs_scale", "sides_equal", "worse_than_mean", "steps_too_small",
    "rate_negative", "term_stays_zero", "saturated_start", "updates_rounded",
    "worse_than_chance", "mask_inverted", "batches_repeat", "masked_by_zero", "loop_unstable",
    "attention_looks_ahead", "targets_masked", "state_runs_away", "evaluation_in_training",
    "evaluation_targets", "optimizers_opposed", "used_without_gradient",
    "log_probability_above_zero",
)  # fmt: skip
# Settings without a default, which a rule requires.
REQUIRED: dict[str, dict[str, Setting]] = {
    "condition": {"condition": "isnan(value).any()"},
    "hysteresis": {"enter": "max(value) > 0", "leave": "max(value) < 0"},
    "within": {"first": "step > 0", "second": "size(value) > 0", "first_on": "x",
               "second_on": "x"},
    "without": {"first": "step > 0", "second": "size(value) < 0", "first_on": "x",
                "second_on": "x"},
}  # fmt: skip
THRESHOLDS = (-1.0, 0.0, 1.0, 50.0)


def frozen(array: Any) -> np.ndarray:
    array = np.asarray(array)
    array.flags.writeable = False
    return array


rng = np.random.default_rng(0)
HOSTILE: dict[str, np.ndarray] = {
    name: frozen(array)
    for name, array in {
        "nan": np.full((3, 4), np.nan, np.float32),
        "inf": np.array([[np.inf, -np.inf], [1.0, 2.0]]),
        "mixed": np.array([[np.nan, np.inf], [-0.0, 1e-42]], np.float32),
        "empty": np.zeros((0, 3), np.float32),
        "no units": np.zeros((3, 0), np.float32),
        "scalar": np.float64(3.0),
        "huge": np.array([[1.7e308, -1.7e308], [1e308, 1e-308]]),
        "tiny": np.array([[5e-324, 0.0], [1e-310, -5e-324]]),
        "int8": np.array([[-128, 127], [0, 1]], np.int8),
        "int64": np.array([[-(2**63), 2**63 - 1]], np.int64),
        "uint64": np.array([[2**64 - 1, 0]], np.uint64),
        "bool": np.array([[True, False], [True, True]]),
        "complex": np.array([[1 + 1j, complex(np.nan, np.inf)], [complex(0, np.inf), 0j]]),
        "float16": np.array([[65504.0, 6e-8], [np.inf, 0.0]], np.float16),
        "bfloat16": np.array([[1.0, np.nan], [1e-40, 0.0]], ml_dtypes.bfloat16),
        "float8": np.array([[1.0, 0.0]], ml_dtypes.float8_e4m3fn),
        "longdouble": np.array([[1, 3], [2, 4]], np.longdouble),
        "images": rng.standard_normal((2, 3, 4, 4)).astype(np.float32),
        "turned": np.asfortranarray(rng.standard_normal((5, 7)))[::-1, ::2],
        "spread": np.broadcast_to(np.float32(2.0), (4, 5)),
        "text": np.array([["a", "b"]]),
        "object": np.array([[None, 1]], object),
    }.items()
}


def required(rule: Rule) -> dict[str, Setting]:
    """Settings without which the rule cannot be watched, if there are any."""
    if rule.name in REQUIRED:
        return dict(REQUIRED[rule.name])
    params: dict[str, Setting] = {
        parameter.name: 1.0
        for parameter in rule.parameters
        if parameter.required and parameter.kind == "number"
    }
    if rule.any_of and not any(rule.parameter(item).default for item in rule.any_of):
        params |= dict.fromkeys(rule.any_of, 1.0)
    if rule.name in ("tensor_range", "activation_range"):
        params |= {"range_start_inclusive": 0.0, "range_end_inclusive": 1.0}
    return params


def many(rule: Rule) -> list[dict[str, Setting]]:
    """Several ways to set the thresholds of a rule."""
    results = [required(rule)]
    for number in THRESHOLDS:
        params = dict(results[0])
        for parameter in rule.parameters:
            if parameter.kind == "number" and parameter.low <= number <= parameter.high:
                params[parameter.name] = number
        if params.get("range_end_inclusive") is not None:
            params["range_end_inclusive"] = number + 1
        results.append(params)
    return results


# similar_across_runs needs a file.
TESTABLE = [rule for rule in RULES if rule.name != "similar_across_runs"]


@in_parts(4)
@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_examples_are_decided_as_they_say(rule: Rule, example: Example) -> None:
    watch = Watch(rule.name, params=dict(example.params))
    hits, watcher, faults = watched(events_of(rule, example), watch)
    assert faults == []
    assert tuple(sorted({hit.step for hit in hits})) == example.hits, example.about
    (status,) = watcher.outcomes
    assert status.looked
    assert set(status.unasked) <= {"the node has no inputs"}
    for hit in hits:
        assert hit.rule == rule.name
        assert hit.node_name in hit.text
        assert f"in step {hit.step}" in hit.text
        assert hit.configured == rule.settings(example.params)


@in_parts(1)
@pytest.mark.parametrize("rule", TESTABLE, ids=lambda rule: rule.name)
def test_examples_show_hits_and_none(rule: Rule) -> None:
    if rule.name in SHOWN_BY_PROGRAMS:
        return
    steps = [(len(example.steps), set(example.hits)) for example in rule.examples]
    assert any(hits for _, hits in steps)
    assert any(len(hits) < count for count, hits in steps)


@in_parts(1)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_is_documented(rule: Rule) -> None:
    assert rule.about
    assert not rule.about.endswith(".")
    assert rule.origin in ("MindInsight", "SageMaker", "TensorBoard", "nodescope")
    assert set(rule.applies) <= set(TARGETS)
    for name in rule.ops:
        op(name)
    for parameter in rule.parameters:
        assert parameter.about
        if parameter.default is not None:
            assert parameter.check(parameter.default) == parameter.default
    assert set(rule.any_of) <= {parameter.name for parameter in rule.parameters}


@pytest.mark.one_in(2)
@in_parts(8)
@pytest.mark.parametrize("rule", depth.some(TESTABLE, 3), ids=lambda rule: rule.name)
def test_hostile_arrays_do_no_harm(rule: Rule) -> None:
    """No fault, nothing changed, and the same hits each time."""
    arrays = list(HOSTILE.values())
    # Run the arrays in other orders too: a value may change its shape and dtype.
    steps = [*arrays, *arrays[::-1], *itertools.chain.from_iterable((a, a, a) for a in arrays)]
    before = [array.tobytes() for array in arrays if array.dtype != object]
    names_of_ops = sorted(rule.ops) or [None]
    all_ops = is_deep() or rule.concerns is not None
    for op_name in names_of_ops if all_ops else names_of_ops[:1]:
        for params in many(rule):
            names = {} if op_name is None else {"x": op_name}
            arrays_given: list[Any] = [
                (step, step, arrays[-(i % 20)]) for i, step in enumerate(steps)
            ]
            example = Example(arrays_given if "inputs" in rule.needs else steps, (), params, names)
            watch = parse_watch(describe(Watch(rule.name, params=params)))
            first, watcher, faults = watched(events_of(rule, example), watch)
            if not faults:
                assert watcher.outcomes[0].looked or rule.concerns is not None
            else:  # A condition may be invalid for an array of text.
                assert rule.name in REQUIRED
            again, _, _ = watched(events_of(rule, example), watch)
            assert first == again
    assert before == [array.tobytes() for array in arrays if array.dtype != object]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_without_arrays_a_rule_says_so(rule: Rule, tmp_path: Path) -> None:
    params = required(rule)
    if rule.name == "similar_across_runs":
        run = Run(tmp_path / "other.nscope")
        run.start()
        ns.tensor([1.0]) + 1
        run.finish()
        params = {"other_trial": str(tmp_path / "other.nscope")}
    program = Program(rule, {})
    program.see("x", (np.ones((2, 2)), np.ones((2, 2)), np.zeros(2, int)), (1, 0))
    events = [
        type(event)(event.node, (), (), event.step, 1, 0, 0) if hasattr(event, "outputs") else event
        for event in program.events
    ]
    select = "node:x" if rule.concerns or rule.applies == ("values",) else ""
    hits, watcher, faults = watched(events, Watch(rule.name, params=params, select=select))
    assert hits == []
    assert faults == []
    (status,) = watcher.outcomes
    silent = status.looked - status.unasked.total()
    assert status.looked
    first_step = "previous_values" in rule.needs
    assert silent == 0 or first_step or rule.name in QUIET
