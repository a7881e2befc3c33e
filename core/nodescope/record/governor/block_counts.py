"""BlockCounts: how often the nodes of tracks have run, counted by range."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nodescope.events import NodesFinished
from nodescope.ir.graph import Node
from nodescope.ir.track import Track


class BlockCounts:
    """The executions of each track that have not been taken yet."""

    def __init__(self) -> None:
        self._tracks: dict[int, tuple[Track, np.ndarray[Any, Any]]] = {}

    def add(self, event: NodesFinished, many: int) -> bool:
        """Count executions; return whether their track is new."""
        track = event.track
        known = self._tracks.get(id(track))
        counts = known[1] if known is not None else np.zeros(len(track.nodes), np.int64)
        if known is None:
            self._tracks[id(track)] = track, counts
        counts[event.first : event.first + many] += 1
        return known is None

    def taken(self) -> Iterator[tuple[Node, int]]:
        """Take out nodes that have run, and how often; a node may come several times."""
        tracks, self._tracks = self._tracks, {}
        for track, counts in tracks.values():
            for place in np.flatnonzero(counts).tolist():
                yield track.nodes[place], int(counts[place])
