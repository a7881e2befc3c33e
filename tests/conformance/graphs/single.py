"""Graphs of one node: every op, on its own samples.

Invariant: every op with samples is included.
"""

from __future__ import annotations

import numpy as np

from nodescope import ops
from nodescope.ops.calls import Scalar
from nodescope.ops.op import Op
from tests.conformance.graphs.choose import Choices, Seeded
from tests.conformance.graphs.making import Case, Making


def single_cases(op: Op, most: int = 3) -> list[Case]:
    """The op on some of its samples; half of the arrays are fed, the others are constants."""
    results = []
    samples = list(op.samples(np.random.default_rng(5)))
    if not samples and op.elementwise and not op.is_leaf:
        rng = np.random.default_rng(6)
        arrays = tuple(rng.uniform(*op.domain, (3, 4)) for _ in op.ports)
        whole = tuple(a.astype("int64") for a in arrays)
        samples = [(arrays, {}), (whole, {})]  # type: ignore[list-item]
    for number, (inputs, attrs) in enumerate(samples[:most]):
        m = Making(Choices(Seeded(number)))
        cases_given = []
        for i, x in enumerate(inputs):
            if not isinstance(x, np.ndarray | np.generic):
                cases_given.append(Scalar(x))
                continue
            array = np.asarray(x)
            cases_given.append(m.constant(array) if i + number & 1 else m.input(array))
        outputs = m.node(op.name, cases_given, attrs)
        if outputs:
            results.append(m.finish(f"{op.name}, sample {number}", outputs))
    return results


def every_op() -> list[Case]:
    """The cases of all ops."""
    wanted = (op for op in ops.all_ops() if not op.is_leaf)
    return [case for op in wanted for case in single_cases(op)]
