"""Openings: in which compiled kernels somebody wants to see the nodes, while breakpoints change.

Invariant: what others asked to be opened stays open.
"""

from __future__ import annotations

from collections.abc import Callable

from nodescope.debug.breakpoints import covers
from nodescope.events import Bus
from nodescope.ir.graph import Node
from nodescope.protocol import Breakpoint

Opens = Callable[[Node], bool]


class Openings:
    """Says in `Bus.opened` what is to be opened.

    Args:
        bus: Of the run; what it opens already stays open.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._others = bus.opened
        self._mine: tuple[Opens, ...] = ()

    def also(self, wanted: Opens) -> None:
        """Open kernels in which this wants to see a node, too."""
        self._others = (*self._others, wanted)
        self._tell()

    def of(self, active: tuple[Breakpoint, ...]) -> None:
        """Open what these breakpoints are about, and nothing for those before them.

        To enter a scope is seen at its kernels as well.
        """
        wanted = tuple(each for each in active if each.kind != "scope")
        opens: Opens = lambda node: any(covers(each, node) for each in wanted)  # noqa: E731
        self._mine = (opens,) if wanted else ()
        self._tell()

    def _tell(self) -> None:
        self._bus.opened = (*self._others, *self._mine)
