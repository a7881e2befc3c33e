"""Static graphs: functions traced once per signature and run as graphs.

Invariant: eager operations never pass through here.
"""

from nodescope.engine.mode import disable_compile, get_mode, set_mode
from nodescope.engine.static.compiled import CompiledFunction
from nodescope.engine.static.decorate import compile
from nodescope.engine.static.explain import Explanation

__all__ = ["CompiledFunction", "Explanation", "compile", "disable_compile", "get_mode", "set_mode"]
