"""Live memory: how many bytes of a step's values are needed while a node runs, from a recording.

A value takes memory from the node that makes it to the last one in the step that reads it; views
and writes in place share the memory of what they are views of. Parameters, buffers and inputs that
the step reads take theirs throughout. So this is what the program needs: what it holds for longer,
what a library sets aside and what is inside an operation are not in it.

Invariant: reads structure and executions only, which every level but ``graph`` records.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from nodescope.errors import DtypeError
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import Node, OpaqueSpec, Value
from nodescope.record.graphs import defined, end_of
from nodescope.record.recording import Recording

# Operations of nodescope's own that give views.
_VIEWS: Final = frozenset(
    {"reshape", "transpose", "getitem", "broadcast_to", "squeeze", "expand_dims", "swapaxes"}
)
_BITS: Final = {"bool": 8, "complex32": 32, "float8_e4m3fn": 8, "float8_e5m2": 8}


class LiveMemory(NamedTuple):
    """The memory of a step.

    Attributes:
        live: By node that ran in it: the bytes that are needed while it runs.
        peak: The most of them.
        peak_node: The node at which that is; 0 for no step.
    """

    live: dict[int, int]
    peak: int
    peak_node: int


def live_memory(recording: Recording, step: int) -> LiveMemory:
    """The memory of a training step.

    Raises:
        RecordingError: The recording is damaged.
    """
    nodes, rows = defined(recording, end_of(recording, step))
    by_id = {node.id: node for node in nodes}
    values = {row.value.id: row.value for row in rows}
    ran = [by_id[node] for node, _ in recording.ran_in(step) if node in by_id]
    return of_nodes(ran, values)


def of_nodes(ran: list[Node], values: dict[int, Value]) -> LiveMemory:
    """The memory of nodes that run one after the other."""
    owner: dict[int, int] = {}  # by value: the value whose memory it uses
    for node in ran:
        for port, value in enumerate(node.outputs):
            owner[value] = _owner(node, port, value, values, owner)
    made: dict[int, int] = {}
    last: dict[int, int] = {}
    sizes: dict[int, int] = {}
    throughout: set[int] = set()
    for at, node in enumerate(ran):
        for value in (*node.inputs, *node.outputs):
            memory = owner.setdefault(value, value)
            made.setdefault(memory, at if value in node.outputs else 0)
            last[memory] = at
            if memory not in sizes:
                sizes[memory] = _nbytes(values.get(memory))
            if node.is_leaf:
                throughout.add(memory)
    produced = {value for node in ran for value in node.outputs}
    throughout |= {memory for memory in made if memory not in produced}
    change = [0] * (len(ran) + 1)
    base = sum(sizes[memory] for memory in throughout)
    for memory, at in made.items():
        if memory not in throughout:
            change[at] += sizes[memory]
            change[last[memory] + 1] -= sizes[memory]
    live: dict[int, int] = {}
    current, peak, peak_node = base, 0, 0
    for at, node in enumerate(ran):
        current += change[at]
        live[node.id] = current
        if current > peak:
            peak, peak_node = current, node.id
    return LiveMemory(live, peak, peak_node)


def _owner(
    node: Node, port: int, value: int, values: dict[int, Value], owner: dict[int, int]
) -> int:
    """The value whose memory an output uses: its own, unless it is a view or written in place."""
    if node.is_leaf or not node.inputs:
        return value
    source = dict(node.writes).get(port)
    if source is None:
        known = values.get(value)
        shares = known is not None and known.storage != 0
        if not shares and not (node.dialect == "nodescope" and node.op in _VIEWS):
            return value
        source = 0
    operand = node.inputs[min(source, len(node.inputs) - 1)]
    return owner.get(operand, operand)


def _nbytes(value: Value | None) -> int:
    """The size of a value; 0 if it is not known."""
    if value is None:
        return 0
    spec = value.spec
    if isinstance(spec, OpaqueSpec):
        return spec.nbytes or 0
    if any(size is None for size in spec.shape):
        return 0
    try:
        item = as_dtype(spec.dtype).itemsize
    except DtypeError:
        item = _BITS.get(spec.dtype, 0) // 8
    return math.prod(spec.shape) * item
