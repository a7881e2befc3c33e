"""The user's line: the first frame outside nodescope and the libraries that adapters observe.

Invariant: called only when a node is new, may be new, or something failed, never for each execution
of a known node.
"""

from __future__ import annotations

import sys
from types import CodeType, FrameType

import numpy as np

from nodescope.interactive import cell_name
from nodescope.ir.graph import SourceLocation
from nodescope.origins import OURS, add_internal_package, is_internal, origin

_FRAMES = 8
_MOST_LOCATIONS = 4096
# By code object, which is kept so that its `id` stays its own, and instruction.
_locations: dict[tuple[int, int], tuple[CodeType, SourceLocation]] = {}

add_internal_package(np.__file__)


def user_source() -> SourceLocation | None:
    """The current line of the user's program, or None outside of it."""
    frame = sys._getframe(1)
    while frame is not None:
        if not (is_internal(frame.f_code.co_filename) or _is_generated(frame)):
            return _location(frame)
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _location(frame: FrameType) -> SourceLocation:
    """The line of a frame. Python searches a function's table for it, so it is kept."""
    code = frame.f_code
    key = id(code), frame.f_lasti
    known = _locations.get(key)
    if known is None:
        if len(_locations) >= _MOST_LOCATIONS:
            _locations.clear()
        location = SourceLocation(cell_name(code.co_filename), _line(frame), code.co_qualname)
        known = _locations[key] = code, location
    return known[1]


def _is_generated(frame: FrameType) -> bool:
    """Whether a frame is a method that `dataclasses` has written for a class of nodescope's."""
    module = str(frame.f_globals.get("__name__"))
    return frame.f_code.co_filename == "<string>" and module.startswith(f"{OURS}.")


def _line(frame: FrameType) -> int:
    """The current line of a frame, or its first line at clean-up instructions, which have none."""
    return frame.f_lineno or frame.f_code.co_firstlineno


def user_instruction() -> tuple[CodeType, int]:
    """The current instruction of the user's program, or of nodescope's own outside of it."""
    frame: FrameType | None = sys._getframe(1)
    innermost = frame
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    frame = frame or innermost
    assert frame is not None
    return frame.f_code, frame.f_lasti


def calling_line() -> tuple[str, int, str]:
    """File, line and function of the user's calling frame; ``("", 0, "")`` if there is none.

    Unlike `user_source`, this skips every library, such as a progress bar.
    """
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not origin(code.co_filename):
            return cell_name(code.co_filename), _line(frame), code.co_qualname
        frame = frame.f_back  # type: ignore[assignment]
    return "", 0, ""


def call_site() -> tuple[object, ...]:
    """The place in the user's program with the calls that lead there: the innermost few frames."""
    frame = sys._getframe(1)
    key_parts: list[object] = []
    while frame is not None and len(key_parts) < 3 * _FRAMES:
        code = frame.f_code
        if not is_internal(code.co_filename):
            key_parts += (code.co_filename, code.co_firstlineno, frame.f_lasti)
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(key_parts)


def where() -> str:
    """The user's ``file:line``, or ``""``."""
    return str(user_source() or "")
