"""Replay: recorded nodes run again, from the nearest recorded values, and with other ones.

`Replay` gives the values of a moment, recorded or recomputed; `Replay.fork` runs what depends on an
edited value. See `nodescope.debug.replay.replay`.
"""

from nodescope.debug.replay.arrays import Difference
from nodescope.debug.replay.book import Book
from nodescope.debug.replay.branch import Blocked, Branch, Change
from nodescope.debug.replay.replay import Checked, Found, Replay

__all__ = ["Blocked", "Book", "Branch", "Change", "Checked", "Difference", "Found", "Replay"]
