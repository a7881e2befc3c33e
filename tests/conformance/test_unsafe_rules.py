"""The rules that may change bits: within their bounds where they are asked for, and off otherwise.

A rule that is new has to come with a pattern, in `tests.conformance.graphs.unsafe`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nodescope import passes
from nodescope.engine.codegen.backend import get
from nodescope.passes.pipeline import Lowered, Options
from tests.conformance.graphs.bounds import outside
from tests.conformance.graphs.checks import (
    check_effects,
    check_graph,
    check_lowered,
    check_provenance,
    lowered_of,
    need,
    said_of,
)
from tests.conformance.graphs.running import Traced, every_value, quiet
from tests.conformance.graphs.same import check_same
from tests.conformance.graphs.unsafe import PATTERNS, Patterned, allowed, patterned
from tests.depth import count

UNSAFE = [rule.name for each in passes.all_passes() for rule in each.rules if not rule.exact]
GRAPHS = count(25)
TOGETHER = count(25)


def test_every_unsafe_rule_has_a_pattern() -> None:
    assert sorted(PATTERNS) == sorted(UNSAFE)


def fired(found: Lowered) -> set[str]:
    """Names of the unsafe rules that were used, inside of bodies too."""
    said = " ".join(f"/{each.rule} {each.note}," for each in found.rewrites)
    words = said.replace(",", " ").replace(";", " ").split()
    return {each.rpartition("/")[2] for each in words} & {*UNSAFE}


def check_unsafe(each: Patterned, rules: Sequence[str]) -> Lowered:
    """Lowered with these rules, each value is where it may be, and the graph says what it is."""
    case, traced, where = each.case, Traced(each.case), allowed(each)
    found = lowered_of(case, options=Options(unsafe=frozenset(rules)))
    check_graph(case, found)
    outputs, values = every_value(found.graph, found.arrays, case.feeds)
    for value, one in zip(case.graph.outputs, outputs, strict=True):
        said = outside(one, where[value])
        need(not said, f"%{value}: {said}\n{said_of(found)}", case)
    check_provenance(case, traced, found, values, lambda value, now: outside(now, where[value]))
    check_effects(case, found)
    with quiet():
        again = get("numpy").build(found).run(list(case.feeds))
    check_same(again, outputs, f"the back end numpy, {said_of(found)}", case)
    return found


@pytest.mark.parametrize("rule", UNSAFE)
def test_one_rule(rule: str) -> None:
    in_bodies = 0
    for seed in range(GRAPHS):
        each = patterned([rule], seed)
        plain = check_lowered(each.case, Traced(each.case))
        assert not fired(plain)
        found = check_unsafe(each, [rule])
        assert fired(found) == {rule}, f"{rule} is not used:\n{each.case}"
        in_bodies += all(rewrite.rule != rule for rewrite in found.rewrites)
    assert 0 < in_bodies < GRAPHS


def test_all_rules_together() -> None:
    seen: set[str] = set()
    for seed in range(TOGETHER):
        each = patterned(UNSAFE, seed)
        check_lowered(each.case, Traced(each.case))
        seen |= fired(check_unsafe(each, ["all"]))
    assert seen == {*UNSAFE}
