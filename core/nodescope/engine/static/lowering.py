"""Lowering: optimises and compiles the plan of a compiled function, and keeps the results.

The first run of a plan sends its graph through the passes and hands it to a back end. A failure
there is reported once, and the plan then runs as traced.

Invariant: a fault of a pass or a back end never stops a program or changes what it computes.
"""

from __future__ import annotations

import numbers
import os
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nodescope.emit.frames import user_source, where
from nodescope.engine import dispatch_mode
from nodescope.engine.codegen import backend as backends
from nodescope.engine.codegen.backend import Runner
from nodescope.engine.execution.elsewhere import Executor
from nodescope.errors import RegistryError, UsageError, WorkerError
from nodescope.ir.graph import Graph, SourceLocation
from nodescope.ir.provenance import MemoryReport
from nodescope.ops.op import Array
from nodescope.ops.plan import Plan
from nodescope.passes import all_passes
from nodescope.passes.pipeline import Lowered, LoweringOptions, chosen_of, lower, names_of
from nodescope.registry import did_you_mean

VARIABLE = "NODESCOPE_BACKEND"
"""The environment variable that overrides ``backend=`` of every compiled function."""

DEFAULT = "numpy"
AUTO = "auto"
_LISTED = "`nodescope passes` lists them"


@dataclass(frozen=True)
class Wish:
    """The compile options of a function.

    Attributes:
        backend: A back end's name, ``"auto"`` for C if there is a compiler, or ``""`` for the
            default.
        passes: Names of the passes to run, None for the defaults.
        unsafe: Names of IEEE-unsafe rules that may be used.
        memory_bytes: Limit of held results, beyond which cheap ones are recomputed.
        executor: Where it runs; None for this process.
    """

    backend: str = ""
    passes: tuple[str, ...] | None = None
    unsafe: frozenset[str] = frozenset()
    memory_bytes: int | None = None
    executor: Executor | None = None

    @property
    def plain(self) -> bool:
        """Whether the plan only has to run as traced, node by node."""
        return self.executor is None and self.passes == () and self.wanted() == "plain"

    def wanted(self) -> str:
        """The back end's name; the environment variable has precedence."""
        return os.environ.get(VARIABLE, "") or self.backend or DEFAULT


def wish_of(
    backend: str | None, passes: Any, unsafe: Any, memory_bytes: int | None,
    executor: Executor | None = None,
) -> Wish:  # fmt: skip
    """The validated options of `nodescope.compile`.

    Raises:
        UsageError: A back end, pass or rule does not exist, or ``memory_bytes`` is not a number of
            bytes.
    """
    if backend is not None and backend != AUTO:
        _backend(backend, "compile")
    try:
        chosen, rules = chosen_of(passes), frozenset(names_of(unsafe, "unsafe"))
    except (RegistryError, UsageError) as error:
        raise UsageError(f"compile: {error.message}", source=where(),
                         hint=error.hint or _LISTED) from None  # fmt: skip
    _check_rules(rules)
    if memory_bytes is not None:
        whole = isinstance(memory_bytes, numbers.Integral) and not isinstance(memory_bytes, bool)
        if not whole or memory_bytes <= 0:
            raise UsageError(
                f"compile: memory_bytes must be a positive number of bytes, not {memory_bytes!r}",
                source=where(), hint="give an integer, or None for no limit",
            )  # fmt: skip
    return Wish(backend or "", chosen, rules, memory_bytes, executor)


def _check_rules(rules: frozenset[str]) -> None:
    if not rules:
        return
    known = {r.name for graph_pass in all_passes() for r in graph_pass.rules if not r.exact} | {
        "all"
    }
    for name in sorted(rules - known):
        near = did_you_mean(name, known) or _LISTED
        raise UsageError(f"compile: no unsafe rule named {name!r}", source=where(), hint=near)


def _backend(name: Any, asked_by: str) -> backends.Backend:
    known = ", ".join(repr(backend.name) for backend in backends.all_backends())
    hint = f'one of {known}, or "{AUTO}"'
    if not isinstance(name, str):
        raise UsageError(
            f"{asked_by}: a back end is a name, not {name!r}", source=where(), hint=hint
        )
    try:
        return backends.get(name)
    except RegistryError as error:
        raise UsageError(f"{asked_by}: {error.message}", source=where(),
                         hint=error.hint or hint) from None  # fmt: skip


@dataclass
class Lowering:
    """A plan, as traced and as it runs.

    Args:
        plan: The traced plan, node by node.
        traced: The graph that goes through the passes: same inputs and outputs as the plan.
        arrays: Its constants by value id.
        wish: The compile options.
        name: The function's name, for messages.
        patience: Number of runs as traced before the plan is lowered; observed runs do not wait.

    Attributes:
        lowered: The graph after the passes, once available.
        runner: The runner; None while the plan runs as traced.
        backend: The name of the back end that made the runner.
        reason: Why the back end is not the requested one, or why compilation failed, or ``""``.
        lower_ns, build_ns: Time taken by the passes and the back end.
        watched: The compiled graph as observed; see `nodescope.engine.static.observed_run`.
        given_up: Whether compiling or running it failed, so that the plan runs as traced.
        place: Where the function is defined, if known.
    """

    plan: Plan
    traced: Graph
    arrays: Mapping[int, Array]
    wish: Wish
    name: str
    patience: int = 0
    lowered: Lowered | None = None
    runner: Runner | None = None
    backend: str = ""
    reason: str = ""
    lower_ns: int = 0
    build_ns: int = 0
    watched: Any = None
    given_up: bool = False
    place: SourceLocation | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, feeds: Sequence[Any]) -> list[Array]:
        """Run the plan; return its outputs by position."""
        runner = self.runner
        if runner is None:
            if self.patience > 0:
                self.patience -= 1
                return self.plan.run(feeds)
            runner = self.ready()
            if runner is None:
                return self.plan.run(feeds)
        try:
            return runner.run(feeds)
        except Exception as error:
            if not isinstance(feeds, list) or isinstance(error, MemoryError | WorkerError):
                raise  # the feeds are gone, or there is no memory for another attempt
            fault = error
        arrays = self.plan.run(feeds)  # raises the error if it is the program's own
        if self.wish.executor is not None:
            raise WorkerError(f"{self.name} fails only elsewhere: {fault}") from fault
        self._give_up(fault)
        return arrays

    def gives_up(self, error: BaseException, feeds: Sequence[Any]) -> bool:
        """Whether only the compiled graph raises this error; then the plan runs as traced from now
        on.
        """
        if not isinstance(error, Exception) or isinstance(error, MemoryError):
            return False
        if self.wish.executor is not None:
            return False
        try:
            self.plan.run(feeds)
        except Exception:
            return False  # the program's own error
        self._give_up(error)
        return True

    def _give_up(self, error: Exception) -> None:
        self.given_up, self.runner, self.watched = True, None, None
        self.reason = f"{type(error).__name__}: {error}"
        _warn(f"{self.name} runs as it was traced, because compilation failed: {self.reason}")

    def ready(self) -> Runner | None:
        """The runner, created if necessary; None if the plan runs as traced."""
        if self.runner is None and not self.given_up and not self.wish.plain:
            with self._lock:
                if self.runner is None and not self.given_up:
                    self._prepare()
        return self.runner

    def memory(self) -> MemoryReport | None:
        """Memory of the plan's intermediate results; None if not planned."""
        return None if self.runner is None else self.runner.memory

    def _prepare(self) -> None:
        start = time.perf_counter_ns()
        chosen, self.reason = self._chosen()
        try:
            options = LoweringOptions(unsafe=self.wish.unsafe, memory_bytes=self.wish.memory_bytes,
                              backend=chosen.name)  # fmt: skip
            lowered = lower(self.traced, self.arrays, self.wish.passes, options)
            middle = time.perf_counter_ns()
            self.lower_ns = middle - start
            executor = self.wish.executor
            if executor is None:
                self.backend, runner = self._built(chosen, lowered)
            else:
                self.backend = chosen.name
                lowered, runner = executor.build(lowered, chosen.name, self.name)
            self.build_ns = time.perf_counter_ns() - middle
            self.lowered = lowered
            self.runner = runner
        except Exception as error:
            if self.wish.executor is not None:
                raise
            self._give_up(error)
        finally:
            self.tell(start)

    def tell(self, start_ns: int, suffix: str = "") -> None:
        """Report to the observer that compiling took time, at the function's line.

        Args:
            suffix: Added to the function's name if something other than compiling was done.
        """
        tracer = dispatch_mode.attending()
        report = getattr(tracer, "compiled", None)  # builders of graphs do not record time
        if report is not None:
            sources = (node.source for node in self.traced.nodes)
            at = self.place or next((source for source in sources if source is not None), None)
            report(f"{self.name}{suffix}", at.file if at else "", at.line if at else 0, start_ns)

    def _built(self, chosen: backends.Backend, lowered: Lowered) -> tuple[str, Runner]:
        """Build the graph, with the default back end if the chosen one fails: it is valid for
        any.
        """
        try:
            return chosen.name, chosen.build(lowered)
        except Exception as error:
            if chosen.name in (DEFAULT, "plain"):
                raise
            self.reason = f"{chosen.name}: {error}"
            _warn(f"{self.name} runs with the back end {DEFAULT!r}, because {self.reason}")
            return DEFAULT, backends.get(DEFAULT).build(lowered)

    def _chosen(self) -> tuple[backends.Backend, str]:
        name = self.wish.wanted()
        if name == AUTO:
            fast = backends.get("c")
            missing = fast.missing()
            return (backends.get(DEFAULT), missing) if missing else (fast, "")
        backend = _backend(name, VARIABLE if os.environ.get(VARIABLE) else "compile")
        missing = backend.missing()
        if not missing:
            return backend, ""
        _warn(f"the back end {name!r} cannot be used: {missing}; {DEFAULT!r} runs instead")
        return backends.get(DEFAULT), f"{name}: {missing}"


_said: set[str] = set()


def _warn(text: str) -> None:
    """A warning at the user's line, once per text."""
    if text in _said:
        return
    _said.add(text)
    at = user_source()
    if at is None:
        warnings.warn(text, UserWarning, stacklevel=2)
    else:
        warnings.warn_explicit(text, UserWarning, at.file, at.line)


def closed(plan: Plan, nodes: Sequence[Any]) -> Graph:
    """The graph to lower for a plan: these nodes, with the plan's inputs and outputs."""
    fed = set(plan.fed)
    kept = [node for node in nodes if fed.isdisjoint(node.outputs) or node.op == "placeholder"
            or node.op == "parameter"]  # fmt: skip
    produced = {value for node in kept for value in node.outputs}
    used = produced.union(plan.fed, plan.outputs, (v for node in kept for v in node.inputs))
    return Graph(
        id=plan.graph.id, kind="static", inputs=plan.fed, outputs=plan.outputs,
        nodes=tuple(kept), values=tuple(value for value in plan.graph.values if value.id in used),
        constants=tuple(constant for constant in plan.graph.constants if constant in produced),
    )  # fmt: skip
