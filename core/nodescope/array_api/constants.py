"""Constants of the standard.

Invariant: all are Python numbers, so they promote weakly.
"""

from __future__ import annotations

import math

e = math.e
inf = math.inf
nan = math.nan
pi = math.pi
newaxis = None
