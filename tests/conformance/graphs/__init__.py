"""Random graphs for the compiler's tests: made by seed or by Hypothesis, run, shrunk, printed."""

from __future__ import annotations

from tests.conformance.graphs.choose import Seeded
from tests.conformance.graphs.making import Case
from tests.conformance.graphs.random_graph import random_case

__all__ = ["Case", "Seeded", "random_case"]
