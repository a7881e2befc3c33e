"""Cycles of a program's graph: nodes that are computed from their own earlier results.

Source: R. E. Tarjan, "Depth-First Search and Linear Graph Algorithms", SIAM J. Comput. 1 (1972).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping


def on_cycles(makers: Mapping[int, Iterable[int]]) -> set[int]:
    """Ids of the nodes that are computed from their own results, in time linear in the edges.

    Args:
        makers: By node id: the ids of the nodes whose results the node reads. Ids that are not
            keys count as nodes that read nothing.
    """
    search = _Search(makers)
    for node in makers:
        search.visit(node)
    return search.cyclic


class _Search:
    """A depth-first search for strongly connected components, without recursion."""

    __slots__ = ("_lowest", "_makers", "_open", "_order", "cyclic")

    def __init__(self, makers: Mapping[int, Iterable[int]]) -> None:
        self.cyclic: set[int] = set()
        self._makers = makers
        self._order: dict[int, int] = {}  # by id: its place in the order of the search
        self._lowest: dict[int, int] = {}  # by open id: the earliest place that it reaches
        self._open: list[int] = []  # ids whose component is not complete yet

    def visit(self, start: int) -> None:
        if start in self._order:
            return
        path = [self._enter(start)]
        while path:
            node, makers = path[-1]
            for maker in makers:
                if maker not in self._order:
                    path.append(self._enter(maker))
                    break
                if maker in self._lowest:
                    self._lowest[node] = min(self._lowest[node], self._order[maker])
                if maker == node:
                    self.cyclic.add(node)
            else:
                path.pop()
                if path:
                    below = path[-1][0]
                    self._lowest[below] = min(self._lowest[below], self._lowest[node])
                if self._lowest[node] == self._order[node]:
                    self._complete(node)

    def _enter(self, node: int) -> tuple[int, Iterator[int]]:
        self._order[node] = self._lowest[node] = len(self._order)
        self._open.append(node)
        return node, iter(self._makers.get(node, ()))

    def _complete(self, first: int) -> None:
        """Close the component that the search entered at a node."""
        alone = self._open[-1] == first
        while True:
            node = self._open.pop()
            del self._lowest[node]
            if not alone:
                self.cyclic.add(node)
            if node == first:
                return
