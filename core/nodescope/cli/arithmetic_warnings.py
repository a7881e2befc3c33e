"""Arithmetic warnings of the program, attributed to the program's own lines.

NumPy warns at the innermost Python line, which is nodescope's call of an op's impl. A warning shown
once per line would then be shown once for the whole program.

Invariant: costs nothing until a warning occurs. The program's warning filters are respected.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def at_user_lines(is_ours: Callable[[str], bool]) -> Iterator[None]:
    """Show warnings raised within nodescope at the line of the program that led there."""
    before = warnings.showwarning
    shown_keys: set[Any] = set()

    def show(
        message: Warning | str, category: type[Warning], filename: str, lineno: int,
        file: Any = None, line: str | None = None,
    ) -> None:  # fmt: skip
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename == warnings.__file__:
            frame = frame.f_back
        user = frame
        while user is not None and is_ours(user.f_code.co_filename):
            user = user.f_back
        if frame is not None and user is not None and is_ours(filename):
            if _action(str(message), category, frame, lineno) == "default":
                registry = frame.f_globals.get("__warningregistry__", {})
                registry.pop((str(message), category, lineno), None)
                key = (str(message), category, user.f_code.co_filename, user.f_lineno)
                if key in shown_keys:
                    return
                shown_keys.add(key)
            filename, lineno = user.f_code.co_filename, user.f_lineno
        before(message, category, filename, lineno, file, line)

    warnings.showwarning = show
    try:
        yield
    finally:
        if warnings.showwarning is show:
            warnings.showwarning = before


def _action(text: str, category: type[Warning], frame: FrameType, lineno: int) -> str:
    """The action of the filters for a warning, as in `warnings.warn_explicit`."""
    module = str(frame.f_globals.get("__name__", "<unknown>"))
    for action, message, kind, module_pattern, line in warnings.filters:
        if (
            (message is None or _matches(message, text))
            and issubclass(category, kind)
            and (module_pattern is None or _matches(module_pattern, module))
            and line in (0, lineno)
        ):
            return str(action)
    return "default"


def _matches(pattern: re.Pattern[str] | str, text: str) -> bool:
    """Whether a filter matches: those of the command line are plain text, those of programs
    patterns.
    """
    return pattern == text if isinstance(pattern, str) else pattern.match(text) is not None
