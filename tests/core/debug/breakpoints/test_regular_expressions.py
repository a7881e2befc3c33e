"""Regular expressions over names: what `re` says, in bounded work."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodescope.debug.breakpoints.regular_expressions import MAX_STATES, Pattern
from nodescope.errors import BreakpointError
from tests.depth import examples

ATOMS = st.sampled_from(
    ["a", "b", "/", ".", "[ab]", "[^a/]", "[a-c]", "[]a]", "[^]a]", r"\d", r"\w", r"\W", r"\.",
     r"[\d/]", "-", "]", "}", "^", "$", "", "(?:)", "{", r"[\]b]", "é"]
)  # fmt: skip
REPEATS = st.sampled_from(
    ["*", "+", "?", "{2}", "{1,2}", "{,2}", "{1,}", "*?", "+?", "??", "{1,3}?"]
)
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("{}|{}".format, inner, inner),
        st.builds("({})".format, inner),
        st.builds("(?:{}){}".format, inner, REPEATS),
        st.builds("{}{}".format, inner, REPEATS),
    ),
    max_leaves=6,
)


@settings(max_examples=examples(400), deadline=None)
@given(PATTERNS, st.lists(st.text("ab/.1-]}{é\n", max_size=6), min_size=3, max_size=3))
def test_it_says_what_re_says(text: str, names: list[str]) -> None:
    try:
        pattern = Pattern(text)
    except BreakpointError:
        return  # refused is never wrong
    for name in names:
        assert pattern.matches(name) is (re.fullmatch(text, name) is not None), (text, name)


@pytest.mark.parametrize(
    ("text", "name", "result"),
    [
        ("(net|loss)/t.*", "net/tanh", True),
        ("(net|loss)/t.*", "nets/tanh", False),
        (r"layer_\d{1,2}/.*", "layer_12/relu", True),
        (r"layer_\d{1,2}/.*", "layer_123/relu", False),
        ("^loss$", "loss", True),
        ("a|", "", True),
        ("", "", True),
        ("", "x", False),
        ("a{2,}", "aaaa", True),
        ("a{2,}", "a", False),
        (".*/(?:softmax|log)(_\\d+)?", "a/b/log_3", True),
        ("(a*)*b", "a" * 50, False),
    ],
)
def test_patterns(text: str, name: str, result: bool) -> None:
    assert Pattern(text).matches(name) is result


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("a(b", 1, "unmatched opening parenthesis"),
        ("a)b", 1, "unmatched closing parenthesis"),
        ("a[b", 1, "unmatched opening bracket"),
        ("*a", 0, "nothing to repeat"),
        ("a|{2}", 5, "nothing to repeat"),
        ("a**", 2, "a quantifier follows a quantifier"),
        ("a{3,1}", 1, "in the wrong order"),
        ("a{9999}", 1, "too often"),
        ("((a{60}){60}){60}", 17, "repeats too often"),
        (r"(a)\1", 3, "not supported"),
        ("(?=a)", 1, "look-arounds"),
        ("(?i)a", 1, "flags"),
        ("(?P<x>a)", 1, "name"),
        (r"\ba", 0, "not supported"),
        ("a\\", 1, "not supported"),
        ("[[a]]", 1, "sets inside a set"),
        ("[b-a]", 0, "bad character range"),
        ("(" * 100, 21, "nested"),
        ("a" * 201, 200, "longer than 200"),
        ("^*", 2, "cannot be repeated"),
        ("a++", 2, "possessive"),
        ("(((){300}){300}){300}", 21, "repeats too often"),
    ],
)
def test_refused_with_its_column(text: str, column: int, message: str) -> None:
    with pytest.raises(BreakpointError, match=message) as caught:
        Pattern(text)
    assert caught.value.column == column


@pytest.mark.parametrize(
    "text",
    ["(a+)+x", "(a|a)*x", "(a|aa)+x", "a?" * 50 + "a" * 50, ".*" * 90 + "x", r"(\w+/?)*x",
     "(a*)*" * 30 + "x", "(a{9}){30}x", "[ab]*" * 30 + "x", "(x+x+)+y", "((a?){30}b*){5}x"],
)  # fmt: skip
def test_work_is_bounded_by_name_times_states(text: str) -> None:
    consulted = 0

    def counted(test):
        def ask(char):
            nonlocal consulted
            consulted += 1
            return test(char)

        return ask

    pattern = Pattern(text)
    pattern._states = [
        (counted(test) if callable(test) else test, to) for test, to in pattern._states
    ]
    name = "a" * 300 + "!"
    assert not pattern.matches(name)
    assert consulted <= len(name) * MAX_STATES
