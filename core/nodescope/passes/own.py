"""Own: results with memory of their own in the traced graph keep it in the lowered one.

Earlier passes replace values by others. A caller that writes into a result must not change an
argument, a constant, or another result.

Invariant: two results share memory only if they did in the traced graph; the same holds for a
result and an input or constant.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from nodescope.ir.graph import LEAVES, Graph, Node
from nodescope.ops.traits import traits_of
from nodescope.passes import Rule, graph_pass
from nodescope.passes.draft import Draft
from nodescope.passes.layouts import Layouts, layouts_of

_VIEWS: Final = frozenset(
    [
        "detach",
        "identity",
        "transpose",
        "reshape",
        "squeeze",
        "expand_dims",
        "broadcast_to",
        "flip",
        "diagonal",
        "real",
        "imag",
    ]
)


Inner = tuple[int, int, Any]
"""A value of a body: the id of the node, the number of the body, and the value in it."""


@dataclass(frozen=True)
class Chain:
    """The origin of a value's memory.

    Attributes:
        root: The value that may own the memory.
        steps: The views on the way.
        more: For results of a loop or branch: further possible origins, through its bodies.
        inside: Values in those bodies that may own the memory, each with its node and body.
    """

    root: int
    steps: tuple[Any, ...]
    more: tuple[Chain, ...] = ()
    inside: frozenset[Inner] = frozenset()

    @functools.cached_property
    def roots(self) -> frozenset[int | Inner]:
        """Every value that may own the memory."""
        roots: frozenset[int | Inner] = frozenset((self.root, *self.inside))
        return roots.union(*(chain.roots for chain in self.more))

    @functools.cached_property
    def loose(self) -> bool:
        """Whether an apparent view may have its own memory."""
        loose_here = any(op in ("reshape", "real", "assign") for op, _ in self.steps)
        return loose_here or any(chain.loose for chain in self.more)


@graph_pass(
    "own",
    stage=95,
    help="copy results that share memory after optimisation",
    rules=(
        Rule("of_leaf", "a result that now shares memory with an input or a constant"),
        Rule("of_result", "a result that now shares memory with another result"),
    ),
)
def own_results(draft: Draft) -> None:
    """Compare the memory owners of each result before the first pass and now."""
    if draft.traced.outputs and not _changed(draft):
        return
    producers = {value: node for node in draft.traced.nodes for value in node.outputs}
    before = [_chain(producers.get, value) for value in draft.traced.outputs]
    now = [_chain(draft.producer, value) for value in draft.outputs]
    layouts = layouts_of(draft)
    owners: dict[int | Inner, list[int]] = {}  # by root, the results that are not copied
    for position, chain in enumerate(now):
        if position in draft.copied:
            continue
        # A chain that no pass touched shares what it shared before, including copies on its way.
        then, touched = before[position], before[position] != chain
        leaf = any(is_leafs(draft.producer, root) for root in chain.roots)
        if touched and leaf and (then.loose or is_own(producers.get(then.root))):
            _copy(draft, layouts, "of_leaf", position)
            continue
        sharing = {p for root in chain.roots for p in owners.get(root, ())}
        if any(
            then.roots.isdisjoint(before[p].roots)
            or ((touched or before[p] != now[p]) and (_unsure(then) or _unsure(before[p])))
            for p in sharing
        ):
            _copy(draft, layouts, "of_result", position)
        else:
            for root in chain.roots:
                owners.setdefault(root, []).append(position)


def _unsure(chain: Chain) -> bool:
    """Whether the memory's owner depends on values or layouts."""
    return chain.loose or bool(chain.more)


def _changed(draft: Draft) -> bool:
    """Whether any pass changed anything: a lowering without rewrites needs no check."""
    return list(draft.traced.nodes) != list(draft) or tuple(draft.outputs) != draft.traced.outputs


def _chain(producer: Callable[[int], Node | None], value: int) -> Chain:
    """The value that may own this one's memory, and the views on the way."""
    steps: list[Any] = []
    while (node := producer(value)) is not None:
        source = _viewed(node)
        if source is None:
            break
        steps.append((node.op, repr(node.attrs)))
        value = source
    if node is None or node.family != "control":
        return Chain(value, tuple(steps))
    return Chain(value, tuple(steps), *_through(producer, node, value))


def _through(
    producer: Callable[[int], Node | None], node: Node, value: int
) -> tuple[tuple[Chain, ...], frozenset[Inner]]:
    """The possible sources of a result of a loop or branch.

    Returns:
        The chains of possible inputs, and possible values of its bodies.
    """
    at, attrs = node.outputs.index(value), node.attrs
    carries, leading = attrs.get("carries", 0), 1 if node.op == "cond" else 0
    if node.op == "scan" and at >= carries:
        return (), frozenset()  # rows of stacks are copied
    bodies: list[Graph] = [attrs[name] for name in ("then", "otherwise") if name in attrs]
    bodies = [attrs["body"]] if carries and attrs.get("length", 1) else bodies
    makers = [{v: n for n in body.nodes for v in n.outputs} for body in bodies]
    steps_of: dict[int, tuple[Any, ...]] = {}
    inside: set[Inner] = set()
    if (carries and node.op != "scan") or not bodies:
        steps_of[at] = ()  # no iteration at all
    waiting, seen = [at], {at}
    while waiting:
        end = waiting.pop()
        for number, (body, producers) in enumerate(zip(bodies, makers, strict=True)):
            inner = _chain(producers.get, body.outputs[end])
            inside.update((node.id, number, root) for root in inner.roots - {*body.inputs})
            for position, operand in enumerate(body.inputs):
                if operand not in inner.roots:
                    continue
                steps_of.setdefault(position, _steps(inner))
                if position < carries and position not in seen:
                    seen.add(position)
                    waiting.append(position)
    chains = []
    for position, steps in sorted(steps_of.items()):
        outer = _chain(producer, node.inputs[leading + position])
        chains.append(Chain(outer.root, (*steps, *outer.steps), outer.more, outer.inside))
    return tuple(chains), frozenset(inside)


def _steps(chain: Chain) -> tuple[Any, ...]:
    """All steps of a chain on any possible path."""
    return (*chain.steps, *(step for part in chain.more for step in _steps(part)))


def roots_of(producer: Callable[[int], Node | None], value: int) -> frozenset[int | Inner]:
    """The values that may own a value's memory: of the graph by id, of its bodies as `Inner`.

    Args:
        producer: Returns the node that produces a value, None if it is fed.
        value: The value's id.
    """
    return _chain(producer, value).roots


def is_leafs(producer: Callable[[int], Node | None], root: int | Inner) -> bool:
    """Whether one of a value's roots is an input or a constant."""
    return isinstance(root, int) and not is_own(producer(root))


def is_own(node: Node | None) -> bool:
    """Whether a node's result has its own memory, not that of an input or constant."""
    return node is not None and node.op not in LEAVES


def _viewed(node: Node) -> int | None:
    if node.op in _VIEWS or (node.op == "getitem" and len(node.inputs) == 1):
        return node.inputs[0]
    if (
        traits_of(node.op).state == "replaces"
    ):  # returns the new array itself, unless the dtypes differ
        return node.inputs[-1] if node.inputs else None
    return None


def _copy(draft: Draft, layouts: Layouts, rule: str, position: int) -> None:
    value = draft.outputs[position]
    producer = draft.producer(value)
    assert producer is not None, "inputs have leaves"
    # `copy` returns rows; others are copied in their own layout, as by astype.
    if layouts.of(value) in ("rows", "stretched"):
        copy = draft.add("copy", [value], like=producer, control=())
    else:
        attrs = {"dtype": draft.spec(value).dtype}
        copy = draft.add("astype", [value], attrs, like=producer, label="copy", control=())
    draft.give_out(position, copy.outputs[0])
    draft.rewrite(rule, "rewritten", [producer], [producer, copy])
