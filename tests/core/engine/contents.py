"""What a recording says, to be compared with another one of the same program.

Invariant: nothing in it depends on times, addresses or the speed of the machine.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from nodescope.record.recording import Recording
from nodescope.record.rows import BEHIND, LATER, WANTED


def content(path: Path) -> dict[str, Any]:
    """What a recording says, without times; value ids count from its first."""
    with Recording.open(path) as recording:
        rows = recording.nodes()
        values = recording.values()
        first = min(row.value.id for row in values)
        here = threading.get_ident()
        behind = WANTED | BEHIND | LATER  # a recorder that falls behind gives up elements
        executions = [
            (row.seq, row.node, row.step, row.thread == here, row.flags & ~behind)
            for row in recording.executions()
        ]
        nodes = {row.node.id: row.node for row in rows}
        arrays = []
        for seq, node, *_ in executions:
            for value in nodes[node].outputs:
                array = recording.array(value, seq)
                arrays.append(None if array is None else (array.dtype, array.tobytes()))
        return {
            "nodes": [
                (row.seq, row.node.id, row.node.name, row.node.op, row.node.scope, row.node.phase,
                 row.node.forward, str(row.node.source), repr(row.node.attrs),
                 [value - first for value in (*row.node.inputs, *row.node.outputs)])
                for row in rows
            ],
            "values": [(row.seq, row.value.id - first, repr(row.value.spec)) for row in values],
            "gradients": [
                (row.seq, row.value - first, row.gradient - first) for row in recording.gradients()
            ],
            "executions": executions,
            "calls": recording.calls(),
            "operands": recording.operands(),
            "failures": [recording.failure(seq) for seq, *_ in executions],
            "statistics": {
                name.id: [
                    at and (at.seq, at.value - first, replace(at.summary, blob=False))
                    for at in recording.history(name.id)[2]
                ]
                for name in nodes.values()
            },
            "arrays": arrays,
        }  # fmt: skip
