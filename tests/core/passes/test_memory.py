"""Memory plans: live ranges, places, and that no live value is ever overwritten."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nodescope.passes import memory
from nodescope.passes.memory import (
    ALIGNMENT,
    MemoryPlan,
    ProgramStep,
    live_ranges,
    plan_memory,
)
from tests.depth import examples


def test_a_range_goes_from_making_to_the_last_use() -> None:
    moments = [
        ProgramStep((1,), ()),
        ProgramStep((2,), (1,)),
        ProgramStep((3,), (2,)),
        ProgramStep((), (1, 3)),
    ]
    assert live_ranges(moments) == {1: (0, 3), 2: (1, 2), 3: (2, 3)}


def test_the_use_of_a_view_is_a_use_of_its_base() -> None:
    moments = [
        ProgramStep((1,), ()),
        ProgramStep((2,), (1,)),
        ProgramStep((3,), (1,)),
        ProgramStep((), (2,)),
    ]
    assert live_ranges(moments, {2: (1,)}) == {1: (0, 3), 3: (2, 2)}


def test_what_is_dead_gives_its_place_away() -> None:
    moments = [
        ProgramStep((1,), ()),
        ProgramStep((2,), (1,)),
        ProgramStep((3,), (2,)),
        ProgramStep((), (3,)),
    ]
    plan = plan_memory(moments, {1: 100, 2: 100, 3: 100})
    assert plan.offsets[1] == plan.offsets[3] != plan.offsets[2]
    assert plan.arena_bytes == 2 * 128
    assert (plan.unplanned_peak, plan.total_bytes) == (200, 300)
    assert all(offset % ALIGNMENT == 0 for offset in plan.offsets.values())


def test_in_place_only_at_the_last_use_and_of_as_many_bytes() -> None:
    def taken(moments: list[ProgramStep], sizes: dict[int, int], **more: Any) -> Any:
        return plan_memory(moments, sizes, **more).in_place

    over = ProgramStep((2,), (1,), ((2, 1),))
    start, read = ProgramStep((1,), ()), ProgramStep((), (2,))
    assert taken([start, over, read], {1: 64, 2: 64}) == ((2, 1),)
    assert taken([start, over, ProgramStep((), (1, 2))], {1: 64, 2: 64}) == ()
    assert taken([start, over, read], {1: 64, 2: 32}) == ()
    assert taken([start, over, read], {1: 64, 2: 64}, kept={1}) == ()
    assert taken([over, read], {2: 64}) == ()  # The input belongs to the caller.


def test_in_place_not_beside_another_view_of_the_operand() -> None:
    moments = [
        ProgramStep((1,), ()),
        ProgramStep((2,), (1,)),
        ProgramStep((3,), (1, 2), ((3, 1),)),
        ProgramStep((), (3,)),
    ]
    assert plan_memory(moments, {1: 64, 3: 64}, {2: (1,)}).in_place == ()


def test_a_place_is_taken_by_one_only() -> None:
    moments = [
        ProgramStep((1,), ()),
        ProgramStep((2, 3), (1,), ((2, 1), (3, 1))),
        ProgramStep((), (2, 3)),
    ]
    plan = plan_memory(moments, {1: 64, 2: 64, 3: 64})
    assert plan.in_place == ((2, 1),)
    assert plan.offsets[2] != plan.offsets[3]


def _overwritten(moments: list[ProgramStep], sizes: dict[int, int], plan: MemoryPlan,
                 bases: dict[int, tuple[int, ...]], kept: set[int]) -> str:  # fmt: skip
    """Run a plan over bytes; return which value was overwritten too early, or ``""``."""
    arena = np.full(plan.arena_bytes, -1)
    ranges = live_ranges(moments, bases)
    for now, moment in enumerate(moments):
        for value in moment.reads:
            for base in bases.get(value, (value,)):
                if base in plan.offsets and base in ranges and ranges[base][0] < now:
                    at = plan.offsets[base]
                    if not (arena[at : at + sizes[base]] == base).all():
                        return f"{base} is not whole at {now}"
        for value in moment.makes:
            if value in plan.offsets:
                at = plan.offsets[value]
                arena[at : at + sizes[value]] = value
    for value in kept & set(plan.offsets):
        at = plan.offsets[value]
        if not (arena[at : at + sizes[value]] == value).all():
            return f"{value} is not whole in the end"
    return ""


@st.composite
def programs(draw: Any) -> Any:
    moments: list[ProgramStep] = []
    sizes: dict[int, int] = {}
    bases: dict[int, tuple[int, ...]] = {}
    for value in range(1, draw(st.integers(2, 30))):
        known = list(range(1, value))
        reads = tuple(draw(st.lists(st.sampled_from(known), max_size=3))) if known else ()
        if reads and draw(st.booleans()) and draw(st.booleans()):
            bases[value] = tuple({b for r in reads for b in bases.get(r, (r,))})
            moments.append(ProgramStep((value,), reads))
            continue
        sizes[value] = draw(st.sampled_from([0, 1, 64, 64, 100, 200, 1000]))
        replaces = tuple((value, r) for r in reads if r not in bases and draw(st.booleans()))
        moments.append(ProgramStep((value,), reads, replaces))
    unplaced = draw(st.sets(st.sampled_from(sorted(sizes)), max_size=3)) if sizes else set()
    for value in unplaced:
        del sizes[value]
    kept = draw(st.sets(st.sampled_from(sorted(sizes)), max_size=3)) if sizes else set()
    return moments, sizes, bases, kept


@settings(max_examples=examples(300), deadline=None)
@given(programs(), st.booleans())
def test_no_live_value_is_overwritten(program: Any, in_turn: bool) -> None:
    moments, sizes, bases, kept = program
    before = memory._SORTED_MOST
    memory._SORTED_MOST = 0 if in_turn else before
    try:
        plan = plan_memory(moments, sizes, bases, kept)
    finally:
        memory._SORTED_MOST = before
    assert _overwritten(moments, sizes, plan, bases, kept) == ""
    assert set(plan.offsets) == set(sizes)
    assert plan.arena_bytes <= sum(-(-size // 64) * 64 for size in sizes.values())
    ends = [plan.offsets[v] + sizes[v] for v in sizes]
    assert max(ends, default=0) <= plan.arena_bytes


def test_a_simulation_finds_a_broken_plan() -> None:
    moments = [ProgramStep((1,), ()), ProgramStep((2,), ()), ProgramStep((), (1, 2))]
    broken = MemoryPlan({1: 0, 2: 0}, 64)
    assert _overwritten(moments, {1: 64, 2: 64}, broken, {}, set()) != ""
