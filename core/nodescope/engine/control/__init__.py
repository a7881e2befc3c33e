"""Control flow: `cond`, `while_loop`, `scan` and `map`.

Eagerly, they are Python's own branches and loops, and each iteration's operations are nodes. While
a graph is built, each is one node that contains its bodies as graphs.

Invariant: both give the same numbers, from the same operations in the same order.
"""

from nodescope.engine.control.branch import cond
from nodescope.engine.control.loop import fori_loop, while_loop
from nodescope.engine.control.scan import map, scan

__all__ = ["cond", "fori_loop", "map", "scan", "while_loop"]
