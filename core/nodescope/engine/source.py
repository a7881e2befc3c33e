"""The user's line: the first frame outside nodescope and NumPy.

Invariant: called only when a node is new, may be new, or something failed, never per execution of
a node that is known.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

from nodescope.interactive import cell_name
from nodescope.ir.graph import SourceLocation
from nodescope.origins import origin

_FRAMES = 8
_OURS = (
    str(Path(__file__).resolve().parents[1]) + "/",
    str(Path(np.__file__).resolve().parent) + "/",
)


@functools.lru_cache(maxsize=1024)
def is_ours(file: str) -> bool:
    """Whether a file belongs to nodescope or NumPy."""
    return file.startswith(_OURS)


def user_source() -> SourceLocation | None:
    """Where in the user's program we are, or None outside of any."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not is_ours(code.co_filename):
            return SourceLocation(cell_name(code.co_filename), frame.f_lineno, code.co_qualname)
        frame = frame.f_back  # type: ignore[assignment]
    return None


def calling_line() -> tuple[str, int, str]:
    """File, line and function of the user's frame that called; ``("", 0, "")`` outside of any.

    Unlike `user_source`, it passes over every library, such as one that shows progress.
    """
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not origin(code.co_filename):
            return cell_name(code.co_filename), frame.f_lineno, code.co_qualname
        frame = frame.f_back  # type: ignore[assignment]
    return "", 0, ""


def call_site() -> tuple[object, ...]:
    """The place in the user's program, with the calls that lead there: the innermost few frames."""
    frame = sys._getframe(1)
    found: list[object] = []
    while frame is not None and len(found) < 3 * _FRAMES:
        code = frame.f_code
        if not is_ours(code.co_filename):
            found += (code.co_filename, code.co_firstlineno, frame.f_lasti)
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(found)


def where() -> str:
    """The user's ``file:line``, or ``""``."""
    return str(user_source() or "")


def assigned_to(frame: FrameType) -> str:
    """What the running call's result is assigned to, as its code says: ``w`` for ``w = f()``,
    ``self.w = f()`` and ``d["w"] = f()``; ``""`` where it goes elsewhere."""
    return "" if is_ours(frame.f_code.co_filename) else _assigned(frame.f_code, frame.f_lasti)


@functools.lru_cache(maxsize=1024)
def _assigned(code: CodeType, call: int) -> str:
    steps = (each for each in dis.get_instructions(code) if each.offset > call)
    key = None
    for step in steps:
        name = step.opname
        if name.startswith(("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")):
            if key is None:  # else it is the target of another value
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
    """Where a function of the user's begins, or ``""``."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else f"{cell_name(code.co_filename)}:{code.co_firstlineno}"
