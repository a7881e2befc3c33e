"""Rewrites: finds the pass, and its rule, that changed what a graph computes.

The graphs between the passes are run on the same inputs, node by node. In the first graph whose
values differ from those of the graph before it, the first value whose own operands still agree is
to blame.

Invariant: only reads graphs, and runs them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from nodescope.engine.crosscheck.values import every_value, same
from nodescope.ir.graph import Graph, Node
from nodescope.ir.provenance import Rewrite
from nodescope.ops.op import Array
from nodescope.ops.plan import needed
from nodescope.ops.traits import traits_of
from nodescope.passes import all_passes
from nodescope.passes.fates import Provenance
from nodescope.passes.pipeline import Lowered, LoweringOptions, PassOutcome, lower

Values = Mapping[int, Any]


class Blamed(NamedTuple):
    """The rules that are responsible, and the value that shows the difference.

    Attributes:
        node: The traced node, or None if it is not known.
        rules: As ``pass/rule``, or the pass alone.
        expected, actual: The value before and after.
    """

    node: Node | None
    rules: tuple[str, ...]
    expected: Any = None
    actual: Any = None


def blamed_rewrite(
    lowered: Lowered, arrays: Mapping[int, Array], feeds: Sequence[Any], traced: Values
) -> Blamed | None:
    """The first rewrite that changes a value; None if there is none.

    Args:
        lowered: The result of the passes.
        arrays: Constants of the traced graph by value id.
        feeds: Its inputs.
        traced: Every value of the traced graph.
    """
    known: dict[int, Any] = {**arrays, **lowered.arrays}
    before: Values = traced
    done: list[Rewrite] = []
    for stage in lowered.stages:
        if stage.after is stage.before:
            done.extend(stage.rewrites)
            continue
        successors = {old: new for rewrite in stage.rewrites for old, new in rewrite.values}
        for old, new in successors.items():
            if old in before:  # a constant that a later pass removes again
                known.setdefault(new, before[old])
        try:
            after = every_value(stage.after, known, feeds)[1]
        except Exception:
            raising = _raising(stage.after, known, feeds)
            so_far = [*done, *stage.rewrites]
            return Blamed(_first_origin(lowered.traced, stage.after, so_far, raising),
                          (stage.name,))  # fmt: skip
        value = _first_other(stage.before, before, after, successors)
        outputs = zip(stage.before.outputs, stage.after.outputs, strict=False)
        moved = next((pair for pair in outputs if _differ(before, after, *pair)), None)
        if value is not None or moved is not None:
            origin = _origin(lowered.traced, stage, done, value)
            at = (value, _followed(successors, value)) if value is not None else moved
            assert at is not None
            return Blamed(origin, _rules(stage, value), before.get(at[0]), after.get(at[1]))
        done.extend(stage.rewrites)
        before = after
    return None


def _raising(graph: Graph, arrays: Mapping[int, Array], feeds: Sequence[Any]) -> Node | None:
    """The first node of a graph that raises an error."""
    low, high = 0, len(graph.nodes)
    while low < high:
        middle = (low + high) // 2
        begin = msgspec.structs.replace(graph, nodes=graph.nodes[: middle + 1], outputs=())
        try:
            every_value(begin, arrays, feeds)
            low = middle + 1
        except Exception:
            high = middle
    return graph.nodes[low] if low < len(graph.nodes) else None


def _first_origin(
    traced: Graph, graph: Graph, done: Sequence[Rewrite], node: Node | None
) -> Node | None:
    """The first traced node that a node of a later graph stands for."""
    if node is None:
        return None
    origins = Provenance(traced, graph, done).origin(node.id)
    return next((candidate for candidate in traced.nodes if candidate.id in origins), None)


def _first_other(
    graph: Graph, before: Values, after: Values, successors: Mapping[int, int]
) -> int | None:
    """The first value that a pass changes although it changes none of its operands; else the first
    that it changes.
    """
    others: set[int] = set()
    first = None
    for node in _with_bodies(graph):
        for value in node.outputs:
            if value in before and _differ(before, after, value, _followed(successors, value)):
                others.add(value)
                if others.isdisjoint(node.inputs):
                    return value
                first = value if first is None else first
    return first


def _with_bodies(graph: Graph) -> Iterable[Node]:
    for node in graph.nodes:
        if node.op == "fused":
            yield from node.attrs["body"].nodes
        yield node


def _differ(before: Values, after: Values, old: int, new: int) -> bool:
    """Whether two values differ; False if one of them no longer exists."""
    if old not in before or new not in after:
        return False
    return not same(np.asarray(after[new]), np.asarray(before[old]))


def _followed(successors: Mapping[int, int], value: int) -> int:
    while value in successors:
        value = successors[value]
    return value


def _rules(stage: PassOutcome, value: int | None) -> tuple[str, ...]:
    """The rules that replaced a value, its node, or one of its operands; else the pass alone."""
    if value is not None:
        makers = {v: node for node in _with_bodies(stage.before) for v in node.outputs}
        maker = makers[value]
        operands = [(v, makers[v].id) for v in maker.inputs if v in makers]
        for replaced in ([(value, maker.id)], operands):
            named = _touching(stage, replaced)
            if named:
                return named
    rules = {rewrite.rule for rewrite in stage.rewrites}
    return (f"{stage.name}/{rules.pop()}",) if len(rules) == 1 else (stage.name,)


def _touching(stage: PassOutcome, replaced: Iterable[tuple[int, int]]) -> tuple[str, ...]:
    """The rules that changed values, the nodes that make them, or their replacements."""
    values = {value for value, _ in replaced}
    nodes = {node for _, node in replaced}
    named: dict[str, None] = {}
    for rewrite in stage.rewrites:
        stood = [new for old, new in rewrite.values if old in values]
        if stood or not nodes.isdisjoint(rewrite.before):
            values.update(stood)
            named[f"{stage.name}/{rewrite.rule}"] = None
    return tuple(named)


def _origin(
    traced: Graph, stage: PassOutcome, done: Sequence[Rewrite], value: int | None
) -> Node | None:
    """The traced node that a value before a pass comes from."""
    if value is None:
        return None
    by_id = {node.id: node for node in traced.nodes}
    maker = next(node for node in _with_bodies(stage.before) if value in node.outputs)
    origins = Provenance(traced, stage.before, done)
    covered = {node_id for node_id in by_id if maker.id in origins.fates[node_id].into}
    for candidate in traced.nodes:
        if candidate.id in covered and origins.value(candidate.outputs[0]) == value:
            return candidate
    at = max(covered, default=maker.id)
    return by_id.get(maker.id) or by_id.get(at)


def failing_pass(
    traced: Graph,
    arrays: Mapping[int, Array],
    chosen: Sequence[str] | None,
    options: LoweringOptions,
    reason: str,
) -> tuple[str, ...]:
    """The pass with which lowering a graph fails; empty if none is found.

    Args:
        reason: The error's text; passes that check their own rewrites begin it with their name.
    """
    usual = [graph_pass.name for graph_pass in all_passes() if graph_pass.default]
    names = usual if chosen is None else list(chosen)
    for count, name in enumerate(names, 1):
        try:
            lower(traced, arrays, names[:count], options)
        except Exception:
            return (name,)
    named = re.search(rf"\b({'|'.join(names)}): ", reason) if names else None
    return (named[1],) if named else ()


# ---------------------------------------------------------------- what values do not show


def lost_origin(lowered: Lowered) -> Node | None:
    """A final node without an origin among the traced ones."""
    known = {node.id for node in lowered.traced.nodes}
    return next(
        (
            node
            for node in lowered.graph.nodes
            if not node.is_leaf and (not node.origin or not known.issuperset(node.origin))
        ),
        None,
    )


def wrong_stand_in(lowered: Lowered, traced: Values, final: Values) -> Blamed | None:
    """A traced value whose reported replacement is a different value, or does not exist."""
    provenance = lowered.provenance
    for node in lowered.traced.nodes:
        for value in node.outputs:
            now = provenance.value(value)
            if now is None:
                inside = provenance.kernel(value)
                now = None if inside is None else inside[1]
            if now is not None and value not in lowered.traced.inputs:
                if now not in final:
                    return Blamed(node, provenance.fates[node.id].by)
                if value in traced and not same(np.asarray(final[now]), np.asarray(traced[value])):
                    rules = provenance.fates[node.id].by
                    return Blamed(node, rules, traced[value], final[now])
    return None


def broken_order(lowered: Lowered) -> tuple[Node, str, tuple[str, ...]] | None:
    """A traced node with an effect, or with control inputs, that no longer runs in the traced
    order.

    Returns:
        The node, a description of the problem, and the rules.
    """
    traced, final, fates = lowered.traced, lowered.graph, lowered.provenance.fates
    place = {node.id: i for i, node in enumerate(final.nodes)}
    by_id = {node.id: node for node in traced.nodes}
    ops = {node.id: node.op for node in final.nodes}
    reads = any(node.op == "read" for node in traced.nodes)
    needed_ids = {node.id for node in needed(traced, traced.outputs, traced.inputs)}
    last, previous = -1, ""
    for node in traced.nodes:
        fate = fates[node.id]
        if traits_of(node.op).state and node.id in needed_ids:
            # If nothing is read, an assignment has no effect before the end of the run.
            free = node.op == "assign" and not reads
            into = [i for i in fate.into if ops[i] == node.op or (free and ops[i] == "fused")]
            if not into:
                return node, "has an effect and is gone", fate.by
            if not free:
                if place[into[-1]] <= last:
                    return node, f"no longer happens after {previous}", fate.by or ("schedule",)
                last, previous = place[into[-1]], node.name
        for control in node.control_inputs:
            before, after = fates[control], fate
            name = by_id[control].name if control in by_id else f"@{control}"
            if not before.into and after.into:
                return node, f"waits for {name}, which is gone", before.by
            if _apart(final, before.into, after.into):
                rules = _loosened(lowered, control, node.id)
                return node, f"no longer waits for {name}", rules
    return None


def merged_recomputation(lowered: Lowered) -> tuple[Node, str, tuple[str, ...]] | None:
    """A recomputed node, meant to save memory, that was merged with the original."""
    by_id = {node.id: node for node in lowered.traced.nodes}
    for stage in lowered.stages:
        phases = {node.id: node.phase for g in (stage.before, stage.after) for node in g.nodes}
        for rewrite in stage.rewrites:
            kinds = {phases.get(i, "") == "recompute" for i in (*rewrite.before, *rewrite.after)}
            if rewrite.change == "merged" and len(kinds) > 1:
                node = next((by_id[i] for i in rewrite.before if i in by_id), None)
                if node is not None:
                    rule = f"{stage.name}/{rewrite.rule}"
                    return node, "is merged with what it computes again", (rule,)
    return None


def _loosened(lowered: Lowered, control: int, node: int) -> tuple[str, ...]:
    """The first pass after which one node no longer waits for another."""
    done: list[Rewrite] = []
    for stage in lowered.stages:
        done.extend(stage.rewrites)
        fates = Provenance(lowered.traced, stage.after, done).fates
        if _apart(stage.after, fates[control].into, fates[node].into):
            return (stage.name,)
    return ()


def _apart(graph: Graph, before: Sequence[int], after: Sequence[int]) -> bool:
    """Whether no data or control edge leads from some nodes to others; False if either are gone."""
    if not before or not after or not set(before).isdisjoint(after):
        return False
    makers = {value: node.id for node in graph.nodes for value in node.outputs}
    reached = set(before)
    for node in graph.nodes:
        operands = {makers.get(value, 0) for value in node.inputs}
        if not reached.isdisjoint((*node.control_inputs, *operands)):
            reached.add(node.id)
    return reached.isdisjoint(after)
