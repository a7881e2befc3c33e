"""Every pass, alone and with the others, on random graphs: results do not change.

`tests.conformance.graphs.checks` has the requirements. Passes come from the registry, so a new one
is covered automatically.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings

from nodescope import passes
from nodescope.passes.pipeline import LoweringOptions
from tests.conformance.graphs import Case
from tests.conformance.graphs.checks import check_lowered, check_settles, is_clean_up
from tests.conformance.graphs.drawn import graphs
from tests.conformance.graphs.loops import control_cases, control_gradients, described
from tests.conformance.graphs.networks import NETWORKS, gradient_cases, network
from tests.conformance.graphs.running import Traced
from tests.conformance.graphs.single import every_op
from tests.conformance.graphs.suite import holds, seeds
from tests.depth import count, examples

PART = 50  # seeds per test
TOGETHER = count(1000, PART)
ALONE = count(150)
GRADIENTS = count(200)
LOOPS = count(150)
KINDS_IN = 150  # seeds whose loops include every kind
EACH_LOOPS = count(25)
EXACT = [graph_pass for graph_pass in passes.all_passes() if graph_pass.exact]
CLEAN_UP = [item for item in EXACT if is_clean_up(item)]


def name(item: passes.GraphPass) -> str:
    return item.name


@pytest.mark.parametrize("first", range(0, TOGETHER, PART))
def test_all_passes(first: int) -> None:
    holds(lambda case: check_lowered(case, Traced(case)), seeds(first, PART))


@pytest.mark.parametrize("item", EXACT, ids=name)
def test_one_pass(item: passes.GraphPass) -> None:
    holds(lambda case: check_lowered(case, Traced(case), (item.name,)), seeds(0, ALONE))


@pytest.mark.parametrize("first", range(0, GRADIENTS, PART))
def test_forward_and_backward(first: int) -> None:
    holds(
        lambda case: check_lowered(case, Traced(case)), gradient_cases(first, min(PART, GRADIENTS))
    )


@pytest.mark.one_in(3)
@pytest.mark.parametrize("make_case", NETWORKS, ids=lambda item: item.__name__)
def test_training_steps(make_case: Callable[[], Case]) -> None:
    case = network(make_case)
    for chosen in (None, *((item.name,) for item in EXACT)):
        holds(lambda case, chosen=chosen: check_lowered(case, Traced(case), chosen), [case])


def test_for_another_back_end() -> None:
    options = LoweringOptions(backend="c")
    holds(lambda case: check_lowered(case, Traced(case), options=options), seeds(0, ALONE))


@pytest.mark.parametrize("item", CLEAN_UP, ids=name)
def test_cleaned_up_once_is_clean(item: passes.GraphPass) -> None:
    holds(lambda case: check_settles(case, item.name, times=1), seeds(0, ALONE))


def test_every_op_alone() -> None:
    cases = every_op()
    assert len({case.graph.nodes[-1].op for case in cases}) > 250
    holds(lambda case: check_lowered(case, Traced(case)), cases)


@pytest.mark.parametrize("first", range(0, LOOPS, PART))
def test_loops_and_branches(first: int) -> None:
    holds(lambda case: check_lowered(case, Traced(case)), control_cases(first, min(PART, LOOPS)))


@pytest.mark.parametrize("item", EXACT, ids=name)
def test_one_pass_on_loops(item: passes.GraphPass) -> None:
    holds(
        lambda case: check_lowered(case, Traced(case), (item.name,)), control_cases(0, EACH_LOOPS)
    )


def test_gradients_of_loops() -> None:
    holds(lambda case: check_lowered(case, Traced(case)), control_gradients(0, count(PART)))


@pytest.mark.deep
def test_loops_are_of_every_kind() -> None:
    result = Counter(kind for case in control_cases(0, KINDS_IN) for kind in described(case.graph))
    ops = ("scan", "cond", "while_loop")
    assert min(result[op] for op in ops) > PART // 2
    assert min(result[f"{op} in {other}"] for op in ops for other in ops) > 0
    assert min(result[f"length {item}"] for item in (0, 1, 2, 3, 9)) > 0
    assert result.keys() >= {"reverse", "several carries", "several columns", "elements"}
    assert sum(text.startswith("op ") for text in result) > 80


@settings(
    max_examples=examples(40), deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(case=graphs())
def test_graphs_that_hypothesis_draws(case: Case) -> None:
    check_lowered(case, Traced(case))
