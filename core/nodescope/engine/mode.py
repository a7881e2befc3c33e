"""Mode: whether compiled functions run as static graphs or as plain Python.

Invariant: the mode applies to the whole program; `disable_compile` to the calling thread alone.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Literal, get_args

from nodescope.engine.source import where
from nodescope.errors import UsageError

Mode = Literal["eager", "compiled"]
VARIABLE = "NODESCOPE_MODE"
"""The environment variable that sets the mode of a whole program, whatever `set_mode` says."""


class _Disabled(threading.local):
    depth = 0


_disabled = _Disabled()
_eager = False
_fixed = False


def set_mode(mode: Mode) -> None:
    """Run compiled functions as graphs (``"compiled"``, the default) or plainly (``"eager"``).

    If the environment variable `VARIABLE` is set, it overrides this call.

    Raises:
        UsageError: The mode is unknown.
    """
    global _eager
    if mode not in get_args(Mode):
        raise UsageError(
            f"set_mode: unknown mode {mode!r}", source=where(), hint='"eager" or "compiled"'
        )
    if not _fixed:
        _eager = mode == "eager"


def get_mode() -> Mode:
    """The mode in which this thread currently runs compiled functions."""
    return "eager" if plain() else "compiled"


def plain() -> bool:
    """Whether compiled functions currently run as plain Python in this thread."""
    return _eager or _disabled.depth > 0


@contextlib.contextmanager
def disable_compile() -> Iterator[None]:
    """Compiled functions called inside, in this thread, run as plain Python."""
    _disabled.depth += 1
    try:
        yield
    finally:
        _disabled.depth -= 1


def from_environment() -> None:
    """Set the mode that `VARIABLE` names, if any.

    Raises:
        UsageError: The value is not a mode.
    """
    global _fixed
    mode = os.environ.get(VARIABLE, "")
    if mode and mode not in get_args(Mode):
        raise UsageError(f'{VARIABLE}={mode!r}: the modes are "eager" and "compiled"')
    if mode:
        set_mode(mode)  # type: ignore[arg-type]
        _fixed = True


from_environment()
