"""Parsing a breakpoint's text form gives the same breakpoint."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodescope.debug.breakpoints.syntax import describe, parse_breakpoint
from nodescope.errors import BreakpointError, ConditionError
from nodescope.protocol import Breakpoint

names = st.from_regex(r"[a-z_][a-z0-9_]*(/[a-z0-9_]+){0,3}", fullmatch=True)
targets = st.one_of(
    st.tuples(st.sampled_from(["node", "op", "scope", "glob", "regex"]), names),
    st.tuples(st.just("glob"), names.map(lambda name: f"*/{name}[0-9]?")),
    st.tuples(st.just("regex"), names.map(lambda name: f"({name}|x).*")),
    st.tuples(st.just("node"), st.sampled_from(["if", "log", "before", "a b", "x.py:3", "a:b"])),
    st.tuples(st.just("source"), st.sampled_from(["model.py:42", "C:\\m.py:1", "/a b/c.py:7"])),
)
ranges = st.one_of(
    st.just((0, None)),
    st.tuples(st.integers(0, 9), st.none()),
    st.integers(0, 9).flatmap(lambda a: st.tuples(st.just(a), st.integers(a, 20))),
)


@given(
    target=targets,
    when=st.sampled_from(["before", "after"]),
    condition=st.sampled_from(["", "step > 3", "max(abs(inputs[0])) > 1e-3 and not step == 7"]),
    phase=st.sampled_from(["", "forward", "backward", "optimizer", "recompute", "other"]),
    steps=ranges,
    hits=st.sampled_from(["", "== 3", ">= 2", "% 5"]),
    log=st.sampled_from(["", "{node}", "now if {step} log 3", "a [b] {inputs[0]:.3f} {{x}}"]),
    once=st.booleans(),
    group=st.sampled_from(["", "nan-hunt", "a.b"]),
    enabled=st.booleans(),
)
def test_what_is_written_is_read_back(
    target, when, condition, phase, steps, hits, log, once, group, enabled
) -> None:
    breakpoint = Breakpoint(
        kind=target[0], target=target[1], when=when, condition=condition, phase=phase,
        first_step=steps[0], last_step=steps[1], hits=hits, log=log, once=once, group=group,
        enabled=enabled,
    )  # fmt: skip
    assert parse_breakpoint(describe(breakpoint)) == breakpoint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("value > 3", "is a condition without a location; write NODE if value > 3"),
        ("max(value)", "is a condition"),
        ("value[0] == 1", "is a condition"),
        ("isnan(value).any() and step > 3", "is a condition"),
        ("loss mean", "is not the name of a node; node:NAME takes any name"),
        ("a, b", "is not the name"),
        ("before value > 3", "is a condition"),
        ("value > 3 log {value}", "is a condition"),
        ("op:exp iff x", "the name of an op is one word; did you mean 'op:exp if x'?"),
        ("op:exp when step > 3", "did you mean 'op:exp if step > 3'?"),
        ("op:exp lgo {value}", "did you mean 'op:exp log {value}'?"),
        ("op:exp log_1 [forward] x", "the name of an op is one word; "),
        ("before scope:loss iff value > 3", "did you mean 'scope:loss if value > 3'?"),
        ("glob:loss/* fi step > 3", "did you mean 'glob:loss/* if step > 3'?"),
        ("loss/mean iff value > 3", "did you mean 'loss/mean if value > 3'? node:NAME takes"),
        ("42", "is a number; write a line as train.py:42"),
    ],
)
def test_anything_but_a_name_is_not_taken_as_one(text: str, message: str) -> None:
    with pytest.raises(BreakpointError, match=re.escape(message)):
        parse_breakpoint(text)
    assert parse_breakpoint("node:value > 3").target == "value > 3"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("op:mean if value < 0.5 [step 3..]", "op:mean [step 3..] if value < 0.5"),
        ("loss if step > 2 [once] log {value}", "loss [once] if step > 2 log {value}"),
        ("loss if inputs [0", ""),
        ("loss if value < [step 3]", ""),
    ],
)
def test_options_after_the_condition_are_pointed_out(text: str, meant: str) -> None:
    with pytest.raises(BreakpointError if meant else ConditionError) as caught:
        parse_breakpoint(text)
    if meant:
        assert caught.value.hint == f"did you mean {meant!r}?"
        assert text[caught.value.column] == "["


@pytest.mark.parametrize(
    "text",
    ["scope:my blog", "glob:* when", "node:loss iff step > 3", "regex:a (if|iff) b"],
)
def test_names_of_several_words_are_no_mistyped_keywords(text: str) -> None:
    breakpoint = parse_breakpoint(text)
    assert parse_breakpoint(describe(breakpoint)) == breakpoint
