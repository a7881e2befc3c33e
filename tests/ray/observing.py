"""The contents of recordings of Ray programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nodescope.ir.graph import Node
from nodescope.record.recording import Recording
from nodescope.record.rows import Execution
from tests.adapters.driving import recorded


class Observed:
    """A recorded run of a Ray program.

    Attributes:
        result: The program's result.
        recording: The open recording.
        nodes: The nodes by name, in their latest definition.
    """

    def __init__(self, result: Any, recording: Recording) -> None:
        self.result, self.recording = result, recording
        by_id = {row.node.id: row.node for row in recording.nodes()}
        self.nodes: dict[str, Node] = {node.name: node for node in by_id.values()}
        self._makers = {value: node for node in by_id.values() for value in node.outputs}

    @property
    def tasks(self) -> list[str]:
        """The names of the nodes other than data, in the order of submission."""
        return [node.name for node in self.nodes.values() if not node.is_leaf]

    def edges(self, name: str) -> list[str]:
        """The nodes whose results a node takes."""
        return [self._makers[value].name for value in self.nodes[name].inputs]

    def runs(self, name: str) -> list[Execution]:
        """The executions of a node."""
        node = self.nodes[name].id
        return [row for row in self.recording.executions() if row.node == node]

    def value(self, name: str, port: int = 0) -> Any:
        """The newest value of a node's output."""
        node = self.nodes[name]
        return self.recording.array(node.outputs[port], self.runs(name)[-1].seq)

    def attrs(self, name: str) -> dict[str, Any]:
        """The attributes of a node's last execution."""
        calls = self.recording.calls()
        return calls.get(self.runs(name)[-1].seq, self.nodes[name].attrs)

    def failure(self, name: str) -> str | None:
        """Why a node failed last; None if it did not."""
        return self.recording.failure(self.runs(name)[-1].seq)


@contextmanager
def observed(
    path: Path, program: Callable[[], Any], level: str = "values", **options: Any
) -> Iterator[Observed]:
    """Record a run of a program."""
    try:
        result = recorded(path, program, level=level, **options)
    except Exception as error:
        result = error
    with Recording.open(path) as opened:
        yield Observed(result, opened)


def opened(path: Path) -> Observed:
    """Open a recording that a command has made."""
    return Observed(None, Recording.open(path))
