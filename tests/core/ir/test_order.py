"""The order of nodes: what is needed first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nodescope.ir.order import in_order

NEEDS = st.dictionaries(st.integers(0, 12), st.sets(st.integers(0, 12), max_size=4), max_size=13)


@given(NEEDS)
def test_each_comes_after_what_it_needs_and_only_cycles_are_left_out(
    needs: dict[int, set[int]],
) -> None:
    needs = {number: {key for key in keys if key in needs} for number, keys in needs.items()}
    done = in_order(needs)
    assert len(set(done)) == len(done)
    for place, number in enumerate(done):
        assert needs[number] <= set(done[:place])
    # Each omitted node needs another omitted node.
    rest = set(needs) - set(done)
    assert all(needs[number] & rest for number in rest)


def test_depth_first_and_the_smaller_first() -> None:
    assert in_order({1: (), 2: (), 3: (2,), 4: (1,), 5: (3, 4)}) == [1, 4, 2, 3, 5]
