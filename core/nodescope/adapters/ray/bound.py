"""Bind graphs (`ray.dag`): drawn whole before their first execution, whose tasks are drawn nodes.

Drawing a bind graph defines a node for each of its tasks, as if they were submitted. An execution
submits them in the same order, so each task belongs to the node drawn for it. A message reports
where an execution differs from the drawing.

A compiled graph submits no tasks: values pass from actor to actor through channels. The tasks of an
execution are derived from the drawing, and the actors report them.

Invariant: observation does not change how a graph is executed; what cannot be drawn is left out.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from nodescope.adapters.ray import compat
from nodescope.adapters.ray.describing import describe, references_in, text_of
from nodescope.adapters.ray.wire import Argument, Submitted
from nodescope.emit.frames import calling_line

Place = tuple[str, int]
"""The scope of a bind graph, and the number of its execution; 0 for the drawing."""


class Execution(NamedTuple):
    """An execution of a compiled graph.

    Attributes:
        compilation: The number of the compilation.
        number: The number of this execution, from 1.
        args, kwargs: The arguments that the program passes.
    """

    compilation: str
    number: int
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class BoundGraphs:
    """The bind graphs of a program.

    Args:
        submit: Takes a submission; returns the ids of the node and of its inputs.
        inline: As in `Submissions`.
        say: Takes a message about an execution that differs from its drawing.
        held, may_be_held: As in `compat.graphs_seen`.
    """

    def __init__(
        self,
        submit: Callable[[Submitted], tuple[int, ...]],
        inline: Callable[[], int],
        say: Callable[[str], None],
        held: Callable[[], bool],
        may_be_held: Callable[[], bool],
    ) -> None:
        self._submit, self._inline, self._say = submit, inline, say
        self._held, self._may_be_held = held, may_be_held
        self._scopes: dict[str, str] = {}
        self._drawn: dict[str, list[tuple[int, ...]]] = {}
        self._executions: dict[str, int] = {}
        self._compilations: dict[str, tuple[str, Any]] = {}
        self._local = threading.local()

    @contextlib.contextmanager
    def seen(self) -> Iterator[None]:
        """Observe bind graphs until the context is left."""
        with compat.graphs_seen(
            self._executed, self._compiled, self._channelled, self._held, self._may_be_held
        ):
            yield

    @property
    def place(self) -> Place | None:
        """The execution that the calling thread is submitting, or None."""
        return getattr(self._local, "place", None)

    def submit(self, message: Submitted) -> None:
        """Take a submission of the program."""
        nodes = self._submit(message)
        if message.graph is not None:
            self._local.nodes.append(nodes)

    @contextlib.contextmanager
    def _executed(self, root: Any) -> Iterator[None]:
        scope = self._draw(root, "dag")
        if not scope or self.place is not None:
            yield
            return
        self._executions[scope] = self._executions.get(scope, 0) + 1
        self._local.place, self._local.nodes = (scope, self._executions[scope]), []
        try:
            yield
        finally:
            nodes, self._local.place = self._local.nodes, None
            self._compare(scope, nodes)

    def _compiled(self, root: Any, number: str) -> None:
        scope = self._draw(root, "compiled_dag")
        if scope:
            self._compilations[number] = scope, root

    def _channelled(self, number: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Submit the drawn tasks for an execution of a compiled graph; errors are ignored."""
        if number not in self._compilations:
            return
        scope, root = self._compilations[number]
        count = self._executions[number] = self._executions.get(number, 0) + 1
        execution = Execution(number, count, args, kwargs)
        with contextlib.suppress(Exception):
            for message in list(self._messages(root, scope, execution)):
                self._submit(message)

    def _compare(self, scope: str, nodes: list[tuple[int, ...]]) -> None:
        drawn = self._drawn[scope]
        if nodes != drawn:
            same = sum(node in drawn for node in nodes)
            self._say(
                f"{scope}: {same} of {len(drawn)} bound tasks were submitted as bound, and "
                f"{len(nodes) - same} otherwise"
            )

    def _draw(self, root: Any, name: str) -> str:
        """Draw a bind graph once. Returns its scope, or ``""`` if it cannot be drawn."""
        key = f"{name} {compat.graph_id(root)}"
        if key in self._scopes:
            return self._scopes[key]
        count = sum(scope.startswith(name) for scope in self._scopes.values())
        scope = f"{name}_{count}" if count else name
        self._scopes[key] = ""
        try:
            nodes = [self._submit(message) for message in self._messages(root, scope)]
        except Exception:  # an unknown form: it is executed undrawn
            return ""
        self._drawn[scope], self._scopes[key] = nodes, scope
        return scope

    def _messages(
        self, root: Any, scope: str, execution: Execution | None = None
    ) -> Iterator[Submitted]:
        """The submissions of an execution, as far as known; without ``execution``, the drawing."""
        line = calling_line()
        place = line if line[0] else None
        results: dict[str, tuple[bytes, ...]] = {}
        number = 0 if execution is None else execution.number

        def argument(slot: str, name: str, value: Any) -> Argument:
            return self._argument(slot, name, value, results, execution)

        for node in compat.bound_nodes(root):
            if node.kind in ("input", "part"):
                continue
            prefix = f"{scope} {number} {node.id}" if number else f"{scope} {node.id}"
            refs = tuple(f"{prefix} {port}".encode() for port in range(node.results))
            results[node.id] = refs if node.kind != "actor" else ()
            names = node.names
            arguments = [
                argument(str(at), names[at] if at < len(names) else str(at), value)
                for at, value in enumerate(node.args)
            ] + [argument(key, key, value) for key, value in node.kwargs]
            drawn = f"{scope} {node.actor}"
            known = node.kind == "actor" or f"{scope} {node.actor}" in results
            actor = drawn if known else node.actor
            if node.kind == "actor":
                results[drawn] = ()
            if execution is not None:
                task = compat.channelled_id(execution.compilation, node.id, number)
            else:
                task = f"actor:{actor}" if node.kind == "actor" else f"{scope} {node.id}"
            yield Submitted(
                node.kind, task, "", 0, node.owner, node.name, "", actor, tuple(arguments),
                results[node.id], 0, False, {}, place, time.perf_counter_ns(), (scope, number),
                execution is not None,
            )  # fmt: skip

    def _argument(
        self, slot: str, name: str, value: Any, results: dict[str, tuple[bytes, ...]],
        execution: Execution | None,
    ) -> Argument:  # fmt: skip
        kind = compat.node_class()
        if isinstance(value, kind):
            port, key = compat.result_of(value)
            refs = results.get(key)
            if refs:
                return Argument(slot, name, (refs[port],), True)
            if execution is None:  # an input, known once the program passes it
                return Argument(slot, name, unknown=True)
            value = compat.input_of(value, execution.args, execution.kwargs)
        inner = [compat.result_of(node) for node in references_in(value, kind)]
        refs = tuple(results[key][port] for port, key in inner if results.get(key))
        if refs:
            return Argument(slot, name, refs, text=f"{type(value).__name__} of {len(refs)} objects")
        content = describe(value, self._inline(), arrays=self._inline() >= 0)
        if content.dtype:
            return Argument(slot, name, content=content)
        return Argument(slot, name, text=content.text or text_of(value))
