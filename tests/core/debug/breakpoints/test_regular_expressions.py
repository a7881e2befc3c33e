"""Regular expressions over names: the results of `re`, with bounded work."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodescope.debug.breakpoints.regular_expressions import check, matches
from nodescope.errors import BreakpointError
from tests.depth import examples

ATOMS = st.sampled_from(
    ["a", "b", "/", ".", "[ab]", "[^a/]", "[a-c]", "[]a]", "[^]a]", r"\d", r"\w", r"\W", r"\.",
     r"[\d/]", "-", "]", "}", "^", "$", "", "(?:)", "{", r"[\]b]", "é", "(?i:B)", r"\b"]
)  # fmt: skip
REPEATS = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{1,}", "*?", "+?", "??", "{1,3}?"])
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


@settings(max_examples=examples(200), deadline=None)
@given(PATTERNS, st.lists(st.text("ab/.1-]}{é", max_size=6), min_size=3, max_size=3))
def test_matches_are_those_of_the_re_module(text: str, names: list[str]) -> None:
    try:
        check(text)
        pattern = re.compile(text, re.ASCII)
    except (BreakpointError, re.error):
        return  # A pattern may always be refused.
    for name in names:
        assert matches(text, name) is (pattern.fullmatch(name) is not None), (text, name)


@pytest.mark.parametrize(
    ("text", "name", "result"),
    [
        ("(net|loss)/t.*", "net/tanh", True),
        ("(net|loss)/t.*", "nets/tanh", False),
        (r"layer_\d{1,2}/.*", "layer_12/relu", True),
        (r"layer_\d{1,2}/.*", "layer_123/relu", False),
        ("^loss$", "loss", True),
        ("loss$", "loss\n", False),
        ("a|", "", True),
        ("", "x", False),
        ("a{2,}", "a", False),
        ("größe.", "größe😀", True),
        # The surrogate stands for a byte that is not UTF-8, as in a file name.
        ("net/.", "net/\ud800", True),
        ("(a*)*b", "a" * 50, False),
    ],
)
def test_patterns(text: str, name: str, result: bool) -> None:
    assert matches(text, name) is result


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("a(b", 0, r"'a\(b' is not a regular expression: missing \)"),
        ("a)b", 0, r"unexpected \)"),
        ("a[b", 1, r"missing \] \[b"),
        ("*a", 0, r"no argument for repetition operator \*"),
        ("a**", 1, r"bad repetition operator \*\*"),
        ("a++", 1, r"bad repetition operator \+\+"),
        ("a{3,1}", 1, r"invalid repetition size \{3,1\}"),
        ("((a{60}){60}){60}", 3, "invalid repetition size"),
        (r"(a)\1", 3, r"invalid escape sequence \\1"),
        ("a(?=a)", 1, r"invalid perl operator \(\?="),
        ("a\\", 0, "trailing"),
        ("[b-a]", 1, "invalid character class range b-a"),
        ("(" * 100, 0, r"missing \)"),
        ("a" * 201, 200, "longer than 200"),
        (r"(\pL?\pN?){400}", 0, "pattern too large"),
    ],
)
def test_errors_name_their_column(text: str, column: int, message: str) -> None:
    with pytest.raises(BreakpointError, match=message) as caught:
        check(text)
    assert caught.value.column == column


@pytest.mark.parametrize(
    "text",
    ["(a+)+x", "(a|aa)+x", "a?" * 50 + "a" * 50, ".*" * 90 + "x", r"(\w{0,31}){32}x",
     "([a-y]?[b-z]?){499}q", "(.*a.{12}){12}x"],
)  # fmt: skip
def test_work_is_bounded(text: str) -> None:
    spent = []
    for _ in range(3):  # The least of three: the machine may be busy.
        before = time.thread_time()
        check(text)
        assert not matches(text, "a" * 1000 + "!")
        spent.append(time.thread_time() - before)
    assert min(spent) < 0.1
