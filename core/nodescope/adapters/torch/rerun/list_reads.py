"""Reads of operators on lists of tensors: ``_foreach_…`` and the fused optimizers.

Invariant: the i-th output depends on the i-th tensor of each list and on the single tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nodescope.adapters.torch.rerun.kinds import LISTS
from nodescope.ops.reading import ElementDependence, Read, stretched


def list_reads(
    name: str, attrs: Mapping[str, Any], writes: Sequence[tuple[int, int]], inputs: Sequence[Any],
    shape: tuple[int, ...], port: int, position: int,
) -> ElementDependence | None:  # fmt: skip
    """The input elements that an output element depends on; None if not known.

    Args:
        name: The operator's plain name.
        attrs: Its arguments.
        writes: Pairs of output and input port, as in `Node.writes`.
        inputs: Its inputs by port.
        shape, port, position: The output's shape, its port, and the element.
    """
    if name == "_foreach_zero":
        return ElementDependence(())
    lengths = [
        value
        for argument, value in attrs.items()
        if argument in LISTS and type(value) is int and value > 0
    ]
    count = max(lengths, default=0)
    lists = [length for length in lengths if length == count]
    if not count or len(lists) * count > len(inputs):
        return None
    written = dict(writes).get(port)
    item = port % count if written is None else written % count
    ports = [number * count + item for number in range(len(lists))]
    if name == "_foreach_copy":
        ports = ports[1:]
    ports += range(len(lists) * count, len(inputs))
    reads: list[Read] = []
    exact = not name.startswith("_fused_")
    for source in ports:
        size = np.shape(inputs[source])
        place = stretched(size, shape, position)
        if place is None:  # a norm
            reads.append(Read(source, np.arange(np.size(inputs[source]))))
        else:
            reads.append(Read(source, np.array([place], np.int64)))
    return ElementDependence(tuple(reads), exact)
