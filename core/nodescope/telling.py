"""What is told to a person: errors in one line, and lines on the real standard error.

Invariant: telling never raises, whatever became of the streams.
"""

from __future__ import annotations

import sys


def last_line(error: BaseException) -> str:
    """The last line of the error's traceback: ``ValueError: no``."""
    text = str(error).strip()
    name = type(error).__name__
    return printable(f"{name}: {text.splitlines()[0]}") if text else name


def printable(text: str) -> str:
    """The text with the bytes of odd file names, which are no Unicode, written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def say(text: str) -> None:
    """Print a line of ours, if there is anybody to tell."""
    try:
        print(f"nodescope: {text}", file=sys.__stderr__, flush=True)
    except (OSError, ValueError):
        pass
