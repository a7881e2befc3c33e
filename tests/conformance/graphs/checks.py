"""Requirements on every lowered graph; each check raises `Differs` if one is violated.

Invariant: checks look at graphs, provenance and results only, so they apply to any pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from nodescope import ops, passes
from nodescope.engine.crosscheck.values import every_value
from nodescope.errors import NodescopeError
from nodescope.ir.graph import Graph, Node, TensorSpec
from nodescope.ir.text import parse_graph, print_graph
from nodescope.ir.verify import verify
from nodescope.ops.checking import inferred
from nodescope.ops.plan import needed
from nodescope.ops.traits import traits_of
from nodescope.passes.pipeline import Lowered, LoweringOptions, lower
from tests.conformance.graphs.making import Case
from tests.conformance.graphs.running import Traced
from tests.conformance.graphs.same import Differs, check_same, difference


def need(holds: object, claim: str, case: Case, lowered: Lowered | None = None) -> None:
    """Raise `Differs`, with the graphs, unless a condition holds."""
    if not holds:
        after = "" if lowered is None else f"\nlowered:\n{print_graph(lowered.graph)}"
        raise Differs(f"{claim}\n{case}{after}")


def lowered_of(
    case: Case, chosen: Sequence[str] | None = None, options: LoweringOptions | None = None
) -> Lowered:
    """The case lowered; passes must not change their input."""
    before, contents = print_graph(case.graph), {k: v.tobytes() for k, v in case.arrays.items()}
    try:
        result = lower(case.graph, case.arrays, chosen, options)
    except (NodescopeError, AssertionError, LookupError, TypeError, ValueError) as error:
        raise Differs(f"{chosen or 'all passes'}: {error!r}\n{case}") from error
    need(print_graph(case.graph) == before, "a pass changed the traced graph", case)
    now = {k: v.tobytes() for k, v in case.arrays.items()}
    need(now == contents, "a pass changed a constant", case)
    return result


def check_graph(case: Case, lowered: Lowered) -> None:
    """Check that the graph is well-formed, and its text complete."""
    graph = lowered.graph
    try:
        verify(graph, inferred)
    except NodescopeError as error:
        raise Differs(f"{error}\n{case}") from error
    need(graph.inputs == case.graph.inputs, "other inputs", case, lowered)
    for stage in lowered.stages:
        check_bodies(stage.after, f"after {stage.name}", case)
    text = print_graph(graph)
    again = parse_graph(text)
    need(print_graph(again) == text, "its text is read as another graph", case, lowered)


def check_bodies(graph: Graph, when: str, case: Case) -> None:
    """Check that bodies are well-formed, and fit their nodes' inputs and outputs."""
    specs = {value.id: value.spec for value in graph.values}
    for node in graph.nodes:
        for name, body in node.attrs.items():
            if not isinstance(body, Graph):
                continue
            try:
                verify(body, inferred)
            except NodescopeError as error:
                raise Differs(f"{when}, {node.name}, {name}: {error}\n{case}") from error
            check_bodies(body, when, case)
            known = {value.id: value.spec for value in body.values}
            specs_of_inputs = [specs[value] for value in node.inputs]
            if node.op == "scan":
                rows = slice(node.attrs["carries"], node.attrs["carries"] + node.attrs["columns"])
                specs_of_inputs[rows] = [
                    TensorSpec(spec.shape[1:], spec.dtype) for spec in specs_of_inputs[rows]
                ]
            elif node.op == "cond":
                specs_of_inputs = specs_of_inputs[1:]
            place = f"{when}, {node.name}, {name}"
            need(
                [known[value] for value in body.inputs] == specs_of_inputs,
                f"{place}: takes others",
                case,
            )
            count = node.attrs.get("carries", len(node.outputs)) if name != "condition" else 0
            ends = [known[value] for value in body.outputs[:count]]
            need(ends == [specs[v] for v in node.outputs[:count]], f"{place}: gives others", case)


def check_results(case: Case, traced: Traced, lowered: Lowered) -> dict[int, Any]:
    """Check that outputs are bit-identical to the traced graph's, and feeds are unchanged.

    Returns:
        Every value of the lowered graph.
    """
    outputs, values = every_value(lowered.graph, lowered.arrays, case.feeds)
    check_same(outputs, traced.outputs, said_of(lowered), case)
    for feed, before in zip(case.feeds, traced.before, strict=True):
        need(not isinstance(feed, np.ndarray) or not difference(feed, before),
             "a feed was written to", case, lowered)  # fmt: skip
    return values


def said_of(lowered: Lowered) -> str:
    rewrites = "\n  ".join(map(str, lowered.rewrites))
    return f"after\n  {rewrites}\ngives\n{print_graph(lowered.graph)}"


def check_provenance(
    case: Case,
    traced: Traced,
    lowered: Lowered,
    values: dict[int, Any],
    differs: Callable[[int, Any], str] | None = None,
) -> None:
    """Check that traced nodes have fates, final nodes have origins, and stand-ins the right values.

    Args:
        case: The graph.
        traced: Its values.
        lowered: The graph after the passes.
        values: The lowered graph's values.
        differs: Tells how an array differs from a traced value; None to compare bits.
    """
    result = lowered.provenance
    if differs is None:

        def differs(value: int, now: Any) -> str:
            return difference(now, np.asarray(traced.values[value]))

    known = {node.id for node in case.graph.nodes}
    final = {node.id for node in lowered.graph.nodes}
    need(result.fates.keys() == known, "a traced node has no fate", case, lowered)
    for fate in result.fates.values():
        need(set(fate.into) <= final, f"@{fate.node}: {fate}: is no node", case, lowered)
        need(fate.kind == "kept" or fate.by, f"@{fate.node}: {fate}: by nobody", case, lowered)
        need(fate.into or fate.kind not in ("kept", "fused"), f"@{fate.node} {fate} nowhere", case,
             lowered)  # fmt: skip
    for node in lowered.graph.nodes:
        need(set(node.origin) <= known, f"{node.name} comes from nowhere", case, lowered)
        leaf = node.is_leaf and node.id not in known
        need(node.origin or leaf, f"{node.name} has no origin", case, lowered)
    for value in (v.id for v in case.graph.values):
        now = result.value(value)
        kernel = result.kernel(value)
        if now is None and kernel is not None:
            need(kernel[0] in final, f"%{value} is in no kernel", case, lowered)
            now = kernel[1]
        if now is None:
            continue
        need(now in values, f"%{value} is said to be %{now}, which is not made", case, lowered)
        message = differs(value, np.asarray(values[now]))
        if message and value not in case.graph.inputs:
            raise Differs(f"%{value} is said to be %{now}: {message}\n{case}\n{said_of(lowered)}")


def check_effects(case: Case, lowered: Lowered) -> None:
    """Check that effects stay, in order, that waiting nodes still wait, and copies stay copies.

    If no variable is read, nothing sees what ``assign`` writes before the end: it may be part of a
    kernel, and run in any order.
    """
    reads = any(n.op == "read" for n in case.graph.nodes)
    effects = [n for n in case.graph.nodes if traits_of(n.op).state]
    needed = _needed(case.graph)
    effects = [n for n in effects if n.id in needed]
    final = {node.id: place for place, node in enumerate(lowered.graph.nodes)}
    by_id = {node.id: node for node in lowered.graph.nodes}
    fates = lowered.provenance.fates
    places = []
    for node in effects:
        free = node.op == "assign" and not reads
        into = [i for i in fates[node.id].into
                if by_id[i].op == node.op or (free and by_id[i].op == "fused")]  # fmt: skip
        need(into, f"{node.name} has an effect and is gone", case, lowered)
        if not free:
            places.append(final[into[-1]])
    need(places == sorted(places), "effects happen in another order", case, lowered)
    need(len(set(places)) == len(places), "two effects became one", case, lowered)
    for node in case.graph.nodes:
        for control in node.control_inputs:
            before, after = fates[control].into, fates[node.id].into
            need(
                before or not after,
                f"@{node.id} waits for @{control}, which is gone",
                case,
                lowered,
            )
            if before and after and set(before).isdisjoint(after):
                need(
                    min(final[i] for i in before) < max(final[i] for i in after)
                    and _reaches(lowered.graph, set(before), set(after)),
                    f"@{node.id} does not wait for @{control} any more", case, lowered,
                )  # fmt: skip
    _check_recomputed(case, lowered)


def _check_recomputed(case: Case, lowered: Lowered) -> None:
    for stage in lowered.stages:
        phases = {node.id: node.phase for g in (stage.before, stage.after) for node in g.nodes}
        for rewrite in stage.rewrites:
            if rewrite.change != "merged":
                continue
            kinds = {phases.get(i, "") == "recompute" for i in (*rewrite.before, *rewrite.after)}
            need(len(kinds) < 2, f"{rewrite} merges what is to be computed again", case, lowered)


def _needed(graph: Graph) -> set[int]:
    return {node.id for node in needed(graph, graph.outputs, graph.inputs)}


def _reaches(graph: Graph, before: set[int], after: set[int]) -> bool:
    """Whether edges lead from one node to another."""
    makers = {value: node.id for node in graph.nodes for value in node.outputs}
    reached = set(before)
    for node in graph.nodes:
        if not reached.isdisjoint(node.control_inputs) or not reached.isdisjoint(
            makers.get(value, 0) for value in node.inputs
        ):
            reached.add(node.id)
    return not reached.isdisjoint(after)


def check_memory(case: Case, traced: Traced, outputs: Sequence[Any], claim: str) -> None:
    """Check that results share memory with feeds, constants and each other only as when traced."""
    arrays = [*case.feeds, *case.arrays.values()]
    arrays = [other for other in arrays if isinstance(other, np.ndarray)]
    for position, (now, then) in enumerate(zip(outputs, traced.outputs, strict=True)):
        for other in arrays:
            if np.may_share_memory(now, other) and not np.may_share_memory(then, other):
                raise Differs(f"{claim}: result {position} shares memory with an input\n{case}")
    for i, j in combinations(range(len(outputs)), 2):
        shared = np.may_share_memory(outputs[i], outputs[j])
        if shared and not np.may_share_memory(traced.outputs[i], traced.outputs[j]):
            raise Differs(f"{claim}: results {i} and {j} share memory\n{case}")


def check_lowered(
    case: Case,
    traced: Traced,
    chosen: Sequence[str] | None = None,
    options: LoweringOptions | None = None,
) -> Lowered:
    """Everything above."""
    result = lowered_of(case, chosen, options)
    check_graph(case, result)
    values = check_results(case, traced, result)
    check_provenance(case, traced, result, values)
    check_effects(case, result)
    if chosen is None:
        outputs = [values[value] for value in result.graph.outputs]
        check_memory(case, traced, outputs, said_of(result))
    return result


def check_settles(case: Case, name: str, *, times: int) -> None:
    """Check that a pass finds nothing more to do after ``times`` runs."""
    graph, arrays = case.graph, case.arrays
    for _ in range(times):
        result = lower(graph, arrays, (name,))
        graph, arrays = result.stages[0].after, result.arrays
    last = lower(graph, arrays, (name,)).stages[0]
    rules = [str(rewrite) for rewrite in last.rewrites]
    need(
        last.after is last.before and not rules, f"{name} has still something to do: {rules}", case
    )


def is_clean_up(item: passes.GraphPass) -> bool:
    return item.stage < 40


def nodes_of(graph: Graph) -> tuple[Node, ...]:
    """The nodes that are not leaves."""
    return tuple(node for node in graph.nodes if not ops.get(node.op).is_leaf)
