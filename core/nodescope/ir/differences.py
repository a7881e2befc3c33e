"""Where a compiled call does something else than what was traced: what the cross-check reports.

Invariant: plain data, which recordings and messages carry as it is. Ids of nodes are those of the
function's captured graphs.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from nodescope.ir.graph import SourceLocation

DifferenceKind = Literal[
    "kernel", "plan", "rewrite", "memory", "order", "provenance", "compilation"
]
"""Who is responsible.

``kernel``: one kernel, run alone. ``plan``: kernels are right alone, and not in the plan.
``rewrite``: a rule of a pass. ``memory``: results share memory or are overwritten. ``order``: what
has an effect, or waits, runs in another order. ``provenance``: values are right, and a pass says
wrongly which is which. ``compilation``: it failed; the function runs as traced.
"""


class Amount(msgspec.Struct, frozen=True):
    """How much of an array differs.

    Attributes:
        elements: How many it has.
        differing: How many of them are others.
        max_abs: The largest difference of two finite ones, at most the largest float; None without
            any.
        expected, actual: The first of those that differ, as text.
        at: Its index.
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
        kind: Who is responsible.
        step: The training step of the call; 0 before the first.
        call: How many calls of the trace there were until then, this one included.
        node, name, op: The traced node whose value differs first; 0 and ``""`` if it is not known.
        source: The program's line of that node.
        kernel, kernel_name: The final node that computes it.
        rules: Pass and rule that are responsible, as ``pass/rule``, or the pass alone.
        amount: How much of the value differs; None where nothing is compared.
        detail: What else there is to say, in words.
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
    """How the calls of one trace compare with it.

    Attributes:
        function: Its name.
        graph: The run's id of the graph that runs; 0 if none was compiled.
        backend: What runs it.
        exact: Whether every bit was compared; else kernels within the bounds of their rounding.
        calls: How many calls were checked.
        difference: The first; None without any.
        fault: Why the check ended early, in words; calls after that were not compared.
    """

    function: str
    graph: int
    backend: str
    exact: bool
    calls: int
    difference: CallDifference | None = None
    fault: str = ""


class CrossChecked(msgspec.Struct, frozen=True):
    """Every trace that was called, in the order of their first calls."""

    functions: tuple[FunctionCheck, ...]
