"""Default graphs: each thread's stack of ``as_default`` blocks.

Invariant: a thread that leaves its blocks in order is where it was before, whatever was raised.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from nodescope.engine import modes
from nodescope.engine.source import where
from nodescope.engine.state import current
from nodescope.errors import UsageError

if TYPE_CHECKING:
    from nodescope.engine.graphs.graph import Graph


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
            from nodescope.engine.graphs.graph import Graph

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
                # Back in a graph that this thread is in already: where it was left.
                scope = around if inner is None else inner.scope_around
                break
        frame = _Frame(self._graph, modes.building(self._graph, scope=scope), around)
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
