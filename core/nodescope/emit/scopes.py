"""Name scopes and training steps.

Invariant: scopes belong to the thread that opened them and are always closed.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from nodescope.emit import emitter as emitters
from nodescope.emit import state as states
from nodescope.emit.frames import where
from nodescope.emit.state import current
from nodescope.errors import UsageError
from nodescope.ir.scopes import join

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])


class name_scope:
    """Group operations under a name: ``with name_scope("encoder"):``, or as a decorator.

    Args:
        name: One name, or several joined by slashes. Scopes can be nested. In a `Graph`, each block
            gets its own scope, ``a`` and then ``a_1``, unless ``name`` is the ``as`` value of an
            earlier block, which ends in a slash.

    Raises:
        UsageError: The name is empty or has an empty part.
    """

    __slots__ = ("_saved", "name")

    def __init__(self, name: str) -> None:
        builder = current().builder
        by_hand = builder is not None and builder.takes_paths
        if not _is_name(name) and not (by_hand and _is_path(name)):
            raise UsageError(
                f"name_scope: {name!r} is not a name",
                source=where(),
                hint="use words joined by single slashes, such as 'encoder/layer_0'",
            )
        self.name = str.__str__(name)  # a subclass of str may compare and hash differently
        self._saved: list[Any] = []

    def __enter__(self) -> str:
        state = current()
        self._saved.append((state.scope, state.cursor))
        if state.builder is not None:
            state.scope, called = state.builder.enter_scope(state.scope, self.name)
        else:
            called = state.scope = join(state.scope, self.name)
        state.cursor = None
        if states.moved is not None:
            states.moved(state)
        return called  # type: ignore[no-any-return]

    def __exit__(self, *_: object) -> None:
        state = current()
        state.scope, state.cursor = self._saved.pop()
        if states.moved is not None:
            states.moved(state)

    def __call__(self, function: Function) -> Function:
        """The function wrapped so that all its calls are in this scope."""

        @functools.wraps(function)
        def scoped(*args: Any, **kwargs: Any) -> Any:
            with name_scope(self.name):
                return function(*args, **kwargs)

        return scoped  # type: ignore[return-value]


def _is_name(name: object) -> bool:
    return isinstance(name, str) and _has_parts(str.__str__(name))


@functools.lru_cache(maxsize=1024)
def _has_parts(name: str) -> bool:
    return all(part.strip() for part in name.split("/"))


def _is_path(name: object) -> bool:
    """Whether a name is a path in graphs built by hand, where ``"a/"`` reopens scope ``a``, and
    None or ``""`` is the top.
    """
    return not name or (isinstance(name, str) and name.endswith("/") and _is_name(name[:-1]))


def steps(items: Iterable[T]) -> Iterator[T]:
    """Yield ``items``, each in its own training step.

    Nodes keep their identity from step to step. Operations after the loop count towards the last
    step; loops there execute the same nodes in each round.

    Raises:
        UsageError: ``items`` cannot be iterated over.
    """
    if not hasattr(items, "__iter__") and not hasattr(items, "__getitem__"):
        hint = f"ns.steps(range({items}))" if isinstance(items, int) else "give an iterable"
        raise UsageError(f"steps: cannot iterate over {items!r}", source=where(), hint=hint)
    begun = broken = False
    emitter = _counting()
    if emitter is not None:
        emitter.steps_follow()
    try:
        iterator = iter(items)
        while True:
            asked_ns = time.perf_counter_ns()
            try:
                item = next(iterator)
            except StopIteration:
                break
            emitter = _counting()
            if emitter is None:
                step()
            else:
                emitter.fetched(asked_ns)
                emitter.begin_step()
            begun = True
            try:
                yield item
            finally:
                emitter = _counting()
                if emitter is not None:
                    emitter.end_step()
    except GeneratorExit:
        broken = True  # a break or an exception in the loop's body ended the generator
        raise
    finally:
        emitter = _counting()
        if begun and emitter is not None:
            emitter.end_of_steps(broken=broken)
        elif emitter is not None:
            emitter.count_rounds()


def step() -> None:
    """Begin the next training step; the previous one, if any, ends here."""
    refused = getattr(current().builder, "start_step", None)
    if refused is not None:
        refused()
    emitter = _counting()
    if emitter is not None:
        emitter.begin_step()


def _counting() -> emitters.Emitter | None:
    """The emitter of the run; None without one, and while a graph is built, which has no steps."""
    return None if current().builder is not None else emitters.active()
