"""A compiled function's plan, without the call around it.

Invariant: the objects are those that a call uses; nothing is lowered or built again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.programs.case import BACKENDS, Case
from bench.programs.ours import lowering_of, not_as_asked
from nodescope.engine.codegen.backend import Runner
from nodescope.passes.pipeline import Lowered


@dataclass(frozen=True)
class Plan:
    """A lowered graph, its runner and the feeds for ``runner.run(feeds)``."""

    lowered: Lowered
    runner: Runner
    feeds: list[Any]


def plan_of(case: Case, name: str) -> Plan:
    """The plan of a case for one of nodescope's back ends.

    Raises:
        RuntimeError: The back end cannot be used here; the message says why.
    """
    contender = case.makers[name]()
    contender.run()
    if missing := not_as_asked(contender.compiled, BACKENDS[name]):
        raise RuntimeError(missing)
    lowering = lowering_of(contender.compiled)
    assert lowering.lowered is not None
    assert lowering.runner is not None
    program = contender.compiled.graph(*contender.inputs)
    values = dict(program.state)
    for (_, value), operand in zip(program._arguments, contender.inputs, strict=True):
        values[value] = operand.data
    feeds = [values[value] for value in lowering.lowered.graph.inputs]
    return Plan(lowering.lowered, lowering.runner, feeds)
