"""Rules that may change bits: within their error bounds if requested, and off by default.

A new rule needs a pattern in `tests.conformance.graphs.unsafe`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nodescope import passes
from nodescope.engine.codegen.backend import get
from nodescope.engine.crosscheck.bounds import outside
from nodescope.engine.crosscheck.values import every_value, quiet
from nodescope.passes.pipeline import Lowered, LoweringOptions
from tests.conformance.graphs.checks import (
    check_effects,
    check_graph,
    check_lowered,
    check_provenance,
    lowered_of,
    need,
    said_of,
)
from tests.conformance.graphs.running import Traced
from tests.conformance.graphs.same import check_same
from tests.conformance.graphs.unsafe import PATTERNS, Patterned, allowed, patterned
from tests.depth import count

UNSAFE = [
    rule.name for graph_pass in passes.all_passes() for rule in graph_pass.rules if not rule.exact
]
GRAPHS = count(25, 5)  # with fewer graphs, a rule may not occur in a body
TOGETHER = count(25)


def test_every_unsafe_rule_has_a_pattern() -> None:
    assert sorted(PATTERNS) == sorted(UNSAFE)


def fired(result: Lowered) -> set[str]:
    """The names of the unsafe rules that were applied, also inside bodies."""
    rewrites = " ".join(f"/{rewrite.rule} {rewrite.note}," for rewrite in result.rewrites)
    words = rewrites.replace(",", " ").replace(";", " ").split()
    return {word.rpartition("/")[2] for word in words} & {*UNSAFE}


def check_unsafe(item: Patterned, rules: Sequence[str]) -> Lowered:
    """Check that with these rules each value is within its bounds, and the graph is still valid."""
    case, traced, where = item.case, Traced(item.case), allowed(item)
    result = lowered_of(case, options=LoweringOptions(unsafe=frozenset(rules)))
    check_graph(case, result)
    outputs, values = every_value(result.graph, result.arrays, case.feeds)
    for value, output in zip(case.graph.outputs, outputs, strict=True):
        message = outside(output, where[value])
        need(not message, f"%{value}: {message}\n{said_of(result)}", case)
    check_provenance(case, traced, result, values, lambda value, now: outside(now, where[value]))
    check_effects(case, result)
    with quiet():
        again = get("numpy").build(result).run(list(case.feeds))
    check_same(again, outputs, f"the back end numpy, {said_of(result)}", case)
    return result


@pytest.mark.parametrize("rule", UNSAFE)
def test_one_rule(rule: str) -> None:
    in_bodies = 0
    for seed in range(GRAPHS):
        item = patterned([rule], seed)
        plain = check_lowered(item.case, Traced(item.case))
        assert not fired(plain)
        result = check_unsafe(item, [rule])
        assert fired(result) == {rule}, f"{rule} is not used:\n{item.case}"
        in_bodies += all(rewrite.rule != rule for rewrite in result.rewrites)
    assert 0 < in_bodies < GRAPHS


def test_all_rules_together() -> None:
    seen: set[str] = set()
    for seed in range(TOGETHER):
        item = patterned(UNSAFE, seed)
        check_lowered(item.case, Traced(item.case))
        seen |= fired(check_unsafe(item, ["all"]))
    assert seen == {*UNSAFE}
