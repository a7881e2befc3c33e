"""A program with a fault in its compiler: ``nodescope compare program.py FAULT CASE``.

It plays a case's graph in a compiled function for some steps, or runs an explicitly built graph in
a session. `nodescope compare` must name the fault, which has an effect only on compiled graphs.
"""

import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[3])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

import numpy as np  # noqa: E402

import nodescope as ns  # noqa: E402
from tests.conformance.graphs.networks import played  # noqa: E402
from tests.conformance.planted import PLANTED, all_planted, by_hand  # noqa: E402
from tests.conformance.planted.detectors import BACKENDS, case_of, small_tiles  # noqa: E402

STEPS = 4


class ForGood:
    """Patches that last as long as this process; pytest's would take long to import."""

    setattr = staticmethod(setattr)

    def setitem(self, things, key, value):
        """Set an item of a dictionary."""
        things[key] = value


def main(name: str, case_name: str) -> None:
    """Run the case with the fault planted; with the name ``none``, without one."""
    backend = "numpy"
    patch = ForGood()
    if name != "none":
        all_planted()
        fault = PLANTED.get(name)
        backend = BACKENDS[fault.found_by]
        if fault.found_by == "tiles":
            small_tiles(patch)
        fault.plant(patch)
    if case_name == by_hand.NAME:
        return by_hand.run(STEPS)
    case = case_of(case_name)

    @ns.compile(backend=backend)
    def play(*given):
        if name == "cse_recomputed":
            return recomputed(given[0])
        with np.errstate(all="ignore"):
            return played(case, list(given))

    feeds = [ns.tensor(feed) if isinstance(feed, np.ndarray) else feed for feed in case.feeds]
    for _ in ns.steps(range(STEPS)):
        play(*feeds)
        if name == "one_layout":  # The same elements in another layout.
            feeds = [ns.tensor(feed.numpy().T.copy()).T for feed in feeds]
    return None


def recomputed(x):
    """A gradient that recomputes a part of the forward pass."""
    part = ns.checkpoint(lambda y: ns.tanh(ns.tanh(y)))
    return ns.grad(lambda y: ns.sum(part(y) * part(y)))(x)


if __name__ == "__main__":
    main(*sys.argv[1:3])
