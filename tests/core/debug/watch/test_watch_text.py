"""The text form of a watch: parsing, errors with their column, and writing it back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodescope.debug.watch import all_rules, get
from nodescope.debug.watch.rule import Parameter, Rule, WatchError
from nodescope.debug.watch.watch import (
    ACTIONS,
    Watch,
    checked,
    describe,
    parse_watch,
    parse_watches,
    selection,
)
from nodescope.errors import RegistryError
from nodescope.ir.graph import Node


def test_the_whole_form() -> None:
    watch = parse_watch(
        "gradient_vanishing(abs_mean_lt=1e-9) on scope:encoder [patience 3] -> stop,log"
    )
    assert watch == Watch(
        "gradient_vanishing",
        params={"abs_mean_lt": 1e-9},
        select="scope:encoder",
        patience=3,
        actions=("stop", "log"),
    )
    assert describe(watch) == (
        "gradient_vanishing(abs_mean_lt=1e-09) on scope:encoder patience 3 -> stop, log"
    )


@pytest.mark.parametrize(
    ("text", "watch"),
    [
        ("nan", Watch("nan")),
        ("GE", Watch("gradient_exploding")),
        ("DeadRelu -> log", Watch("dead_relu", actions=("log",))),
        ("off nan on op:log", Watch("nan", select="op:log", enabled=False)),
        ("nan on loss/mean", Watch("nan", select="node:loss/mean")),
        ("nan on layer_[12]/*", Watch("nan", select="glob:layer_[12]/*")),
        ("nan on source:train.py:12", Watch("nan", select="source:train.py:12")),
        ('nan on "node:a b"', Watch("nan", select="node:a b")),
        ("nan on scope:/a/b/", Watch("nan", select="scope:a/b")),
        (
            "stalled_training(threshold=30min)",
            Watch("stalled_training", params={"threshold": 1800.0}),
        ),
        ("stalled_training(threshold=500ms)", Watch("stalled_training", params={"threshold": 0.5})),
        (
            "TZ(zero_percentage_ge=90 %)",
            Watch("tensor_all_zero", params={"zero_percentage_ge": 90.0}),
        ),
        ("ExplodingTensor(only_nan=TRUE)", Watch("exploding_tensor", params={"only_nan": True})),
        ("unchanged_tensor(num_steps=5 steps)", Watch("unchanged_tensor", params={"num_steps": 5})),
        ("nan -> end , log,log", Watch("nan", actions=("log", "end"))),
        (
            'condition(condition="value.max() > 3")',
            Watch("condition", params={"condition": "value.max() > 3"}),
        ),
        ("max_gt(threshold=-.5e1)", Watch("max_gt", params={"threshold": -5.0})),
        ("max_gt(threshold=inf)", Watch("max_gt", params={"threshold": float("inf")})),
    ],
)  # fmt: skip
def test_what_a_text_means(text: str, watch: Watch) -> None:
    assert parse_watch(text) == watch
    assert parse_watch(describe(watch)) == watch


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 0, "expected a rule name"),
        ("nann", 0, "did you mean 'nan'"),
        ("  gradient_vanish", 2, "did you mean 'gradient_vanishing'"),
        (
            "when value < 1 on loss/cross_entropy",
            0,
            'condition(condition="value < 1") on loss/cross_entropy',
        ),
        ("value.max() > 3 -> log", 0, 'condition(condition="value.max() > 3") -> log'),
        ("if ((( on x", 0, 'like this: condition(condition="value < 1") on loss/mean'),
        ('kondition(condition="value > 3")', 0, "did you mean 'condition'"),
        ("GV(abs_mean_l=1)", 3, "did you mean 'abs_mean_lt'"),
        ("GV(nonsense=1)", 3, "it has abs_mean_lt"),
        ("GV(abs_mean_lt=x)", 15, "must be a number, not 'x'"),
        ("GV(abs_mean_lt=3s)", 15, "it takes no unit"),
        ("GV(abs_mean_lt=nan)", 15, "must be a number, not 'nan'"),
        ("stalled_training(threshold=3d)", 27, "it takes ms, s, min, h"),
        ("TZ(zero_percentage_ge=101)", 22, "between 0 and 100 %, not 101"),
        ("unchanged_tensor(num_steps=1)", 27, "at least 2 steps, not 1"),
        ("unchanged_tensor(num_steps=2.5)", 27, "must be an integer, not 2.5"),
        ("exploding_tensor(only_nan=1)", 26, "true or false"),
        ("GV", 0, "requires one of abs_mean_lt"),
        ("max_gt", 0, "requires threshold"),
        ("GV(abs_mean_lt=1", 16, "expected a comma or a closing parenthesis"),
        ("GV(abs_mean_lt 1)", 15, "expected = and a value for abs_mean_lt"),
        ("GV(abs_mean_lt=)", 15, "expected a value for abs_mean_lt"),
        ("GV(abs_mean_lt=1, abs_mean_lt=2)", 18, "set twice"),
        ("GV(abs_mean_lt=1) scope:a", 18, "unexpected text: 'scope:a'"),
        ("nan on skope:a", 7, "did you mean 'scope'"),
        ("nan on scope:", 7, "needs a name"),
        ("nan on", 6, "expected a selection, such as scope:encoder"),
        ("nan on a on b", 9, "unexpected text"),
        ("nan patience 0", 13, "at least 1, not 0"),
        ("nan patience x", 13, "expected an integer"),
        ("nan [patience 3", 15, "expected a closing ]"),
        ("nan -> stopp", 7, "did you mean 'stop'"),
        ("nan -> ", 7, "an action"),
        ("nan -> stop log", 12, "unexpected text after the actions"),
        ('condition(condition="isnan(value)', 20, "expected a closing quote"),
        ('condition(condition="valu > 3")', 0, "unknown name 'valu'"),
        ('condition(condition="__import__(1)")', 0, "unknown function"),
        ("tensor_range(range_percentage_lt=3)", 0, "a range percentage requires a range"),
        (
            'nlp_sequence_ratio(token_values="1,2", token_thresholds_percent="1,2,3")',
            0,
            "2 tokens but 3 thresholds",
        ),
        ("similar_across_runs(other_trial=nowhere.nscope)", 0, "other_trial: "),
        ('within(first="step > 0", second="step > 1", first_on=x:y, second_on=b)', 0, "no sel"),
        ("x" * 4001, 4000, "longer than"),
    ],
)  # fmt: skip
def test_errors_name_their_place(text: str, column: int, words: str) -> None:
    with pytest.raises(WatchError) as caught:
        parse_watch(text)
    assert words in str(caught.value)
    assert caught.value.column == column


def test_a_text_may_have_several_watches() -> None:
    assert parse_watches("nan, grad_explode") == (Watch("nan"), Watch("gradient_exploding"))
    several = parse_watches('nan on op:log -> stop, log;\n\noverfit(validation="a;b") ;')
    assert several == (
        Watch("nan", select="op:log", actions=("stop", "log")),
        Watch("overfit", params={"validation": "a;b"}),
    )
    with pytest.raises(WatchError) as caught:
        parse_watches("nan -> log; nann")
    assert caught.value.column == 12
    assert parse_watches(" ") == ()


@pytest.mark.parametrize(
    "watch",
    [
        Watch("nope"),
        Watch("max_gt", params={"threshold": "high"}),
        Watch("max_gt", params={"threshold": True}),
        Watch("max_gt", params={"threshold": float("nan")}),
        Watch("exploding_tensor", params={"only_nan": 1}),
        Watch("condition", params={"condition": 3}),
        Watch("nan", actions=()),
        Watch("nan", actions=("halt",)),  # type: ignore[arg-type]
        Watch("nan", patience=0),
        Watch("nan", select="regex:("),
    ],
)
def test_watches_from_elsewhere_are_checked(watch: Watch) -> None:
    with pytest.raises(WatchError):
        checked(watch)


def test_a_watch_is_plain_data() -> None:
    watch = parse_watch("GV(abs_mean_lt=1e-9) on scope:a -> log")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(watch), type=Watch) == watch
    with pytest.raises(AttributeError):
        watch.patience = 3  # type: ignore[misc]


def test_names_of_other_tools_lead_to_rules() -> None:
    assert get("wnc").name == "weight_not_changed"
    assert get("StalledTrainingRule").name == "stalled_training"
    with pytest.raises(RegistryError, match="did you mean 'dead_relu'"):
        get("dead_rellu")


def test_a_scope_has_its_parameters() -> None:
    weight = Node(1, "encoder/w", "parameter", "leaf", scope="encoder", role="parameter")
    assert selection("scope:encoder").covers(weight)
    assert not selection("scope:enc").covers(weight)
    assert selection("").covers(weight)


# ---------------------------------------------------------------- round trip

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)


def settings_of(parameter: Parameter) -> st.SearchStrategy[Any]:
    low, high = parameter.low, parameter.high
    match parameter.kind:
        case "number":
            return st.floats(max(low, -1e300), min(high, 1e300))
        case "count":
            return st.integers(int(low), int(min(high, 10**9)))
        case "flag":
            return st.booleans()
        case _:
            return TEXTS


FREE = [
    rule
    for rule in all_rules()
    if not any(parameter.kind == "text" for parameter in rule.parameters)
]


@st.composite
def watches(draw: st.DrawFn) -> Watch:
    rule: Rule = draw(st.sampled_from(FREE))
    needed = {parameter.name for parameter in rule.parameters if parameter.required} | set(
        rule.any_of
    )
    chosen = [
        parameter
        for parameter in rule.parameters
        if parameter.name in needed or draw(st.booleans())
    ]
    kind = draw(st.sampled_from(["node", "op", "scope", "glob"]))
    target = draw(TEXTS).strip().strip("/").strip()
    return Watch(
        rule.name,
        params={item.name: draw(settings_of(item)) for item in chosen},
        select=f"{kind}:{target}" if target else "",
        patience=draw(st.integers(1, 99)),
        actions=tuple(draw(st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=5))),
        enabled=draw(st.booleans()),
    )


@given(watches())
def test_what_is_written_is_read_back(watch: Watch) -> None:
    try:
        kept, _ = checked(watch)
    except WatchError:  # The settings are invalid: a range may end before it begins.
        return
    assert parse_watch(describe(kept)) == kept


@given(TEXTS)
def test_any_text_setting_comes_back(text: str) -> None:
    watch = Watch("overfit", params={"validation": text})
    try:
        kept, _ = checked(watch)
    except WatchError:
        return
    assert parse_watch(describe(kept)) == kept


@given(st.text(max_size=60))
def test_invalid_text_only_raises(text: str) -> None:
    result: tuple[Watch, ...] = ()
    column = -1
    try:
        result = parse_watches(text)
    except WatchError as error:
        column = error.column
    assert -1 <= column <= len(text)
    assert all(checked(item) for item in result)
