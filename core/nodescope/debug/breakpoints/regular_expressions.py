"""Regular expressions on node names, by RE2: in time linear in the length of the name.

RE2's syntax is Python's without lookaround and backreferences; its ``\\d \\w \\s`` are ASCII.

Invariant: no pattern takes long or much memory: a pattern that needs more than `MAX_BYTES` is
refused.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import re2

from nodescope.errors import BreakpointError

MAX_LENGTH: Final = 200
MAX_BYTES: Final = 128 << 10  # compiled: some 4,000 instructions; 10 ms for a name of 1,000 letters


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = MAX_BYTES
    try:
        return re2.compile(pattern.encode(errors="surrogatepass"), options)
    except re2.error as error:
        message, _, piece = error.args[0].decode(errors="replace").partition(": ")
    where = "" if piece in ("", pattern) else f" {piece}"
    raise BreakpointError(
        f"{pattern!r} is not a regular expression: {message}{where}",
        column=max(0, pattern.find(piece)),
        hint="RE2's syntax is Python's without lookaround and backreferences",
    )


def check(pattern: str) -> None:
    """Refuse an invalid or too large pattern.

    Raises:
        BreakpointError: The pattern is refused; the message says why, with the column.
    """
    if len(pattern) > MAX_LENGTH:
        raise BreakpointError(
            f"the pattern is longer than {MAX_LENGTH} characters", column=MAX_LENGTH
        )
    _compiled(pattern)


def matches(pattern: str, name: str) -> bool:
    """Whether the pattern matches the whole name."""
    # Characters that cannot be encoded match only wildcards.
    return _compiled(pattern).fullmatch(name.encode(errors="replace")) is not None
