"""Interpreter: runs an exported graph node by node, in the scope that the metadata gives.

It sets the thread's scope and source line, and calls the operators; the adapter observes them as it
observes those of an eager program. The parts of a composite operator are also observed as in eager
mode, in a scope for the function if it has one (`surroundings.FUNCTIONS`).

Invariant: the results are those of the exported program; the thread's state is restored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from torch.fx import GraphModule, Interpreter, Node

from nodescope.adapters.torch.compat import is_composite
from nodescope.adapters.torch.static.graph_places import GraphPlace, place_of
from nodescope.adapters.torch.surroundings import FUNCTIONS, is_enough
from nodescope.emit.state import current
from nodescope.ir.scopes import join

_RENAMED: Final = {"cross_entropy_loss": "cross_entropy"}
# Operators that run a graph within a setting of autograd or autocast.
_WITHIN: Final = frozenset({"wrap_with_set_grad_enabled", "wrap_with_autocast"})

Unrunnable = Callable[[Node, Exception], Any]
"""Returns a result in place of a node that raised, or raises the exception."""


class Running(Interpreter):  # type: ignore[misc]
    """Runs one graph, and the graphs inside it.

    Args:
        module: The graph.
        instead: Called for a result when a node has raised.
    """

    def __init__(self, module: GraphModule, instead: Unrunnable | None = None) -> None:
        super().__init__(module)
        self.extra_traceback = False  # leaves the program's exceptions unchanged
        self._instead = instead
        self._functions: dict[tuple[str, str], int] = {}

    def run_node(self, n: Node) -> Any:
        """Run a node in its scope, at its source line."""
        if n.op != "call_function":
            return super().run_node(n)
        place = place_of(n.meta)
        with _placed(place, self._function(n, place)):
            try:
                return super().run_node(n)
            except Exception as error:
                if self._instead is None:
                    raise
                return self._instead(n, error)

    def call_function(self, target: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Call an operator, or run the graph passed to a higher-order operator."""
        if isinstance(target, torch._ops.HigherOrderOperator):
            name = target.name()
            if name in _WITHIN:
                at = next(i for i, arg in enumerate(args) if isinstance(arg, GraphModule))
                with _setting(name, args[:at]):
                    return self._inner(args[at], args[at + 1 :])
            if name == "cond":
                chosen, operands = args[1] if bool(args[0]) else args[2], args[3]
                return self._inner(chosen, operands)
        return super().call_function(target, args, kwargs)

    def _inner(self, module: GraphModule, operands: Any) -> Any:
        return Running(module, self._instead).run(*operands)

    def _function(self, node: Node, place: GraphPlace) -> str:
        """The scope of an operator that stands for a function, or ``""``."""
        target = node.target
        if not isinstance(target, torch._ops.OpOverload) or not is_composite(target):
            return ""
        name = str(target.name()).partition("::")[2].partition(".")[0]
        name = _RENAMED.get(name, name)
        if name not in FUNCTIONS or is_enough(place.module):
            return ""
        count = self._functions.get((place.scope, name), 0)
        self._functions[place.scope, name] = count + 1
        return f"{name}_{count}" if count else name


@contextlib.contextmanager
def _placed(place: GraphPlace, function: str) -> Iterator[None]:
    """A context with the thread in the scope and at the source line of a place."""
    state = current()
    saved = (state.scope, state.source, state.cursor)
    inside = join(place.scope, function) if function else place.scope
    state.scope, state.cursor = join(saved[0], inside).rstrip("/"), None
    state.source = place.source or saved[1]
    try:
        yield
    finally:
        state.scope, state.source, state.cursor = saved


@contextlib.contextmanager
def _setting(name: str, given: Any) -> Iterator[None]:
    """A context with the setting of an operator in `_WITHIN`."""
    if name == "wrap_with_set_grad_enabled":
        with torch.set_grad_enabled(torch.is_grad_enabled() and bool(given[0])):
            yield
    else:
        device, dtype, enabled, cache = given[:4]
        with torch.autocast(device, dtype=dtype, enabled=enabled, cache_enabled=cache):
            yield
