"""Reach: the part of a tape between its ends, determined before anything is pulled back.

Invariant: nothing is run or changed; no recursion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from nodescope.engine.tensor import LEAF, Bundle, Tensor, origin

_LINKS = (Tensor, Bundle)


def behind(
    roots: Iterable[Any], stop: Callable[[Any], bool] = lambda tensor: False
) -> dict[int, Any]:
    """The roots and all their ancestors that require a gradient, by ``id``.

    Args:
        roots: Tensors.
        stop: Returns whether to leave out a tensor's ancestors.
    """
    reached = {id(root): root for root in roots if root.edge is not None}
    todo = list(reached.values())
    while todo:
        reached_tensor = todo.pop()
        if stop(reached_tensor):
            continue
        for link in map(origin, reached_tensor.edge[2]):
            if link.__class__ in _LINKS and link.edge is not None and id(link) not in reached:
                reached[id(link)] = link
                todo.append(link)
    return reached


def leads_elsewhere(reached: dict[int, Any], targets: dict[int, Tensor]) -> bool:
    """Whether anything beside or behind the targets requires a gradient."""
    # An unused target has no ancestors; an alias has one that requires a gradient itself.
    return any((tensor.edge is LEAF) != (key in targets) for key, tensor in reached.items())


def aside(
    reached: dict[int, Any],
    targets: dict[int, Tensor],
    counts: Callable[[Any], bool] = lambda tensor: True,
) -> dict[int, Any]:
    """Tensors in ``reached`` that lead to no target, by ``id``.

    Args:
        reached: From `behind`.
        targets: By ``id``.
        counts: Returns whether the operation that made a tensor is differentiated.
    """
    leading = set(targets)
    for key, tensor in sorted(reached.items(), key=lambda item: item[1].edge[0]):
        if tensor.edge is LEAF or not counts(tensor):
            continue
        if any(id(origin(link)) in leading for link in tensor.edge[2]):
            leading.add(key)
    return {key: tensor for key, tensor in reached.items() if key not in leading}
