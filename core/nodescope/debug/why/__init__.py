"""Why: where an element comes from, and where NaN, Inf and zero originate, spread and heal.

`why` follows elements back through the recorded nodes; `spread` reports all non-finite values of a
training step; `parse_target` reads ``loss/log[4, 17]@12``.
"""

from nodescope.debug.why.answer import Cause, Operand, Why
from nodescope.debug.why.chain import why
from nodescope.debug.why.nonfinite_origins import Birth
from nodescope.debug.why.rendering import render, render_spread
from nodescope.debug.why.spread import Born, Healed, Passed, Spread, spread
from nodescope.debug.why.target import Target, parse_target

__all__ = [
    "Birth", "Born", "Cause", "Healed", "Operand", "Passed", "Spread", "Target", "Why",
    "parse_target", "render", "render_spread", "spread", "why",
]  # fmt: skip
