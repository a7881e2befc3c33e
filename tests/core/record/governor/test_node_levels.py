"""The governor alone: fed with windows of made-up programs, on a clock that is their sum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodescope.events import LEVELS, Level
from nodescope.record.governor.node_levels import (
    LADDERS,
    Account,
    NodeLevels,
    Rung,
    Verdict,
    Window,
)
from nodescope.record.governor.reports import kept, lowered, stuck
from nodescope.record.rows import Governed, Keeping

WINDOW_NS = 500_000_000
# What an execution costs at each rung, as a share of what it costs at the first.
SHARES: dict[Rung, float] = {
    "values": 1.0, "summary": 0.6, "timing": 0.2, "graph": 0.2, "thinned": 0.04, "counted": 0.02
}  # fmt: skip


class Program:
    """Nodes that cost what they cost; the governor is obeyed.

    Args:
        nodes: Ceiling and nanoseconds that recording takes there, per window of the program.
        by_hand: Which of them have a level that a person chose.
        fixed_ns: What observing takes whatever is recorded.
    """

    def __init__(
        self, nodes: Sequence[tuple[Level, int]], *, by_hand: Sequence[int] = (), fixed_ns: int = 0
    ) -> None:
        self.nodes, self.by_hand, self.fixed_ns = nodes, set(by_hand), fixed_ns
        self.accounts = [
            Account(
                number + 1, f"node_{number}", ceiling, outputs=1, by_hand=number in self.by_hand
            )
            for number, (ceiling, _) in enumerate(nodes)
        ]
        self.changes = [0] * len(nodes)

    @property
    def rungs(self) -> list[int]:
        return [account.rung for account in self.accounts]

    def window(self) -> Window:
        writing = 0
        for account, (_, cost) in zip(self.accounts, self.nodes, strict=True):
            now = int(cost * SHARES[account.rungs[account.rung]] / SHARES[account.rungs[0]])
            writing += now // 2
            account.n += 100
            account.spent_ns, account.weight = now - now // 2, now // 2
        observing = sum(account.spent_ns for account in self.accounts) + self.fixed_ns
        return Window(WINDOW_NS, observing, writing, list(self.accounts))

    def slowdown(self) -> float:
        window = self.window()
        return 1 + (window.observing_ns + window.writing_ns) / WINDOW_NS

    def obey(self, verdict: Verdict) -> None:
        for change in verdict.changes:
            number = self.accounts.index(change.account)
            assert change.rung != change.before == self.rungs[number]
            change.account.place(change.rung)
            self.changes[number] += 1
        for account in self.accounts:
            account.close_window()

    def run(self, governor: NodeLevels, windows: int) -> list[Verdict]:
        verdicts = []
        for _ in range(windows):
            verdicts.append(governor.decide(self.window()))
            self.obey(verdicts[-1])
        return verdicts


PROGRAMS = st.lists(
    st.tuples(st.sampled_from(LEVELS), st.integers(0, 4 * WINDOW_NS)), min_size=1, max_size=12
)
LIMITS = st.floats(1.05, 8)


@given(PROGRAMS, LIMITS, st.sets(st.integers(0, 11)), st.integers(0, WINDOW_NS))
def test_it_converges_within_the_ladders(
    nodes: list[tuple[Level, int]], limit: float, by_hand: set[int], fixed_ns: int
) -> None:
    program = Program(nodes, by_hand=sorted(by_hand), fixed_ns=fixed_ns)
    governor = NodeLevels(limit)
    verdicts = program.run(governor, 60)
    for number, (ceiling, _) in enumerate(nodes):
        assert 0 <= program.rungs[number] < len(LADDERS[ceiling])
        if number in by_hand:
            assert program.rungs[number] == 0
            assert program.changes[number] == 0
    lowest = all(
        program.rungs[number] + 1 == len(LADDERS[ceiling])
        for number, (ceiling, _) in enumerate(nodes)
        if number not in by_hand
    )
    if program.slowdown() > limit:
        # Only where nothing is left to lower, and then it is said.
        assert lowest
        assert any(verdict.stuck for verdict in verdicts)


@given(PROGRAMS, LIMITS)
def test_it_does_not_flap(nodes: list[tuple[Level, int]], limit: float) -> None:
    program = Program(nodes)
    governor = NodeLevels(limit)
    program.run(governor, 200)
    early = list(program.changes)
    program.run(governor, 400)
    # Two changes each time a raise proves too early, and those are ever rarer.
    assert all(later - before <= 12 for before, later in zip(early, program.changes, strict=True))


@given(PROGRAMS, LIMITS)
def test_a_program_within_the_limit_is_left_alone(
    nodes: list[tuple[Level, int]], limit: float
) -> None:
    program = Program(nodes)
    if program.slowdown() <= limit:
        program.run(NodeLevels(limit), 20)
        assert not any(program.changes)


ODD = st.integers(-(10**12), 10**12) | st.just(0)


@given(
    st.lists(
        st.tuples(
            ODD, ODD, ODD,
            st.lists(st.tuples(st.sampled_from(LEVELS), st.integers(0, 9), ODD), max_size=5),
        ),
        max_size=6,
    )
)  # fmt: skip
def test_odd_measurements_are_survived(given_windows: list[Any]) -> None:
    governor = NodeLevels(1.5)
    for program_ns, observing_ns, writing_ns, nodes in given_windows:
        accounts = [Account(1, "n", level, outputs=1) for level, _, _ in nodes]
        for account, (_, runs, spent) in zip(accounts, nodes, strict=True):
            account.n, account.spent_ns = runs, spent
        verdict = governor.decide(Window(program_ns, observing_ns, writing_ns, accounts))
        assert verdict.before >= 1
        assert not math.isnan(verdict.after)
        assert not math.isnan(governor.slowdown)


def test_the_dearest_goes_first_and_no_further_than_it_must() -> None:
    program = Program([("values", 10_000_000), ("values", 400_000_000), ("values", 20_000_000)])
    governor = NodeLevels(1.5)
    governor.look(Window(100 * WINDOW_NS, 0, 0, ()))  # so that nothing is owed
    verdict = governor.decide(program.window())
    assert [change.account.name for change in verdict.changes] == ["node_1"]
    program.obey(verdict)
    assert program.rungs[0] == program.rungs[2] == 0
    assert verdict.before == pytest.approx(1.86)
    assert verdict.after < 1.5


def test_what_became_cheap_is_raised_again_and_what_was_raised_too_early_waits_longer() -> None:
    program = Program([("values", 2 * WINDOW_NS)])
    governor = NodeLevels(1.5)
    program.run(governor, 5)
    assert program.rungs[0] > 0
    program.nodes = [("values", 1_000_000)]
    program.run(governor, 60)
    assert program.rungs[0] == 0
    program.nodes = [("values", 2 * WINDOW_NS)]
    program.run(governor, 5)
    program.nodes = [("values", 1_000_000)]
    again = [bool(item.changes) for item in program.run(governor, 60)]
    assert True in again
    assert program.rungs[0] == 0


def test_a_debt_is_paid_back() -> None:
    program = Program([("values", 20 * WINDOW_NS)])
    governor = NodeLevels(2)
    program.run(governor, 1)
    assert governor.slowdown > 2
    program.run(governor, 100)
    assert governor.slowdown <= 2


def test_a_limit_that_cannot_be_kept_is_said_with_its_number() -> None:
    program = Program([("values", WINDOW_NS)], fixed_ns=WINDOW_NS)
    governor = NodeLevels(1.5)
    verdicts = program.run(governor, 3)
    assert verdicts[-1].stuck
    assert not verdicts[-1].changes
    assert stuck(verdicts[-1], 1.5) == (
        "the limit of 1.5× cannot be met: with as little recorded as allowed, "
        "a run takes about 2.02× as long"
    )


def test_levels_set_by_hand_are_named_as_the_reason() -> None:
    program = Program([("values", WINDOW_NS), ("values", WINDOW_NS // 5)], by_hand=[0])
    verdicts = program.run(NodeLevels(1.5), 3)
    assert program.rungs[0] == 0
    said = stuck(verdicts[-1], 1.5)
    assert said.endswith("takes about 2× as long (1× without the levels set by hand)")


def test_the_line_names_how_many_from_where_to_where_and_the_costliest() -> None:
    program = Program([("values", 30 * WINDOW_NS), ("summary", 9 * WINDOW_NS)])
    verdict = NodeLevels(1.5).decide(program.window())
    line = lowered(verdict.changes, verdict.before, verdict.after, 1.5)
    assert line.startswith("recording slows the program about 40×, the limit is 1.5×: ")
    assert "less is recorded of 2 nodes, values to " in line
    assert "summary to " in line
    assert "costliest node_0, node_1." in line


@pytest.mark.parametrize(("before", "after"), [(3.28, 39.0), (3.28, 2.5), (40.0, 12.0)])
def test_the_line_never_contradicts_itself(before: float, after: float) -> None:
    verdict = NodeLevels(3).decide(Program([("values", 30 * WINDOW_NS)]).window())
    line = lowered(verdict.changes, before, after, 3)
    if after <= 3:
        assert line.endswith("Expected from now on: 2.5×")
        return
    assert "Expected" not in line
    said = f"about {max(before, after):g}×, the limit is 3×"
    assert said in line
    assert line.endswith("above the limit")


@pytest.mark.parametrize("limit", [1, 0.5, 0, -2, math.nan, math.inf])
def test_no_limit(limit: float) -> None:
    with pytest.raises(ValueError, match="above 1"):
        NodeLevels(limit)


def test_the_last_line_says_what_was_kept_by_default() -> None:
    keeping = Keeping("summary", limit=2.0, newest_steps=2, chosen=False)
    stepped = Governed(2.0, 1.62, steps=276, steps_left_out=260, extra_s=1.2)
    assert kept(keeping, stepped) == (
        "kept statistics of every observed value, whole values of the last 2 observed steps; 16 of "
        "276 steps observed; about 1.62× slower (limit 2×). --level values keeps every element"
    )
    without = Governed(2.0, 1.45, executions=7, summaries=9, extra_s=0.3, values=1_012)
    assert kept(keeping, without).startswith(
        "kept statistics of 1,003 of 1,012 observed values, the newest values whole; about 1.45× "
        "slower"
    )
    crowded = msgspec.structs.replace(keeping, made_room=10_915, newest_bytes=64 * 2**20)
    for steps, words in {
        (21,): "2 observed steps and of step 21, where NaN or Inf first appeared; 16",
        (0, 1, 21): "and of steps 1 and 21, where NaN or Inf first appeared and around the first "
        "NaN or Inf outside of steps; 16",
    }.items():
        assert words in kept(msgspec.structs.replace(keeping, nonfinite_steps=steps), stepped)
    assert "of the last 2 observed steps as far as 64 MiB hold them; 16 of" in kept(
        crowded, stepped
    )


def test_of_little_time_no_factor_is_told() -> None:
    keeping = Keeping("summary", limit=2.0, newest_steps=2, chosen=False)
    short = Governed(2.0, 2.53, steps=240, steps_left_out=12, extra_s=0.12)
    assert "; about 0.1 s slower. --level" in kept(keeping, short)
    called = Governed(2.0, 1.6, steps=9, calls=40, calls_left_out=24, extra_s=2.0)
    assert "; 16 of 40 calls outside of steps observed; about 1.6×" in kept(keeping, called)
