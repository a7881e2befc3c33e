"""Source: facts from the user's source code: the target that a call's result is assigned to, and
the place of a function.
"""

from __future__ import annotations

import dis
import functools
import inspect
from types import CodeType, FrameType
from typing import Any

from nodescope.emit.frames import where as where
from nodescope.interactive import cell_name
from nodescope.origins import is_internal


def assigned_to(frame: FrameType) -> str:
    """The target that the running call's result is assigned to in the code: ``w`` for ``w = f()``,
    ``self.w = f()`` and ``d["w"] = f()``; ``""`` for any other use.
    """
    return "" if is_internal(frame.f_code.co_filename) else _assigned(frame.f_code, frame.f_lasti)


@functools.lru_cache(maxsize=1024)
def _assigned(code: CodeType, call: int) -> str:
    steps = (instruction for instruction in dis.get_instructions(code) if instruction.offset > call)
    key = None
    for step in steps:
        name = step.opname
        if name.startswith(("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")):
            if key is None:  # otherwise it is the target of another value
                return step.argval[0] if isinstance(step.argval, tuple) else str(step.argval)
            return ""
        if name == "STORE_ATTR":
            return str(step.argval)
        if name == "STORE_SUBSCR":
            return key if isinstance(key, str) and key.isidentifier() else ""
        if name.startswith(("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_ATTR")):
            key = _TARGET
        elif name == "LOAD_CONST":
            key = step.argval
        elif name not in ("CACHE", "COPY", "EXTENDED_ARG", "NOP"):
            return ""
    return ""


_TARGET = object()


def defined(function: Any) -> str:
    """The place where a function of the user's begins, or ``""``."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else f"{cell_name(code.co_filename)}:{code.co_firstlineno}"
