"""Name scopes and training steps.

Invariant: scopes belong to the thread that opened them and are closed in any case.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from nodescope.engine import modes
from nodescope.engine.source import where
from nodescope.engine.state import current
from nodescope.errors import UsageError
from nodescope.ir.scopes import join

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])


class name_scope:
    """Name what happens inside: ``with name_scope("encoder"):``, or as a decorator.

    Args:
        name: One name, or several joined by slashes. Scopes nest.

    Raises:
        UsageError: The name is empty or has an empty part.
    """

    __slots__ = ("_saved", "name")

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not all(part.strip() for part in name.split("/")):
            raise UsageError(
                f"name_scope: {name!r} is not a name",
                source=where(),
                hint="use words joined by single slashes, such as 'encoder/layer_0'",
            )
        self.name = name
        self._saved: list[Any] = []

    def __enter__(self) -> str:
        state = current()
        self._saved.append((state.scope, state.cursor))
        state.scope = join(state.scope, self.name)
        state.cursor = None
        return state.scope

    def __exit__(self, *_: object) -> None:
        state = current()
        state.scope, state.cursor = self._saved.pop()

    def __call__(self, function: Function) -> Function:
        """The function, with all its calls in this scope."""

        @functools.wraps(function)
        def scoped(*args: Any, **kwargs: Any) -> Any:
            with name_scope(self.name):
                return function(*args, **kwargs)

        return scoped  # type: ignore[return-value]


def steps(items: Iterable[T]) -> Iterator[T]:
    """Yield ``items``, each in a training step of its own.

    Nodes keep their identity from step to step, and what happens after the loop still counts to the
    last step.
    """
    for item in items:
        step()
        try:
            yield item
        finally:
            _finish()


def step() -> None:
    """Begin the next training step; the one before, if any, ends here."""
    tracer = modes.observer()
    if tracer is not None:
        tracer.start_step()


def _finish() -> None:
    tracer = modes.observer()
    if tracer is not None:
        tracer.finish_step()
