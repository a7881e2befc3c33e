"""Random graphs for the compiler's tests: made by seed or by Hypothesis, run, shrunk, printed."""

from __future__ import annotations

from tests.conformance.graphs.choose import Drawn, Seeded
from tests.conformance.graphs.making import Case
from tests.conformance.graphs.random_graph import graphs, random_case

__all__ = ["Case", "Drawn", "Seeded", "graphs", "random_case"]
