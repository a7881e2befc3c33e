"""Differences between a compiled call and its trace, as reported by the cross-check.

Invariant: plain data, carried unchanged by recordings and messages. Ids of nodes are those of the
function's captured graphs.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from nodescope.ir.graph import SourceLocation

DifferenceKind = Literal[
    "kernel", "plan", "rewrite", "memory", "order", "provenance", "compilation", "form"
]
"""The part that is responsible.

``kernel``: one kernel, run alone. ``plan``: kernels are right alone, but not in the plan.
``rewrite``: a rule of a pass. ``memory``: results share memory or are overwritten. ``order``: nodes
with effects or control inputs run in another order. ``provenance``: values are right, but a pass
misreports which is which. ``compilation``: it failed; the function runs as traced. ``form``: one
way of running the function, such as observed, gives a different result from the others.
"""


class Amount(msgspec.Struct, frozen=True):
    """The extent to which an array differs.

    Attributes:
        elements: Number of its elements.
        differing: Number of elements that differ.
        max_abs: The largest difference of two finite elements, at most the largest float; None
            without any.
        expected, actual: The first differing elements, as text.
        at: Their index.
    """

    elements: int
    differing: int
    max_abs: float | None = None
    expected: str = ""
    actual: str = ""
    at: tuple[int, ...] = ()


class CallDifference(msgspec.Struct, frozen=True):
    """The first call of a function that differs from its trace.

    Attributes:
        kind: The part that is responsible.
        step: The training step of the call; 0 before the first.
        call: The number of this call of the trace, counted from 1.
        node, name, op: The traced node whose value differs first; 0 and ``""`` if unknown.
        source: The program's line of that node.
        kernel, kernel_name: The final node that computes it.
        rules: The responsible pass and rule, as ``pass/rule``, or only the pass.
        amount: The extent of the difference; None where nothing is compared.
        detail: Further explanation.
    """

    kind: DifferenceKind
    step: int
    call: int
    node: int = 0
    name: str = ""
    op: str = ""
    source: SourceLocation | None = None
    kernel: int = 0
    kernel_name: str = ""
    rules: tuple[str, ...] = ()
    amount: Amount | None = None
    detail: str = ""


class FunctionCheck(msgspec.Struct, frozen=True):
    """The comparison of a trace's calls with the trace.

    Attributes:
        function: Its name.
        graph: The run's id of the graph that runs; 0 if none was compiled.
        backend: The back end that runs it.
        exact: Whether every bit was compared; otherwise, kernels within their rounding bounds.
        calls: How many calls were checked.
        difference: The first difference; None without any.
        fault: Why the check ended early; later calls were not compared.
        built: Whether it is a graph that was built by hand, which a session runs node by node;
            differences other than of kind ``form`` show only where it is compiled.
    """

    function: str
    graph: int
    backend: str
    exact: bool
    calls: int
    difference: CallDifference | None = None
    fault: str = ""
    built: bool = False


class CrossChecked(msgspec.Struct, frozen=True):
    """Every trace that was called, in the order of their first calls."""

    functions: tuple[FunctionCheck, ...]


class LoggedCall(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A call of a compiled function by the program, in either mode.

    Attributes:
        function: Position of its name in the log.
        step: The training step.
        given, result: Digests of the arguments and of the result: equal bits, equal numbers.
        arrays: Whether the result holds arrays; else it cannot be compared.
    """

    function: int
    step: int
    given: int
    result: int
    arrays: bool


class CallLog(msgspec.Struct, frozen=True):
    """All such calls of a run, in order, and the names of the functions."""

    functions: tuple[str, ...]
    calls: tuple[LoggedCall, ...]
