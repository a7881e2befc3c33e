"""Remat: recomputes cheap values rather than keeping them, until memory is within its limit.

At the peak of memory, the value is chosen that frees the most for the least work: the result of an
elementwise node or kernel that waits for late users. A copy of its node runs for those, directly
before the first of them (Chen et al., 2016), along with copies of cheap nodes that it needs.

Invariant: runs only if ``memory_bytes`` is given; a copy is the same op on the same values, so that
results stay bit-equal; copies have the phase ``recompute`` and are never copied again.
"""

from __future__ import annotations

from dataclasses import dataclass

from nodescope.ir.graph import Graph, Node
from nodescope.passes import Rule, graph_pass
from nodescope.passes.cost import node_work
from nodescope.passes.draft import Draft
from nodescope.passes.fusing.kernel import renumbered
from nodescope.passes.fusing.roles import REDUCTIONS, role_of
from nodescope.passes.lifetimes import Lifetimes, lifetimes

_MOST = 256  # values in one graph
_DEEP = 4  # limit of nodes recomputed for one node


@dataclass(frozen=True, slots=True)
class _Choice:
    """A value that could be recomputed.

    Attributes:
        gain: Bytes freed at the peak.
        work: Bytes moved and flops of the copies.
        again: Recomputed values, each after its operands; this one last.
        late: Its late users, in order.
    """

    gain: int
    work: int
    value: int
    again: tuple[int, ...]
    late: tuple[Node, ...]


@graph_pass(
    "remat",
    stage=80,
    help="recompute cheap values instead of holding more than memory_bytes",
    rules=(Rule("recompute", "recompute a cheap value near its late users"),),
)
def rematerialise(draft: Draft) -> None:
    """Add copies of cheap nodes while memory exceeds the limit."""
    limit = draft.options.memory_bytes
    if limit is None:
        return
    first = lifetimes_now = None
    count = 0
    while count < _MOST:
        nodes = list(draft)
        lifetimes_now = lifetimes(nodes, draft.spec, draft.outputs)
        first = first or lifetimes_now
        if lifetimes_now.peak <= limit:
            break
        # Unless every peak of the same height can be lowered, nothing is gained by the first.
        tops = [i for i, size in enumerate(lifetimes_now.live) if size == lifetimes_now.peak]
        choices = [_best(draft, nodes, lifetimes_now, i) for i in tops]
        if not all(choices) or choices[0] is None:
            break
        _copy(draft, choices[0], nodes[tops[0]])
        count += 1
    if first is None or lifetimes_now is None or first.peak <= limit:
        return
    text = f"{count} values are recomputed: peak {first.peak:,} → {lifetimes_now.peak:,} bytes"
    if lifetimes_now.peak > limit:
        text += f", still over {limit:,}: the rest is not cheap, or needs as much memory itself"
    draft.note(text)


def _best(draft: Draft, nodes: list[Node], spans: Lifetimes, peak: int) -> _Choice | None:
    """The value whose copy frees the most per work at a position."""
    places = {node.id: i for i, node in enumerate(nodes)}
    best: _Choice | None = None
    for value in spans.size:
        if spans.begin[value] < peak < spans.end[value]:
            choice = _choice(draft, nodes[spans.begin[value]], value, spans, places, peak)
            if choice is not None and (
                best is None or choice.gain * best.work > best.gain * choice.work
            ):
                best = choice
    return best


def _choice(
    draft: Draft, node: Node, value: int, spans: Lifetimes, places: dict[int, int], peak: int
) -> _Choice | None:
    if not _cheap(draft, node, value):
        return None
    late = sorted(
        (user for user in draft.users(value) if places[user.id] > peak),
        key=lambda user: places[user.id],
    )
    if not late:
        return None
    # Remaining uses, including those of views, must all be over before the peak.
    for user in draft.users(value):
        place = places[user.id]
        if place == peak:
            return None
        if place < peak and any(spans.base[v] == value and _used_from(draft, v, peak, places)
                                for v in user.outputs):  # fmt: skip
            return None
    again: dict[int, None] = {}
    cost = _cost(draft, value, spans, peak, again, _DEEP)
    if cost >= spans.size[value]:
        return None
    work = 0
    for value_id in again:
        maker = draft.producer(value_id)
        assert maker is not None
        done = node_work(maker, {v: draft.spec(v) for v in (*maker.inputs, *maker.outputs)})
        work += done.moved + done.flops
    return _Choice(spans.size[value] - cost, work, value, tuple(again), tuple(late))


def _cost(
    draft: Draft, value: int, spans: Lifetimes, peak: int, again: dict[int, None], deep: int
) -> int:
    """Bytes held at the peak for a copy of a value's producer.

    Args:
        again: Receives the values that have to be recomputed, this one last.
        deep: Limit of nodes recomputed before it.
    """
    node = draft.producer(value)
    assert node is not None
    cost = 0
    for value_id in _needed(node, value):
        if value_id in again or not spans.bytes_of(value_id) or spans.last(value_id) >= peak:
            continue
        maker = draft.producer(value_id)
        behind = dict(again)
        more = spans.bytes_of(value_id)
        if deep and maker is not None and _cheap(draft, maker, value_id):
            more = _cost(draft, value_id, spans, peak, behind, deep - 1)
        if more < spans.bytes_of(value_id):
            again.update(behind)
            cost += more
        else:
            cost += spans.bytes_of(value_id)
    again[value] = None
    return cost


def _used_from(draft: Draft, view: int, peak: int, places: dict[int, int]) -> bool:
    """Whether a view is used at the peak or later, itself or through another view."""
    return any(
        places[user.id] >= peak or any(_used_from(draft, v, peak, places) for v in user.outputs)
        for user in draft.users(view)
    )


_LOOPS = frozenset({"elementwise", "reduction", "rows"})


def _cheap(draft: Draft, node: Node, value: int) -> bool:
    """Whether a value depends on elementwise nodes only."""
    if node.phase == "recompute" or not draft.is_pure(node):
        return False
    if node.op == "fused":
        if node.attrs["pattern"] not in _LOOPS:
            return False
        return all(inner.op not in REDUCTIONS for inner in _behind(node.attrs["body"], value)[0])
    role = role_of(draft, node)
    return role is not None and role.axes is None


def _behind(body: Graph, value: int) -> tuple[list[Node], set[int]]:
    """The nodes of a kernel that a value depends on, and all values that these take."""
    nodes, needed = [], {value}
    for node in reversed(body.nodes):
        if not needed.isdisjoint(node.outputs):
            nodes.append(node)
            needed.update(node.inputs)
    return nodes, needed


def _needed(node: Node, value: int) -> tuple[int, ...]:
    """The inputs needed by a copy for one of the outputs."""
    if node.op != "fused":
        return tuple(dict.fromkeys(node.inputs))
    body = node.attrs["body"]
    _, needed = _behind(body, value)
    return tuple(
        outer for outer, inner in zip(node.inputs, body.inputs, strict=True) if inner in needed
    )


def _copy(draft: Draft, choice: _Choice, peak: Node) -> None:
    user, new = choice.late[0], dict[int, int]()
    for value in choice.again:
        node = draft.producer(value)
        assert node is not None
        copy = _copied(draft, node, value, new, user)
        new[value] = copy.outputs[0]
        if value == choice.value:
            for original in choice.late:
                now = draft.node(original.id)
                draft.update(now, inputs=tuple(new[v] if v == value else v for v in now.inputs))
        draft.rewrite(
            "recompute", "recomputed", [node], [copy],
            note=f"{choice.gain:,} bytes fewer are held at {peak.name}",
        )  # fmt: skip


def _copied(draft: Draft, node: Node, value: int, new: dict[int, int], user: Node) -> Node:
    """A copy of a node before a user, for one of its outputs, on new values."""
    inputs, attrs = node.inputs, dict(node.attrs)
    if node.op == "fused":
        body, _ = renumbered(draft, attrs["body"], (value,))
        outer = dict(zip(attrs["body"].inputs, node.inputs, strict=True))
        inputs = tuple(outer[v] for v in body.inputs)
        attrs = {"body": body, "pattern": "elementwise"}
    copy = draft.add(
        node.op, [new.get(v, v) for v in inputs], attrs, like=user,
        label=node.name.rpartition("/")[2], control=(), specs=(draft.spec(value),),
        scope=f"recompute/{node.scope}".rstrip("/"), phase="recompute",
    )  # fmt: skip
    return draft.update(copy, source=node.source, forward=None)
