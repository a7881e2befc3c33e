"""Times of both forms, from several runs."""

from __future__ import annotations

import pytest

from nodescope.compare.timing import WARM_UP, timings

COLD = [9_000_000] * WARM_UP


def test_warm_up_is_left_out_and_pairs_give_the_spread() -> None:
    eager = [{"f": [*COLD, 200, 220, 210]}, {"f": [*COLD, 300, 300]}]
    compiled = [{"f": [*COLD, 100, 100, 100]}, {"f": [*COLD, 100, 200]}]
    (timing,) = timings(eager, compiled)
    assert timing.pairs == pytest.approx((2.1, 2.0))
    assert (timing.eager.median_ns, timing.eager.calls) == (220, 5)
    assert (timing.compiled.low_ns, timing.compiled.high_ns) == (100, 100)


def test_too_few_calls_give_no_verdict() -> None:
    assert timings([{"f": [*COLD, 1, 1]}], [{"f": [*COLD, 1]}]) == ()
    assert timings([{"f": [*COLD, 1, 1]}], [{}]) == ()
    assert timings([], []) == ()
