"""Requirements on every back end; each check raises `Differs` if one is violated.

The results of exact back ends must be bit-identical to the traced graph's. For other back ends,
each kernel is compared alone, on the reference's inputs, within its `bounds`; and a run must be
bit-identical to its kernels called one after the other.

Invariant: the checks do not depend on how a back end works.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.engine.codegen.backend import Backend, Runner
from nodescope.engine.crosscheck.bounds import outside, ranges
from nodescope.engine.crosscheck.values import quiet
from nodescope.ir.graph import Node
from nodescope.ops.plan import Plan
from nodescope.passes.pipeline import Lowered, LoweringOptions
from tests.conformance.graphs.checks import check_memory, lowered_of, need, nodes_of, said_of
from tests.conformance.graphs.making import Case
from tests.conformance.graphs.running import Traced
from tests.conformance.graphs.same import Differs, check_same, difference


def built(
    case: Case, backend: Backend, chosen: Sequence[str] | None = None
) -> tuple[Lowered, Runner]:
    """The case lowered for a back end, and built."""
    lowered = lowered_of(case, chosen, LoweringOptions(backend=backend.name))
    return lowered, backend.build(lowered)


def check_backend(case: Case, backend: Backend, chosen: Sequence[str] | None = None) -> None:
    """All checks below except `check_threads`."""
    traced = Traced(case)
    lowered, runner = built(case, backend, chosen)
    label = f"{backend.name} {said_of(lowered)}"
    with quiet():
        first = runner.run(list(case.feeds))
    kept = [np.array(item, copy=True) for item in first]
    if backend.exact:
        check_same(first, traced.outputs, label, case)
    check_kernels(case, backend, lowered, runner, first, label)
    check_memory(case, traced, first, label)
    for feed, before in zip(case.feeds, traced.before, strict=True):
        need(not isinstance(feed, np.ndarray) or not difference(feed, before),
             f"{label}: a feed was written to", case)  # fmt: skip
    with quiet():
        second = runner.run(list(case.feeds))
    check_same(second, kept, f"the second run of {label}", case)
    check_same(first, kept, f"the first results after a second run of {label}", case)
    for i, left_one in enumerate(first):
        for j, other in enumerate(second):
            shared = _shared(left_one, other) and not _shared(traced.outputs[i], traced.outputs[j])
            need(not shared, f"{label}: results {i} and {j} of two runs share memory", case)
    check_timed(case, lowered, runner, kept, label)
    check_layouts(case, backend, runner, label)


def check_layouts(case: Case, backend: Backend, runner: Runner, label: str) -> None:
    """Check feeds with other strides, after the usual ones and before them."""
    turned = [
        np.array(feed, order="F" if feed.flags.c_contiguous else "C", copy=True)
        if isinstance(feed, np.ndarray) else feed
        for feed in case.feeds
    ]  # fmt: skip
    if not backend.exact:
        return
    with quiet():
        expected = Plan(case.graph, case.arrays).run(turned)
        for _ in range(2):
            result = runner.run(list(turned))
            check_same(result, expected, f"feeds of other strides: {label}", case)


def _shared(first: Any, other: Any) -> bool:
    return np.may_share_memory(first, other)


def check_kernels(
    case: Case, backend: Backend, lowered: Lowered, runner: Runner, results: list[Any], label: str
) -> None:
    """Check that single kernels, in fresh memory, give the run's bits, each within its bounds."""
    values: dict[int, Any] = dict(lowered.arrays)
    values.update(zip(lowered.graph.inputs, case.feeds, strict=True))
    nodes = nodes_of(lowered.graph)
    need(
        runner.kernels.keys() >= {node.id for node in nodes}, f"{label}: a node has no kernel", case
    )
    for node in nodes:
        operands = [values[value] for value in node.inputs]
        before = [np.array(item, copy=True) for item in operands]
        with quiet():
            result = runner.kernels[node.id](*operands)
        for first, other in zip(operands, before, strict=True):
            need(not isinstance(first, np.ndarray) or not difference(first, other),
                 f"{label}: {node.name} writes to its input", case)  # fmt: skip
        if not backend.exact:
            check_bounds(case, node, operands, result, label)
        values.update(zip(node.outputs, result, strict=True))
    alone = [values[value] for value in lowered.graph.outputs]
    check_same(alone, results, f"kernel after kernel of {label}", case)


def check_bounds(
    case: Case, node: Node, operands: Sequence[Any], result: Sequence[Any], label: str
) -> None:
    """Check one kernel of a back end that is not exact."""
    body = node.attrs["body"] if node.op == "fused" else node
    if ops.get(node.op).outputs != 1 and node.op != "fused" and node.family != "control":
        return  # Factorisations are not unique.
    for value, first, where in zip(node.outputs, result, ranges(body, operands), strict=True):
        error = outside(np.asarray(first), where)
        if error:
            raise Differs(f"{label}\n{node.name}, %{value}: {error}\n{case}")


def check_timed(
    case: Case, lowered: Lowered, runner: Runner, results: list[Any], label: str
) -> None:
    """Check that a timed run gives the same results, and times for each node."""
    count = len(nodes_of(lowered.graph))
    stamps = np.zeros(2 * count, np.int64)
    with quiet():
        result = runner.run_timed(list(case.feeds), stamps)
    check_same(result, results, f"the timed run of {label}", case)
    need((stamps > 0).all(), f"{label}: a node has no time", case)
    need((np.diff(stamps) >= 0).all(), f"{label}: times go back: {stamps}", case)


def other_feeds(case: Case) -> list[Any]:
    """The same feeds with their floating-point elements in another order."""
    return [
        np.roll(feed, 1) * feed.dtype.type(0.5)
        if isinstance(feed, np.ndarray) and feed.dtype.kind == "f"
        else feed
        for feed in case.feeds
    ]


def check_threads(case: Case, backend: Backend, *, runs: int = 20) -> None:
    """Check that threads sharing one plan, each with its own feeds, get what each gets alone."""
    _, runner = built(case, backend)
    different = [list(case.feeds), other_feeds(case)]
    with quiet():
        alone = [[np.array(x, copy=True) for x in runner.run(feeds)] for feeds in different]
    faults: list[BaseException] = []
    start = threading.Barrier(4)

    def work(thread: int) -> None:
        try:
            start.wait()
            for _ in range(runs):
                with np.errstate(all="ignore"):
                    result = runner.run(different[thread])
                check_same(result, alone[thread], f"{backend.name}, thread {thread}", case)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(i % 2,)) for i in range(4)]
    with quiet():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if faults:
        raise faults[0]


Check = Callable[[Case], object]
