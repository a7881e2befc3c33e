"""Inf that a program writes itself, as attention masks do, and nodes that only pass it on.

``masked_fill(mask, -inf)``, ``np.where(mask, x, -np.inf)`` and ``torch.tensor(-inf)`` intend their
Inf: it is not a problem of the run, even where a sum or a product passes it on.

Invariant: reads flags and definitions, no elements; a node that produced NaN or raised is never
included.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping

from nodescope.ir.graph import Node, TensorSpec
from nodescope.record.recording import Recording
from nodescope.record.rows import FAILED, HAS_INF, HAS_NAN, ValueRow


def writes_inf(node: Node) -> bool:
    """Whether the program passes Inf to a node as a number: ``masked_fill(mask, -inf)``."""
    return any(isinstance(number, float) and math.isinf(number) for number in node.attrs.values())


def is_scalar(row: ValueRow) -> bool:
    """Whether a value is a tensor without axes, such as a number in the program."""
    return isinstance(row.value.spec, TensorSpec) and not row.value.spec.shape


def written_among(
    bad: Iterable[int], only_inf: Container[int], nodes: Mapping[int, Node],
    producers: Mapping[int, int], scalars: Container[int],
) -> set[int]:  # fmt: skip
    """The nodes all of whose Inf was written by the program.

    Args:
        bad: The nodes that produced NaN or Inf or raised, in order of the first time.
        only_inf: Those of them that only produced Inf.
        nodes: The definitions of nodes by id.
        producers: The producer of each value.
        scalars: Producers of scalars.
    """
    written: set[int] = set()
    in_order = list(bad)
    known = set(in_order)
    for number in in_order:
        node = nodes.get(number)
        if node is None or number not in only_inf:
            continue
        read = known.intersection(producers.get(value, 0) for value in node.inputs)
        own = writes_inf(node) or (node.is_leaf and number in scalars)
        if read <= written and (read or own):
            written.add(number)
    return written


def written_inf(recording: Recording) -> set[int]:
    """The nodes of a recording all of whose Inf was written by the program."""
    rows = recording.troubles(0, recording.last_seq(), HAS_NAN | HAS_INF | FAILED)
    only_inf = {node for node, *_, flags in rows if not flags & (HAS_NAN | FAILED)}
    if not only_inf:
        return set()
    values = recording.values()
    return written_among(
        [node for node, *_ in sorted(rows, key=lambda row: row[2])],
        only_inf,
        {row.node.id: row.node for row in recording.nodes()},
        {row.value.id: row.producer for row in values if row.producer is not None},
        {row.producer for row in values if row.producer is not None and is_scalar(row)},
    )
