"""Python stack: the user's part of a thread's stack.

Invariant: only frames of the user's program and libraries, none of nodescope, an adapter or the
code that started the program. Reading the stack changes nothing.
"""

from __future__ import annotations

import linecache
import os
import sys
import threading
from collections.abc import Iterator
from operator import attrgetter
from types import FrameType
from typing import Final

from nodescope.console_output import root_of
from nodescope.errors import error_text
from nodescope.interactive import cell_name, is_machinery
from nodescope.origins import folders_of, is_internal, is_ours
from nodescope.protocol import Frame
from nodescope.thread_frames import stack_of

MAX_FRAMES: Final = 100
MAX_CODE: Final = 500

# The limit of frames read from another thread's stack; at most `MAX_FRAMES` of the user's are kept.
_DEEPEST: Final = 10_000
_SEEN: Final = attrgetter("f_code", "f_lineno", "f_globals")

# The launcher calls the command line, which calls the script's own ``<module>``.
_LAUNCHER: Final = folders_of("cli")
_MACHINERY: Final = (os.path.abspath(threading.__file__), "<frozen runpy>", "<frozen importlib")


def is_hidden(file: str) -> bool:
    """Whether a code object's file belongs to nodescope or to the program's launcher."""
    return is_ours(file) or file.startswith(_MACHINERY) or is_machinery(file)


def error_line(error: BaseException) -> str:
    """An exception as text, in the engine's form for those that operations raise."""
    return error_text(root_of(error))


def user_stack(thread: int | None = None) -> tuple[Frame, ...]:
    """The user's frames of this thread, or of another one, innermost first.

    At most `MAX_FRAMES`; none for a thread that has ended. For this thread, which is at a node, the
    innermost frame is the one that called the node's library.
    """
    frames: list[Frame] = []
    stack = (
        map(_SEEN, _stack_behind(sys._getframe(1)))
        if thread is None
        else stack_of(thread, _DEEPEST, _SEEN)
    )
    for code, known_line, variables in stack:
        if len(frames) == MAX_FRAMES:
            break
        if code.co_filename.startswith(_LAUNCHER):
            break
        within = thread is None and not frames and is_internal(code.co_filename)
        if not within and not is_hidden(code.co_filename):
            line = known_line or code.co_firstlineno
            text = linecache.getline(code.co_filename, line, variables).strip()[:MAX_CODE]
            frames.append(Frame(cell_name(code.co_filename), line, code.co_qualname, text))
    return tuple(frames)


def _stack_behind(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
