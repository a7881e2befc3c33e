"""Own: results that were memory of their own in the traced graph are so in the lowered one.

The passes before let values stand for others. A caller who writes into a result must not find an
argument, a constant, or another result changed.

Invariant: two results share memory only if they did so in the traced graph; the same goes for a
result and an input or constant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nodescope.ir.graph import Node
from nodescope.passes import Rule, graph_pass
from nodescope.passes.draft import Draft
from nodescope.passes.layouts import Layouts, layouts_of

_VIEWS: Final = frozenset(
    [
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
_LEAVES: Final = frozenset(["placeholder", "parameter", "tensor", "constant", "read"])
Chain = tuple[int, tuple[Any, ...]]


@graph_pass(
    "own",
    stage=95,
    help="copy results that have come to share memory",
    rules=(
        Rule("of_leaf", "a result that is now an input's or a constant's memory"),
        Rule("of_result", "a result that is now another result's memory"),
    ),
)
def own_results(draft: Draft) -> None:
    """Compare where each result comes from, before the first pass and now."""
    if draft.traced.outputs and not _changed(draft):
        return
    made = {value: node for node in draft.traced.nodes for value in node.outputs}
    before = [_chain(made.get, each) for each in draft.traced.outputs]
    now = [_chain(draft.producer, each) for each in draft.outputs]
    layouts = layouts_of(draft)
    taken: dict[int, list[int]] = {}
    for position, (root, _) in enumerate(now):
        # A chain that no pass touched shares what it shared before, copies on its way included.
        touched = before[position] != now[position]
        loose = _may_copy(before[position][1])
        leaf = draft.producer(root)
        if touched and not is_own(leaf):
            first = made.get(before[position][0])
            if loose or is_own(first):
                _copy(draft, layouts, "of_leaf", position)
                continue
        others = taken.setdefault(root, [])
        if any(
            before[each][0] != before[position][0]
            or ((touched or before[each] != now[each]) and (loose or _may_copy(before[each][1])))
            for each in others
        ):
            _copy(draft, layouts, "of_result", position)
        else:
            others.append(position)


def _changed(draft: Draft) -> bool:
    """Whether any pass changed anything: a lowering without rewrites needs no look."""
    return list(draft.traced.nodes) != list(draft) or tuple(draft.outputs) != draft.traced.outputs


def _chain(producer: Callable[[int], Node | None], value: int) -> Chain:
    """The value whose memory this one may be, and the views on the way."""
    steps: list[Any] = []
    while (node := producer(value)) is not None:
        source = _viewed(node)
        if source is None:
            break
        steps.append((node.op, repr(node.attrs)))
        value = source
    return value, tuple(steps)


def root_of(producer: Callable[[int], Node | None], value: int) -> int:
    """The value whose memory a value may be.

    Args:
        producer: Of a value: the node that makes it, None for what is fed.
    """
    return _chain(producer, value)[0]


def is_own(node: Node | None) -> bool:
    """Whether what a node makes is memory of its own, and no input's or constant's."""
    return node is not None and node.op not in _LEAVES


def _viewed(node: Node) -> int | None:
    if node.op in _VIEWS or (node.op == "getitem" and len(node.inputs) == 1):
        return node.inputs[0]
    if node.op == "assign":  # gives the new array itself, unless it is of another dtype
        return node.inputs[-1] if node.inputs else None
    return None


def _may_copy(steps: tuple[Any, ...]) -> bool:
    """Whether what looks like a view may be memory of its own."""
    return any(op in ("reshape", "real", "assign") for op, _ in steps)


def _copy(draft: Draft, layouts: Layouts, rule: str, position: int) -> None:
    value = draft.outputs[position]
    producer = draft.producer(value)
    assert producer is not None, "inputs have leaves"
    # `copy` gives rows; whatever else is copied as it lies, which astype does.
    if layouts.of(value) in ("rows", "stretched"):
        made = draft.add("copy", [value], like=producer, control=())
    else:
        attrs = {"dtype": draft.spec(value).dtype}
        made = draft.add("astype", [value], attrs, like=producer, label="copy", control=())
    draft.give_out(position, made.outputs[0])
    draft.rewrite(rule, "rewritten", [producer], [producer, made])
