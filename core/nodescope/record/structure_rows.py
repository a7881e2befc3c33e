"""Structure rows: rows for nodes, values and source files.

Invariant: text in rows is printable; each file is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nodescope.console_output import printable
from nodescope.ir.attrs import encode
from nodescope.ir.graph import Node, Value
from nodescope.record.queued import QueuedOutputs, QueuedTimes
from nodescope.record.row_texts import recorded_source
from nodescope.record.value_rows import ValueRows


class StructureRows:
    """Makes the rows.

    Args:
        values: Makes those of values.
        add: Takes a table and a row.
    """

    def __init__(self, values: ValueRows, add: Callable[[str, tuple[Any, ...]], None]) -> None:
        self._values, self._add = values, add
        self._known_files: set[str] = set()

    def extended(self, seq: int, nodes: Sequence[Node], values: Sequence[Value]) -> None:
        """Add nodes and values."""
        for node in nodes:
            self._values.produced(node)
            name, scope = printable(node.name), printable(node.scope)
            row = (None, seq, node.id, name, node.op, scope, node.phase, encode(node))
            self._add("node", row)
        self.files(nodes)
        for defined in values:
            self._add("value", self._values.defined(seq, defined))

    def respecified(self, item: QueuedTimes | QueuedOutputs) -> None:
        """Add the changed specs of values that came with executions."""
        for place, event in item.respecified:
            for value in event.values:
                self._add("value", self._values.defined(item.seq + place, value))

    def files(self, nodes: Sequence[Node]) -> None:
        """Add the files in which nodes are called."""
        for node in nodes:
            if node.source is not None:
                self.source(node.source.file)

    def source(self, file: str) -> None:
        """Add a file."""
        if not file or file in self._known_files:
            return
        self._known_files.add(file)
        text = recorded_source(file)
        if text:
            self._add("source", (printable(file), text))
