"""The user's line: the first frame outside nodescope and NumPy.

Invariant: called only when a node is new or something failed, never per execution.
"""

from __future__ import annotations

import functools
import inspect
import sys
from pathlib import Path
from typing import Any

import numpy as np

from nodescope.interactive import cell_name
from nodescope.ir.graph import SourceLocation
from nodescope.origins import origin

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


def where() -> str:
    """The user's ``file:line``, or ``""``."""
    return str(user_source() or "")


def defined(function: Any) -> str:
    """Where a function of the user's begins, or ``""``."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else f"{cell_name(code.co_filename)}:{code.co_firstlineno}"
