"""An explicitly built graph with waiting nodes and effects, on which some faults show.

Invariant: every run adds the same; some nodes are ordered by control edges alone.
"""

from __future__ import annotations

import numpy as np

import nodescope as ns

NAME = "by hand"


def run(steps: int) -> None:
    """Run the graph in a session for a number of steps."""
    with ns.Graph().as_default() as graph:
        x = ns.placeholder(np.float32, (4,), name="x")
        total = ns.variable(np.zeros(4, np.float32), name="total")
        measured = np.exp(x)
        with ns.control_dependencies([measured.op]):
            first = ns.assign_add(total, x)
        second = ns.assign_add(total, x)
        third = ns.assign_add(total, x)
        soon = -x
        with ns.control_dependencies([second.op, third.op]):
            late = -x
        ns.global_variables_initializer()
    with ns.Session(graph) as session:
        session.run("init")
        for step in ns.steps(range(steps)):
            session.run([first, second, third, late, soon], {x: np.full(4, step, np.float32)})
