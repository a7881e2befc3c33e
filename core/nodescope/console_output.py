"""Messages to the user: errors in one line, and lines on the real standard error.

Invariant: never raises, even if the streams are closed or replaced.
"""

from __future__ import annotations

import builtins
import os
import re
import sys
from pathlib import Path
from typing import Any, Final

own_print: Final = builtins.print
"""Python's own `print`: a program may replace it by one that writes elsewhere or not at all."""


def root_of(error: BaseException) -> BaseException:
    """The original exception in another process, for an error that wraps one (as Ray's errors do,
    with the remote traceback as text); otherwise the error itself.
    """
    try:
        cause = getattr(error, "cause", None)
        if isinstance(cause, Exception) and cause is not error and "\n" in str(error).strip():
            return root_of(cause)
    except Exception:  # of its own text
        pass
    return error


def last_line(error: BaseException) -> str:
    """The last line of the error's traceback: ``ValueError: no``."""
    error = root_of(error)
    try:
        text = str(error).strip()
    except Exception:
        text = "<exception str() failed>"
    name = type(error).__name__
    return printable(f"{name}: {text.splitlines()[0]}") if text else name


def index_text(index: tuple[int, ...]) -> str:
    """An element's position as shown to users: ``[4, 17]``, ``[3]``, and ``""`` for a scalar."""
    return f"[{', '.join(map(str, index))}]" if index else ""


def shape_words(shape: tuple[int | None, ...]) -> str:
    """A shape as shown to users, as in Python: ``(64, 10)``, ``(?, 10)`` if a size is unknown,
    ``(64,)``; or ``scalar``.
    """
    sizes = ", ".join("?" if size is None else str(size) for size in shape)
    return f"({sizes}{',' if len(shape) == 1 else ''})" if shape else "scalar"


def factor(times: float) -> str:
    """A factor as shown to users: ``1.47×``, or ``12×`` without meaningless digits."""
    return f"{times:.0f}×" if times >= 10 else f"{times:.3g}×"


def counted(count: int, noun: str) -> str:
    """A count with its noun in the right number."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def printable(text: str) -> str:
    """The text with invalid bytes of odd file names written as escapes."""
    if text.isascii():  # most texts, and much faster
        return text
    return text.encode("utf-8", "backslashreplace").decode()


def path_of(text: str | os.PathLike[str]) -> Path:
    """The path of a text from `printable`: its escapes stand for bytes that are not valid
    Unicode.
    """
    path = Path(text)
    if "\\udc" in str(path) and not path.exists():
        real = _ESCAPED.sub(lambda escape: chr(int(escape[1], 16)), str(path))
        return Path(real)
    return path


def visible(text: str) -> str:
    """The text in a form safe for terminals: control characters are escaped.

    Escaped are ESC, BEL and other control characters except line breaks and tabs, and invisible
    characters, such as those that reverse the direction of text.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode()
        for char in text
    )


def show(text: str, file: Any = None, *, end: str = "\n") -> None:
    """Print text of a program or a recording, in the characters that the stream supports.

    Raises:
        OSError, ValueError: The stream is closed.
    """
    file = sys.stdout if file is None else file
    shown = visible(text)
    encoding = getattr(file, "encoding", None) or "utf-8"
    if not _writable(shown, encoding):
        shown = shown.translate(_PLAIN)
        if not _writable(shown, encoding):
            shown = shown.encode("ascii", "backslashreplace").decode()
    own_print(shown, file=file, end=end, flush=True)


def say(text: str) -> None:
    """Print a message of nodescope, if the stream still exists."""
    if sys.__stderr__ is None:
        return
    try:
        show(f"nodescope: {text}", sys.__stderr__)
    except (OSError, ValueError):
        pass


def _writable(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeError, LookupError):
        return False
    return True


# Characters of nodescope's own messages, for terminals that lack them.
_PLAIN: Final = str.maketrans(
    {"×": "x", "→": "->", "–": "-", "−": "-", "…": "...", "·": "-", "µ": "u", "\u202f": " "}
)
_ESCAPED: Final = re.compile(r"\\u(dc[89a-f][0-9a-f])")
