"""Reach: which part of a tape lies between its ends, determined before anything is pulled back.

Invariant: nothing is run or changed; no recursion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from nodescope.engine.tensor import LEAF, Bundle, Tensor, origin

_LINKS = (Tensor, Bundle)


def behind(
    roots: Iterable[Any], stop: Callable[[Any], bool] = lambda each: False
) -> dict[int, Any]:
    """The roots and all that they were made from, as far as it wants a gradient, by ``id``.

    Args:
        roots: Tensors.
        stop: What lies behind such a tensor is left out.
    """
    found = {id(each): each for each in roots if each.edge is not None}
    todo = list(found.values())
    while todo:
        each = todo.pop()
        if stop(each):
            continue
        for link in map(origin, each.edge[2]):
            if link.__class__ in _LINKS and link.edge is not None and id(link) not in found:
                found[id(link)] = link
                todo.append(link)
    return found


def leads_elsewhere(reached: dict[int, Any], targets: dict[int, Tensor]) -> bool:
    """Whether anything beside or behind the targets wants a gradient."""
    # An unused target is made from nothing; an alias is made from what wants one itself.
    return any((each.edge is LEAF) != (key in targets) for key, each in reached.items())


def aside(
    reached: dict[int, Any],
    targets: dict[int, Tensor],
    counts: Callable[[Any], bool] = lambda each: True,
) -> dict[int, Any]:
    """What of ``reached`` leads to no target, by ``id``.

    Args:
        reached: From `behind`.
        targets: By ``id``.
        counts: Whether a tensor's own operation is to be differentiated at all.
    """
    leading = set(targets)
    for key, each in sorted(reached.items(), key=lambda item: item[1].edge[0]):
        if each.edge is LEAF or not counts(each):
            continue
        if any(id(origin(link)) in leading for link in each.edge[2]):
            leading.add(key)
    return {key: each for key, each in reached.items() if key not in leading}
