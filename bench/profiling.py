"""Profiles of compiled programs by node: `python -m bench --profile mlp [--threads 2]`.

Invariant: the timed plan is the one that a call runs; the back end itself takes the time stamps.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import numpy as np

from bench import programs
from bench.measure import seconds
from bench.plans import Plan, plan_of
from bench.programs.case import OURS, Case
from nodescope.ir.graph import Graph, Node

RUNS = 30
MOST = 40  # the largest number of nodes in a table


def lines(program: str) -> Iterator[str]:
    """A table per case and back end: the slowest nodes, and the overhead of a call."""
    for case in programs.cases(program):
        for backend in OURS:
            yield f"{case.name}, {backend}"
            try:
                plan = plan_of(case, backend)
            except RuntimeError as error:
                yield f"  not measured: {error}\n"
                continue
            yield from _table(case, backend, plan)
            yield ""


def _table(case: Case, backend: str, plan: Plan) -> Iterator[str]:
    nodes = [n for n in plan.lowered.graph.nodes if n.family != "leaf"]
    stamps = np.zeros((RUNS, 2 * len(nodes)), np.int64)
    plan.runner.run_timed(plan.feeds, stamps[0])
    for row in stamps:
        plan.runner.run_timed(plan.feeds, row)
    took = np.median(stamps[:, 1::2] - stamps[:, ::2], axis=0) / 1e3
    span = float(np.median(stamps[:, -1] - stamps[:, 0])) / 1e3 if len(nodes) else 0.0
    contender = case.makers[backend]()
    contender.run()
    alone = _us(lambda: plan.runner.run(plan.feeds))
    call = _us(contender.run)
    total = float(took.sum())
    yield (
        f"  {len(nodes)} kernels {total:.1f} us; first to last {span:.1f} us; "
        f"a run {alone:.1f} us; a call {call:.1f} us"
    )
    specs = {value.id: value.spec for value in plan.lowered.graph.values}
    for i in np.argsort(-took)[:MOST]:
        node = nodes[i]
        outputs = ", ".join(f"{specs[v].dtype}{list(specs[v].shape)}" for v in node.outputs)
        share = f"{took[i]:10.1f} us {took[i] / total:6.1%}"
        yield f"  {share}  %{node.id:<5} {_what(node)}  -> {outputs}"
    if len(nodes) > MOST:
        rest = float(np.sort(took)[:-MOST].sum())
        yield f"  {rest:10.1f} us {rest / total:6.1%}  {len(nodes) - MOST} more"


def _us(call) -> float:  # type: ignore[no-untyped-def]
    return statistics.median(seconds(call, 1) for _ in range(RUNS)) * 1e6


def _what(node: Node) -> str:
    """A node's op and scope; for a fused node, its pattern, members and scope."""
    body = node.attrs.get("body")
    if node.op != "fused" or not isinstance(body, Graph):
        return f"{node.op}  {node.scope}".rstrip()
    members = [n.op for n in body.nodes if n.family != "leaf"]
    return f"{node.attrs['pattern']}({', '.join(members)})  {node.scope}".rstrip()
