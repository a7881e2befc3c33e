"""Stale values: tensors whose value id stands for another execution of their node by now.

A node that runs again gives its value ids to other tensors. Whoever uses an earlier tensor reads it
as a leaf; otherwise the graph would show that a node took what it did not take. From then on, each
step or model call that uses the tensor reads it anew: another one may be read as the same node.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from nodescope.engine.tensor import Tensor
from nodescope.ir.identity import Entry

ANEW: Final = -1
"""In place of the value id of a tensor that each step reads anew."""

_MOST: Final = 256  # results of a call that are looked at
_DEEPEST: Final = 4
_FEW: Final = 256  # reads that are kept although their leaves may be gone

Read = tuple[weakref.ref[Tensor], Entry]
"""A leaf that was read, and the entry of its node."""


def without_old_reads(reads: list[Read], many: int) -> int:
    """Remove the reads of leaves that are gone, if there are more than ``many`` reads; return how
    many there may be until the next time.
    """
    if len(reads) <= max(many, _FEW):
        return many
    reads[:] = [read for read in reads if read[0]() is not None]
    return 2 * len(reads)


def forget_reads(reads: Iterable[Read]) -> None:
    """Have leaves read again, because calls are counted from zero."""
    for reference, entry in reads:
        leaf = reference()
        if leaf.__class__ is not Tensor:  # it is gone, or was written to
            continue
        if entry.node.role == "parameter":
            leaf._vid = 0
        elif getattr(leaf, "_vid", 0) == entry.outputs[0]:
            leaf._vid = ANEW


def forget_rounds(
    inputs: Iterable[Any], base: int, by_value: Mapping[int, Entry], step: int = 0
) -> None:
    """Forget values of a loop's earlier rounds that later rounds have produced again.

    Args:
        inputs: The inputs of a call.
        base: Value ids up to this one belong to earlier runs.
        by_value: The entries by value id.
        step: The step that runs, or 0; it forgets all leaves that it has not read itself.
    """
    for value in inputs:
        if value.__class__ is Tensor:
            vid = getattr(value, "_vid", 0)
            entry = by_value.get(vid) if vid > base else None
            if entry is None or not entry.recent:
                continue
            known = id(value.data) in entry.recent[: len(entry.outputs)]
            if known and step and entry.node.family == "leaf":
                known = entry.recent[-1] == -step
            if not known:
                value._vid = ANEW


def forget_results(before: Iterable[weakref.ref[Tensor]], now: Mapping[int, Tensor]) -> None:
    """Forget results of a call, unless the next call returned them, too, as ``now`` by value id."""
    for reference in before:
        result = reference()
        if result.__class__ is Tensor and now.get(getattr(result, "_vid", 0)) is not result:
            result._vid = ANEW


def tensors_in(result: Any) -> Iterator[Tensor]:
    """The tensors of a call's result, in tuples, lists and dicts; those of a large one in part."""
    return islice(_tensors_in(result, _DEEPEST), _MOST)


def _tensors_in(value: Any, depth: int) -> Iterator[Tensor]:
    if value.__class__ is Tensor:
        yield value
    elif depth and value.__class__ in (tuple, list, dict):
        for item in value.values() if value.__class__ is dict else value:
            yield from _tensors_in(item, depth - 1)
