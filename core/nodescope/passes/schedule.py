"""Schedule: an order of the nodes in which less memory is held at once.

There are two moves. A node whose operands die with it, and are no smaller than its result, moves
directly after its last predecessor: an optimizer's update after its gradient. A node whose operands
live on anyway moves directly before its first user: a transpose, a mask, a recomputed copy. The new
order is kept if its peak memory is lower, or as high for a shorter time.

Nodes with side effects keep their order. ``assign`` counts as one only if the graph reads
variables: otherwise nothing is written in place, and its result is an ordinary value.

Invariant: each node follows its operands; the order depends on the graph alone.
"""

from __future__ import annotations

import heapq
import itertools

from nodescope.ir.graph import Node
from nodescope.ops.traits import traits_of
from nodescope.passes import Rule, graph_pass
from nodescope.passes.draft import Draft
from nodescope.passes.lifetimes import Lifetimes, lifetimes

Place = tuple[int, int, int]


@graph_pass(
    "schedule",
    stage=85,
    help="reorder nodes to hold less memory",
    rules=(Rule("reorder", "updates after their gradients, transposes before their users"),),
)
def schedule(draft: Draft) -> None:
    """Move nodes if that shortens the lifetimes of values."""
    nodes = list(draft)
    effects = with_effects(nodes)
    before = lifetimes(nodes, draft.spec, draft.outputs)
    order = _sorted(nodes, _places(nodes, before, effects), effects)
    after = lifetimes(order, draft.spec, draft.outputs)
    if (after.peak, after.area) >= (before.peak, before.area):
        return
    moved = _moved(nodes, order)
    draft.reorder([node.id for node in order])
    draft.rewrite(
        "reorder", "rewritten", moved, moved,
        note=f"{len(moved)} nodes moved: peak {before.peak:,} → "
        f"{after.peak:,} bytes, area {before.area:,} → {after.area:,} bytes × nodes",
    )  # fmt: skip


def with_effects(nodes: list[Node]) -> list[Node]:
    """The nodes that must keep their order, in that order."""
    states = {op: traits_of(op).state for op in {node.op for node in nodes}}
    reads = "reads" in states.values()
    ordered = ("reads", "replaces", "changes") if reads else ("changes",)

    def has_effect(node: Node) -> bool:
        return traits_of(node.op).state in ordered

    return [
        node for node in nodes
        if states[node.op] in ordered or node.family == "control"
        or (node.family == "kernel" and any(map(has_effect, node.attrs["body"].nodes)))
    ]  # fmt: skip


def _places(nodes: list[Node], spans: Lifetimes, effects: list[Node]) -> dict[int, Place]:
    """The target of each node: before (-1), at (0) or after (1) a position."""
    leaves = {node.id for node in nodes if node.is_leaf}
    fixed = leaves | {node.id for node in effects}
    position = {node.id: i for i, node in enumerate(nodes)}
    makers = {value: i for i, node in enumerate(nodes) for value in node.outputs}
    uses: dict[int, list[int]] = {}
    for i, node in enumerate(nodes):
        for value in node.inputs:
            uses.setdefault(value, []).append(i)
        for control in node.control_inputs:
            uses.setdefault(-control, []).append(i)
    places: dict[int, Place] = {node.id: (i, 0, i) for i, node in enumerate(nodes)}
    for i in reversed(range(len(nodes))):  # late: users have been placed already
        node = nodes[i]
        if node.id in fixed:
            continue
        users = [j for value in (*node.outputs, -node.id) for j in uses.get(value, ())]
        if not users:
            continue
        first = min(users, key=lambda j: places[nodes[j].id])
        target = places[nodes[first].id][0]
        if target > i + 1 and all(_lives(spans, v, target) for v in node.inputs):
            places[node.id] = (target, -1, i)
    for i, node in enumerate(nodes):  # early: predecessors have been placed already
        if node.id in fixed or places[node.id][0] != i:
            continue
        needs = [makers[v] for v in node.inputs if v in makers]
        needs = [maker for maker in needs if nodes[maker].id not in leaves]
        needs += [position[control] for control in node.control_inputs if control in position]
        if not needs:
            continue
        dying = {spans.base[v] for v in node.inputs if spans.last(v) == i}
        freed = sum(spans.size.get(value, 0) for value in dying)
        new_bytes = sum(spans.bytes_of(v) for v in node.outputs if spans.base[v] not in dying)
        latest = max(places[nodes[j].id] for j in needs)
        if freed and freed >= new_bytes and latest[0] < i - 1:
            places[node.id] = (latest[0], 1, i)
    return places


def _lives(spans: Lifetimes, value: int, until: int) -> bool:
    """Whether a value's memory is held until then."""
    return not spans.bytes_of(value) or spans.last(value) >= until


def _sorted(nodes: list[Node], places: dict[int, Place], effects: list[Node]) -> list[Node]:
    """Nodes by place, each after its operands, with side effects in order."""
    by_id = {node.id: node for node in nodes}
    makers = {value: node.id for node in nodes for value in node.outputs}
    before: dict[int, set[int]] = {
        node.id: {makers[v] for v in node.inputs if v in makers}.union(
            control for control in node.control_inputs if control in by_id
        )
        for node in nodes
    }
    for first, second in itertools.pairwise(effects):
        before[second.id].add(first.id)
    behind: dict[int, list[int]] = {}
    waits = {}
    for node, needed in before.items():
        waits[node] = len(needed)
        for needed_id in needed:
            behind.setdefault(needed_id, []).append(node)
    ready = [(places[node], node) for node, count in waits.items() if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        _, node = heapq.heappop(ready)
        order.append(by_id[node])
        for waiter in behind.get(node, ()):
            waits[waiter] -= 1
            if not waits[waiter]:
                heapq.heappush(ready, (places[waiter], waiter))
    return order


def _moved(before: list[Node], after: list[Node]) -> list[Node]:
    """The nodes that moved: all but a longest run that kept its order."""
    position = {node.id: i for i, node in enumerate(before)}
    tails: list[int] = []
    ends: list[int] = []
    previous = [-1] * len(after)
    for i, node in enumerate(after):
        low, high = 0, len(tails)
        while low < high:
            middle = (low + high) // 2
            if tails[middle] < position[node.id]:
                low = middle + 1
            else:
                high = middle
        previous[i] = ends[low - 1] if low else -1
        if low == len(tails):
            tails.append(position[node.id])
            ends.append(i)
        else:
            tails[low], ends[low] = position[node.id], i
    kept = set()
    i = ends[-1] if ends else -1
    while i >= 0:
        kept.add(after[i].id)
        i = previous[i]
    return [node for node in before if node.id not in kept]
