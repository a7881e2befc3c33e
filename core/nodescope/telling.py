"""What is told to a person: errors in one line, and lines on the real standard error.

Invariant: telling never raises, whatever became of the streams.
"""

from __future__ import annotations

import builtins
import sys
from typing import Final

own_print: Final = builtins.print
"""Python's own: programs put another one there, which writes elsewhere or not at all."""


def last_line(error: BaseException) -> str:
    """The last line of the error's traceback: ``ValueError: no``."""
    try:
        text = str(error).strip()
    except Exception:
        text = "<exception str() failed>"
    name = type(error).__name__
    return printable(f"{name}: {text.splitlines()[0]}") if text else name


def printable(text: str) -> str:
    """The text with the bytes of odd file names, which are no Unicode, written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def say(text: str) -> None:
    """Print a line of ours, if there is anybody to tell."""
    try:
        own_print(f"nodescope: {text}", file=sys.__stderr__, flush=True)
    except (OSError, ValueError):
        pass
