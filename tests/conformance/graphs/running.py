"""Results of a traced case, computed once."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from nodescope.engine.crosscheck.values import every_value, quiet
from nodescope.ops.plan import Plan
from tests.conformance.graphs.making import Case


class Traced:
    """The results of a traced case, computed when first needed."""

    def __init__(self, case: Case) -> None:
        self.case = case
        before = [np.array(feed, copy=True) for feed in case.feeds]
        with quiet():
            self.outputs = Plan(case.graph, case.arrays).run(case.feeds)
        self.before = before

    @functools.cached_property
    def values(self) -> dict[int, Any]:
        return every_value(self.case.graph, self.case.arrays, self.case.feeds)[1]
