"""Scope frames: the name scopes of a node as a call stack, with the user's lines.

The innermost frame is the node, at the line that created it. Around it is one frame for each name
scope, at the line from which it was entered: a ``with name_scope(...)``, the call of a decorated
function, or the call of a module. The user's remaining Python frames follow.

Invariant: pure except for reading source files; if a line cannot be determined, it is that of the
inner frame, and nothing is invented.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import msgspec

from nodescope.ir.graph import Node
from nodescope.ir.scopes import ancestors
from nodescope.protocol import Frame
from nodescope.source_files import source_line, source_lines

_MAX_SOURCE: Final = 20_000  # limit of lines; longer files were generated


class ScopeFrame(msgspec.Struct, frozen=True):
    """A frame, in the form shown by both front ends.

    Attributes:
        kind: ``node``, ``scope`` or ``python``.
        name: The node's name, the scope's path, or the function's name.
        file, line: Its place; ``""`` and 0 if unknown.
    """

    kind: str
    name: str
    file: str = ""
    line: int = 0
    code: str = ""


def frames(node: Node, stack: tuple[Frame, ...] = ()) -> tuple[ScopeFrame, ...]:
    """The frames of a node, innermost first.

    Args:
        node: The node where the program is stopped, or the one viewed in the past.
        stack: The user's Python stack, innermost first; empty if not recorded.
    """
    if not stack and node.source is not None:
        source = node.source
        code = source_line(source.file, source.line).strip()
        stack = (Frame(source.file, source.line, source.function, code),)
    entries = list(_entries(stack))
    line = stack[0] if stack else Frame("", 0, "")
    scope_frames = [ScopeFrame("node", node.name, line.file, line.line, line.code)]
    for path in reversed(ancestors(node.scope)):
        last = path.rpartition("/")[2]
        place = _place(entries, last)
        if place is not None:
            line = entries[place][1]
            del entries[: place + 1]
        scope_frames.append(ScopeFrame("scope", path, line.file, line.line, line.code))
    outer = [ScopeFrame("python", caller.function, caller.file, caller.line, caller.code)
             for caller in stack[1:]]  # fmt: skip
    return (*scope_frames, *outer)


def _place(entries: list[tuple[str | None, Frame]], scope: str) -> int | None:
    """The entry of a scope: one with its name, else the call of a module."""
    named = (i for i, (name, _) in enumerate(entries) if name is not None and _same(name, scope))
    unnamed = (i for i, (name, _) in enumerate(entries) if name is None)
    return next(named, next(unnamed, None))


def _same(written: str, scope: str) -> bool:
    """Whether a scope written this way may be named ``scope``: names are made unique."""
    return re.fullmatch(rf"(?:{written})(?:_\d+)?", scope) is not None


def _entries(stack: tuple[Frame, ...]) -> Iterator[tuple[str | None, Frame]]:
    """The scopes that these frames have entered, innermost first, each with its line.

    Each is given as the pattern of its name; None matches any.
    """
    for depth, frame in enumerate(stack):
        caller = stack[depth + 1] if depth + 1 < len(stack) else frame
        opened = [block for block in _opened(frame.file) if block[0] <= frame.line <= block[1]]
        # Blocks of an enclosing function belong to another frame.
        start = max((block[0] for block in opened if block[2] is None), default=0)
        for first, _, line, name in sorted(opened, key=lambda block: -block[0]):
            if first < start:
                continue
            if line is not None:
                code = source_line(frame.file, line).strip()
                yield name or None, Frame(frame.file, line, frame.function, code)
            elif name:
                yield name, caller
        if frame.function.rpartition(".")[2] in ("forward", "__call__"):
            yield None, caller


_Opened = tuple[int, int, int | None, str]


@lru_cache(maxsize=64)
def _opened(file: str) -> tuple[_Opened, ...]:
    """First and last line, line of the ``with`` (None for a function), and pattern of the name."""
    lines = source_lines(file)
    if not lines or len(lines) > _MAX_SOURCE:
        return ()
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    blocks: list[_Opened] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.With | ast.AsyncWith):
            inner = node.body[0].lineno
            scopes = (_scope_name(item.context_expr) for item in node.items)
            blocks.extend(
                (inner, node.end_lineno or inner, node.lineno, name)
                for name in scopes
                if name is not None
            )
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [name for decorator in node.decorator_list if (name := _scope_name(decorator))]
            blocks.append((node.lineno, node.end_lineno or node.lineno, None, "".join(names[:1])))
    return tuple(blocks)


def _scope_name(call: ast.expr) -> str | None:
    """A pattern for the name in ``name_scope("name")``; ``""`` if it is arbitrary; None for other
    calls.
    """
    match call:
        case ast.Call(
            func=ast.Name(id="name_scope") | ast.Attribute(attr="name_scope"), args=[name, *_]
        ):
            parts = name.values if isinstance(name, ast.JoinedStr) else [name]
            pattern = [re.escape(part.value) if isinstance(part, ast.Constant)
                     and isinstance(part.value, str) else "[^/]*" for part in parts]  # fmt: skip
            return "" if pattern == ["[^/]*"] else "".join(pattern)
    return None
