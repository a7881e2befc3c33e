"""Graphs built by hand, with the semantics of TensorFlow 1.

Inside ``with graph.as_default():``, a thread's operations are recorded, not run; a `Session` runs
them. Each thread has its own stack of default graphs, scopes, devices and control dependencies.

Invariant: a thread that leaves its blocks in order is back in its previous state, whatever was
raised.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from nodescope.engine import dispatch_mode
from nodescope.engine.graphs import saved
from nodescope.engine.graphs.graph_builder import GraphBuilder
from nodescope.engine.source import where
from nodescope.engine.state import current
from nodescope.errors import UsageError
from nodescope.ir import graph as ir


class Graph(GraphBuilder):
    """A graph that the program builds node by node."""

    def __str__(self) -> str:
        return self.to_text()

    def as_default(self) -> Default:
        """A block in which this thread's operations are added to this graph. Blocks nest."""
        return Default(self)

    @property
    def data(self) -> ir.Graph:
        """The graph so far as frozen data: nodes, values, inputs."""
        return self.finish(())

    def to_text(self) -> str:
        """The graph as text; equal for graphs that were built the same way by the same lines."""
        return saved.text_of(self)

    def save(self, path: Any, session: Any = None) -> None:
        """Write the graph to a file, atomically; see docs/graphs.md.

        Args:
            path: The file, usually ``*.nsgraph``.
            session: The session whose variable values are saved. Without one, only the values that
                are known without a session are saved.

        Raises:
            GraphError: An attribute or collection cannot be saved in a file.
        """
        saved.save(self, path, session)

    @staticmethod
    def load(path: Any) -> Graph:
        """Read a graph from a file. A session on it starts with the variable values in the file.

        Raises:
            GraphError: The file is of another kind, is damaged, or was written by a newer version.
        """
        return saved.load(path, Graph())


@dataclass
class _Frame:
    graph: Graph
    context: contextlib.AbstractContextManager[None]
    scope_around: str
    left: bool = False


class _Stack(threading.local):
    def __init__(self) -> None:
        self.frames: list[_Frame] = []


_stack = _Stack()
_process_default: Graph | None = None
_lock = threading.Lock()


def get_default_graph() -> Graph:
    """The innermost graph of this thread's ``as_default`` blocks, else the process's own."""
    global _process_default
    if _stack.frames:
        return _stack.frames[-1].graph
    with _lock:
        if _process_default is None:
            _process_default = Graph()
        return _process_default


class Default:
    """``with graph.as_default() as graph:``"""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._frames: list[_Frame] = []

    def __enter__(self) -> Graph:
        frames, around = _stack.frames, current().scope
        scope = ""
        for outer, inner in zip(reversed(frames), [None, *reversed(frames)], strict=False):
            if outer.graph is self._graph:
                # Back in a graph that this thread already uses: continue where it was left.
                scope = around if inner is None else inner.scope_around
                break
        frame = _Frame(self._graph, dispatch_mode.building(self._graph, scope=scope), around)
        frame.context.__enter__()
        frames.append(frame)
        self._frames.append(frame)
        return self._graph

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        frame, frames = self._frames.pop(), _stack.frames
        if frame not in frames:
            raise UsageError(
                "as_default: exited in a different thread than the one that entered it",
                source=where(),
            )
        frame.left = True
        if frames[-1] is not frame and error is None:
            raise UsageError(
                "as_default: blocks are exited in a different order than they were entered",
                source=where(),
                hint="exit the innermost block first, as `with` does",
            )
        while frames and frames[-1].left:
            frames.pop().context.__exit__(None, None, None)
