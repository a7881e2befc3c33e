"""Cross-check of calls: runs each call as traced and as it runs unobserved, and compares the
results with each other and with the observed ones.

Invariant: the program's arrays are only read; an error in the check of a function ends only that
check.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from nodescope.console_output import last_line
from nodescope.engine.codegen import backend as backends
from nodescope.engine.codegen.backend import Runner
from nodescope.engine.crosscheck.amounts import amount_of, far, first_pair, others
from nodescope.engine.crosscheck.kernels import (
    WrongKernel,
    kernels_in_turn,
    wrong_alone,
    wrong_in_plan,
)
from nodescope.engine.crosscheck.rewrites import (
    Blamed,
    blamed_rewrite,
    broken_order,
    failing_pass,
    lost_origin,
    merged_recomputation,
    wrong_stand_in,
)
from nodescope.engine.crosscheck.sessions import SessionCheck
from nodescope.engine.crosscheck.values import every_value, quiet, same
from nodescope.engine.static.lowering import Lowering
from nodescope.ir.differences import (
    Amount,
    CallDifference,
    CrossChecked,
    DifferenceKind,
    FunctionCheck,
)
from nodescope.ir.graph import Node
from nodescope.passes.pipeline import LoweringOptions

if TYPE_CHECKING:
    from nodescope.engine.graphs.session import ObservedRun

# The back end may observe the first run to make its plan, which runs from the second run on.
_FIRST: Final = 2
# In this many calls, kernels of an inexact back end are compared one by one; then, whole runs.
_ONE_BY_ONE: Final = 3
ONLY_OBSERVED: Final = "only while it is observed"
ONLY_UNOBSERVED: Final = "only while nobody observes it"
_FORMS: Final = {"": "", "observed": ONLY_OBSERVED, "unobserved": ONLY_UNOBSERVED}


class CrossCheck:
    """The checks of one run. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._functions: dict[int, _Function] = {}
        self._sessions: dict[int, SessionCheck] = {}
        self._unlike: dict[str, CallDifference] = {}

    def call(
        self, lowering: Lowering, graph: int, step: int, feeds: Sequence[Any],
        observed: Sequence[Any] | None = None,
    ) -> None:  # fmt: skip
        """Check a call.

        Args:
            lowering: The lowering that was called.
            graph: The run's id of its graph.
            step: The training step.
            feeds: Its inputs: arrays, and Python floats.
            observed: The observed results; None if the call was not observed.
        """
        with self._lock:
            function = self._functions.setdefault(id(lowering), _Function(lowering, graph))
            function.call(step, feeds, observed)

    def session(self, run: ObservedRun) -> None:
        """Check an observed run of a built graph."""
        with self._lock:
            check = self._sessions.setdefault(id(run.program), SessionCheck(run.program))
            check.run(run)
            if check.runs == 1 and check.sound:
                check.compiled(_compiled(check.lowering, run.step, run.feeds))

    def failed(self, lowering: Lowering, step: int) -> None:
        """Note a function that runs as traced, because it could not be compiled."""
        with self._lock:
            function = self._functions.setdefault(id(lowering), _Function(lowering, 0))
            function.failed(step)

    def raised(self, lowering: Lowering, runner: Runner, step: int, feeds: Sequence[Any]) -> None:
        """Check a call in which only the compiled graph raised an error."""
        with self._lock:
            function = self._functions.setdefault(id(lowering), _Function(lowering, 0))
            function.raised(runner, step, feeds)

    def unlike(self, name: str, step: int, call: int, *, observed_alone: bool) -> None:
        """Note a call whose result differs from that in an unobserved run.

        Args:
            name: The function's name.
            observed_alone: Whether the plain function's result is that of the unobserved run.
        """
        words = ONLY_OBSERVED if observed_alone else ONLY_UNOBSERVED
        with self._lock:
            self._unlike.setdefault(name, CallDifference("form", step, call, detail=words))

    def report(self) -> CrossChecked:
        """The findings so far."""
        with self._lock:
            calls = [self._with_unlike(function.report()) for function in self._functions.values()]
            runs = [check.report() for check in self._sessions.values()]
            return CrossChecked((*calls, *runs))

    def _with_unlike(self, check: FunctionCheck) -> FunctionCheck:
        difference = check.difference or self._unlike.get(check.function)
        return msgspec.structs.replace(check, difference=difference)


def _compiled(lowering: Lowering, step: int, feeds: Sequence[Any]) -> FunctionCheck:
    """The check of the compiled form of a graph that otherwise runs node by node."""
    function = _Function(lowering, 0)
    with quiet():
        if lowering.ready() is None:
            function.failed(step)
        else:
            function.call(step, feeds)
    return function.report()


class _Function:
    """One trace, and the findings about it."""

    def __init__(self, lowering: Lowering, graph: int) -> None:
        self._lowering, self._graph = lowering, graph
        self._calls = self._step = 0
        self._difference: CallDifference | None = None
        self._fault = ""
        self._earlier: list[tuple[weakref.ref[Any], Any]] = []

    def report(self) -> FunctionCheck:
        lowering = self._lowering
        exact = not lowering.backend or backends.get(lowering.backend).exact
        return FunctionCheck(
            lowering.name,
            self._graph,
            lowering.backend,
            exact,
            self._calls,
            self._difference,
            self._fault,
        )

    def failed(self, step: int) -> None:
        self._calls += 1
        self._step = step
        if self._difference is None:
            lowering = self._lowering
            options = LoweringOptions(
                unsafe=lowering.wish.unsafe, memory_bytes=lowering.wish.memory_bytes,
                backend=lowering.wish.wanted(),
            )  # fmt: skip
            rules = failing_pass(
                lowering.traced, lowering.arrays, lowering.wish.passes, options, lowering.reason
            )
            self._report("compilation", rules=rules, detail=lowering.reason)

    def call(self, step: int, feeds: Sequence[Any], observed: Sequence[Any] | None = None) -> None:
        self._calls += 1
        self._step = step
        if self._difference is None and not self._fault:
            try:
                self._check(list(feeds), observed)
            except Exception as error:  # of the check: the program's own errors were raised before
                self._fault = last_line(error)

    def raised(self, runner: Runner, step: int, feeds: Sequence[Any]) -> None:
        self._calls += 1
        self._step = step
        if self._difference is None:
            try:
                self._raised(list(feeds), runner, self._lowering.reason)
            except Exception:
                self._report("compilation", detail=self._lowering.reason)

    # One call

    def _check(self, feeds: list[Any], observed: Sequence[Any] | None) -> None:
        lowering = self._lowering
        lowered, runner = lowering.lowered, lowering.runner
        assert lowered is not None
        assert runner is not None
        before = [np.array(feed, copy=True) for feed in feeds]
        with quiet():
            expected = lowering.plan.run(feeds)
            lost = self._overwritten()
            results: list[Any] = []
            for _ in range(_FIRST if self._calls == 1 else 1):
                try:
                    results = runner.run(list(feeds))
                except Exception as error:
                    return self._raised(feeds, runner, last_line(error))
        lost = lost or self._overwritten()
        if lost:
            return self._report("memory", detail=lost)
        for value, feed, then in zip(lowered.graph.inputs, feeds, before, strict=True):
            if isinstance(feed, np.ndarray) and not same(feed, then):
                return self._of_value("memory", value, then, feed, "its input is written to")
        self._earlier = [
            (weakref.ref(result), np.array(result, copy=True))
            for result in results if isinstance(result, np.ndarray)
        ]  # fmt: skip
        unsafe = bool(lowering.wish.unsafe)
        exact = backends.get(lowering.backend).exact and not unsafe
        first = self._calls == 1
        if exact:
            differs = others(results, expected)
        else:
            differs = self._calls <= _ONE_BY_ONE or far(results, expected)
        seen = observed is not None and others(observed, results)
        if differs or first or seen:
            self._locate(feeds, expected, results, unsafe=unsafe)
        if seen and self._difference is None:
            assert observed is not None
            return self._output("form", observed, results, ONLY_OBSERVED)
        if first and self._difference is None:
            self._structure(feeds, expected, results)
        return None

    def _locate(
        self, feeds: list[Any], expected: list[Any], results: list[Any], *, unsafe: bool
    ) -> None:
        """Find and report the cause of a difference, if there is one."""
        lowering = self._lowering
        lowered, runner = lowering.lowered, lowering.runner
        assert lowered is not None
        assert runner is not None
        final, values = every_value(lowered.graph, lowered.arrays, feeds)
        plain = expected[: len(final)]
        if not unsafe and others(final, plain):
            traced = every_value(lowering.traced, lowering.arrays, feeds)[1]
            blamed = blamed_rewrite(lowered, lowering.arrays, feeds, traced)
            return self._blame(blamed or Blamed(None, (), *first_pair(final, plain)))
        backend = backends.get(lowering.backend)
        wrong = wrong_alone(lowered, backend, runner, values)
        if wrong is None:
            alone, in_turn = kernels_in_turn(lowered, runner, feeds)
            if others(results, alone):
                wrong = wrong_in_plan(lowered, backend, feeds, in_turn)
                if wrong is None:
                    return self._output("plan", results, alone)
        if wrong is not None:
            return self._kernel(wrong)
        return None

    def _structure(self, feeds: list[Any], expected: list[Any], results: list[Any]) -> None:
        """Check what values do not show: shared memory, order, and provenance."""
        lowered = self._lowering.lowered
        assert lowered is not None
        shared = self._shared(feeds, expected, results)
        if shared:
            return self._report("memory", *shared)
        broken = broken_order(lowered) or merged_recomputation(lowered)
        if broken is not None:
            node, detail, rules = broken
            return self._report("order", node, rules=rules, detail=detail)
        lost = lost_origin(lowered)
        if lost is not None:
            return self._report(
                "provenance", kernel=lost, detail="it does not say which nodes it comes from"
            )
        if not self._lowering.wish.unsafe:
            traced = every_value(self._lowering.traced, self._lowering.arrays, feeds)[1]
            final = every_value(lowered.graph, lowered.arrays, feeds)[1]
            wrong = wrong_stand_in(lowered, traced, final)
            if wrong is not None:
                return self._report(
                    "provenance", wrong.node, rules=wrong.rules,
                    amount=amount_of(wrong.expected, wrong.actual),
                    detail="another value is reported to stand for it",
                )  # fmt: skip
        return None

    def _overwritten(self) -> str:
        """Which result of the previous call was overwritten, as text, or ``""``."""
        for i, (reference, before) in enumerate(self._earlier):
            result = reference()
            if result is not None and not same(result, before):
                return f"result {i} of the call before was overwritten"
        return ""

    def _shared(
        self, feeds: list[Any], expected: list[Any], results: list[Any]
    ) -> tuple[Node | None, Node | None, tuple[str, ...], None, str] | None:
        """Results that share memory that the traced results do not share."""
        lowered = self._lowering.lowered
        assert lowered is not None
        arrays = [item for item in (*feeds, *lowered.arrays.values()) if _is_array(item)]
        for i, (now, then) in enumerate(zip(results, expected, strict=False)):
            if any(_share(now, item) and not _share(then, item) for item in arrays):
                return *self._makers(i), ("own",), None, f"result {i} shares memory with an input"
        for i, j in combinations(range(min(len(results), len(expected))), 2):
            if _share(results[i], results[j]) and not _share(expected[i], expected[j]):
                return *self._makers(i), ("own",), None, f"results {i} and {j} share memory"
        return None

    # Findings

    def _raised(self, feeds: list[Any], runner: Runner, error: str) -> None:
        """Report an error that only the compiled graph raises."""
        lowering = self._lowering
        lowered = lowering.lowered
        assert lowered is not None
        try:
            values = every_value(lowered.graph, lowered.arrays, feeds)[1]
        except Exception:
            traced = every_value(lowering.traced, lowering.arrays, feeds)[1]
            blamed = blamed_rewrite(lowered, lowering.arrays, feeds, traced)
            return self._blame(blamed or Blamed(None, ()), f"it raises {error}")
        backend = backends.get(lowering.backend)
        wrong = wrong_alone(lowered, backend, runner, values)
        wrong = wrong or wrong_in_plan(lowered, backend, feeds, values)
        if wrong is not None:
            return self._kernel(wrong)
        return self._report("plan", detail=f"it raises {error}")

    def _blame(self, blamed: Blamed, detail: str = "") -> None:
        amount = amount_of(blamed.expected, blamed.actual)
        self._report("rewrite", blamed.node, rules=blamed.rules, amount=amount, detail=detail)

    def _kernel(self, wrong: WrongKernel) -> None:
        kind: DifferenceKind = "kernel" if wrong.alone else "plan"
        amount = amount_of(wrong.expected, wrong.actual)
        detail = f"it raises {wrong.error}" if wrong.error else _FORMS[wrong.form]
        self._report(kind, self._traced(wrong), wrong.node, amount=amount, detail=detail)

    def _output(
        self, kind: DifferenceKind, results: Sequence[Any], right: Sequence[Any], detail: str = ""
    ) -> None:
        """Report the first wrong output and its kernel, if kernels are wrong only together."""
        for i, (now, then) in enumerate(zip(results, right, strict=True)):
            if not same(now, np.asarray(then)):
                traced, kernel = self._makers(i)
                return self._report(
                    kind, traced, kernel, amount=amount_of(then, now), detail=detail
                )
        return None

    def _of_value(
        self, kind: DifferenceKind, value: int, expected: Any, actual: Any, detail: str
    ) -> None:
        nodes = self._lowering.traced.nodes
        node = next((node for node in nodes if value in node.outputs), None)
        self._report(kind, node, amount=amount_of(expected, actual), detail=detail)

    def _makers(self, output: int) -> tuple[Node | None, Node | None]:
        """The traced and the final node that make an output."""
        lowered = self._lowering.lowered
        assert lowered is not None
        value = lowered.graph.outputs[output]
        kernel = next((node for node in lowered.graph.nodes if value in node.outputs), None)
        made = lowered.traced.outputs[output]
        traced = next((node for node in lowered.traced.nodes if made in node.outputs), None)
        return traced, kernel

    def _traced(self, wrong: WrongKernel) -> Node | None:
        """The traced node that a kernel computes wrongly, else the kernel's last traced node."""
        lowered = self._lowering.lowered
        assert lowered is not None
        if wrong.member is not None:
            for node in lowered.traced.nodes:
                inside = map(lowered.provenance.kernel, node.outputs)
                if any(value is not None and value[1] in wrong.member.outputs for value in inside):
                    return node
        origin = set(wrong.node.origin)
        return next((n for n in reversed(lowered.traced.nodes) if n.id in origin), None)

    def _report(
        self, kind: DifferenceKind, node: Node | None = None, kernel: Node | None = None,
        rules: tuple[str, ...] = (), amount: Amount | None = None, detail: str = "",
    ) -> None:  # fmt: skip
        self._difference = CallDifference(
            kind, self._step, self._calls,
            node=node.id if node else 0, name=node.name if node else "",
            op=node.op if node else "", source=node.source if node else None,
            kernel=kernel.id if kernel else 0, kernel_name=kernel.name if kernel else "",
            rules=rules, amount=amount, detail=detail,
        )  # fmt: skip
        self._earlier = []


def _is_array(item: Any) -> bool:
    return isinstance(item, np.ndarray)


def _share(first: Any, other: Any) -> bool:
    return _is_array(first) and _is_array(other) and bool(np.may_share_memory(first, other))
