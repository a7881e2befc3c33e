"""Slow paths of the tape's loop, where speed does not matter.

Invariant: nothing here runs for an ordinary op whose inputs have not been written to.
"""

from __future__ import annotations

import heapq
from typing import Any

from nodescope.engine.source import where
from nodescope.engine.state import current
from nodescope.engine.tensor import FREED, LEAF, Tensor, origin, spec_of
from nodescope.errors import GradientError
from nodescope.ops.op import Op
from nodescope.ops.rules import same


def arrive(
    tensor: Tensor,
    ct: Any,
    add: Any,
    cts: dict[int, Any],
    ends: dict[int, Tensor],
    heap: list[tuple[Any, Any]],
    targets: dict[int, Tensor] | None,
) -> None:
    """Handle the few cotangents in the loop that do not come from rules."""
    key, edge = id(tensor), tensor.edge
    if edge is None:
        return
    if edge is FREED:
        raise used_twice()
    if key in cts:
        cts[key] = add(cts[key], ct)
        return
    cts[key] = ct
    if edge is LEAF or (targets is not None and key in targets):
        ends[key] = tensor
    else:
        heapq.heappush(heap, (-edge[0], tensor))


def blame(error: Exception, tensor: Any, op: Op | None) -> None:
    """Add a note to an error that names the op whose gradient raised it."""
    if op is None or isinstance(error, GradientError):
        return
    inputs = ", ".join(str(spec_of(operand)) for operand in tensor.edge[2])
    # The node is known by its id while its rules run, if observed.
    number = current().forward
    at = "" if number is None else f", node {number}"
    error.add_note(f"nodescope: in the gradient of {op.name}({inputs}){at}")


def inputs_then(seq: float, op: Op, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs of an op as they were when it ran."""
    for operand in inputs:
        if operand.__class__ is Tensor and getattr(operand, "_history", 0) > seq:
            rules = op.vjp or ()
            if op.family == "layout" or all(rule is None or rule is same for rule in rules):
                continue  # the gradient does not depend on its elements
            name = f" {operand.name!r}" if operand.name else ""
            raise GradientError(
                f"backward: the leaf{name} has changed since {op.name} used it, but its gradient "
                "needs the old elements",
                source=where(),
                hint="call backward before changing the leaf (by an optimizer, assign or in "
                "place), or compute the loss again",
            )
    return tuple(map(origin, inputs))


def known(gradient: Any, *_: Any, **__: Any) -> Any:
    """The rule of an input whose cotangent was computed with the others."""
    return gradient


def used_twice() -> GradientError:
    """The error for a tape that was already used and freed."""
    return GradientError(
        "backward: part of this tape was already used and freed",
        source=where(),
        hint="call the first backward with retain_graph=True, or compute the loss again",
    )
