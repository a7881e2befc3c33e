"""Update script: an optimizer's update as a list of operations, which the native core can run.

Invariant: running the script calls the same ops on the same operands, in the same order, as
`Optimizer.update` does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from nodescope import ops
from nodescope.engine.autodiff.grad import store
from nodescope.errors import NodescopeError
from nodescope.ops.op import Op

Update = TypeVar("Update", bound=Callable[..., Any])

ASSIGN: Final = ops.get("assign")


class UpdateScript(NamedTuple):
    """The update of one parameter.

    Values have places: the parameter, its gradient, its state, the numbers, and then the result of
    each operation. The native core relies on the order of these attributes.

    Attributes:
        operations: For each operation, its op and the places of its operands.
        results: The places of the parameter's new value and new state.
        released: For each operation, the places of results that nothing uses after it, so that
            their memory serves the next operations.
        assign: The op that assigns them.
        store: The function that stores what was assigned.
    """

    operations: tuple[tuple[Any, ...], ...]
    results: tuple[int, ...]
    released: tuple[tuple[int, ...], ...]
    assign: Op = ASSIGN
    store: Callable[[Any, Any], None] = store


class _Place:
    """Stands for a value of the update; nothing can be computed from it but by ops."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class _Noted:
    """The ``F`` of an update that notes its operations instead of running them."""

    def __init__(self, places: int) -> None:
        self.operations: list[tuple[Any, ...]] = []
        self._places = places

    def __getattr__(self, name: str) -> Any:
        op = ops.get(name)

        def note(*operands: _Place) -> _Place:
            self.operations.append((op, *[operand.number for operand in operands]))
            return _Place(self._places + len(self.operations) - 1)

        return note


def scripted(update: Update) -> Update:
    """Mark an `Optimizer.update` that does nothing but call ops, whatever its operands are."""
    update.scripted = True  # type: ignore[attr-defined]
    return update


@functools.lru_cache(maxsize=256)
def script_of(kind: Any, update: Any, slots: int, names: tuple[str, ...]) -> UpdateScript | None:
    """The script of an optimizer's update.

    Args:
        kind: The class of the optimizer.
        update: Its `update`, as a function.
        slots: The number of its slots of state.
        names: The names of the numbers of a step.

    Returns:
        The script; None if the update is not marked, or cannot be written as one.
    """
    if not getattr(update, "scripted", False):
        return None
    first = 2 + slots + len(names)
    value, gradient, *others = [_Place(number) for number in range(first)]
    noted, numbers = _Noted(first), dict(zip(names, others[slots:], strict=True))
    try:
        new = update(object.__new__(kind), noted, value, gradient, others[:slots], numbers)
        results = tuple([place.number for place in new])
    except (NodescopeError, AttributeError, LookupError, TypeError):
        return None
    if len(results) != slots + 1:
        return None
    operations = tuple(noted.operations)
    return UpdateScript(operations, results, _released(operations, results, first))


def _released(
    operations: tuple[tuple[Any, ...], ...], results: tuple[int, ...], first: int
) -> tuple[tuple[int, ...], ...]:
    """See `UpdateScript`; ``first``: the place of the first operation's result."""
    last_uses = {first + number: number for number in range(len(operations))}
    for number, (_, *operands) in enumerate(operations):
        last_uses |= dict.fromkeys([place for place in operands if place >= first], number)
    for place in results:
        last_uses.pop(place, None)
    return tuple(
        tuple(place for place, last in last_uses.items() if last == number)
        for number in range(len(operations))
    )
