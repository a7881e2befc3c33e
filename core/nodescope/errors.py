"""The error family. Messages say what went wrong, where in the user's code, and how to fix it.

Invariant: nothing here knows about the engine, the debugger or the wire; all of them raise these.
"""

from __future__ import annotations


class NodescopeError(Exception):
    """Base class of all errors that nodescope raises on purpose.

    Args:
        message: What went wrong, in one line, without a trailing period.
        source: Where: ``file:line`` in the *user's* code, or ``""`` if unknown.
        hint: How to fix it, in one line, or ``""``.
    """

    def __init__(self, message: str, *, source: str = "", hint: str = "") -> None:
        self.message = message
        self.source = source
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source else ""
        fix = f"; {self.hint}" if self.hint else ""
        return f"{self.message}{where}{fix}"


def error_text(error: BaseException) -> str:
    """``TypeError: bad operand``; the class alone if the exception has no text, or raises at it."""
    name = type(error).__name__
    try:
        text = str(error).strip()
    except Exception:  # the user's own __str__
        text = ""
    return f"{name}: {text}" if text else name


class ShapeError(NodescopeError, ValueError):
    """Shapes do not fit together."""


class BoundsError(ShapeError, IndexError):
    """An index or axis lies outside the tensor; also an IndexError, as in NumPy."""


class DtypeError(NodescopeError, TypeError):
    """An operation was given a dtype that it is not defined for."""


class IndexTypeError(DtypeError, IndexError):
    """An index of a kind that no array accepts; also an IndexError, as in NumPy."""


class DomainError(NodescopeError, ValueError):
    """A value for which an operation is not defined, such as a probability of 2."""


class UnsupportedError(NodescopeError, TypeError):
    """A function or argument that the engine does not trace; it never becomes a plain array."""


class MissingError(NodescopeError, AttributeError):
    """A tensor lacks an attribute that other arrays have; the hint names an alternative."""


class GradientError(NodescopeError, RuntimeError):
    """A gradient was requested where none is defined."""


class TraceError(NodescopeError, TypeError):
    """The values of a graph being built were requested, or a traced tensor left it."""


class GraphError(NodescopeError, ValueError):
    """A graph, its text or its file is not well formed."""


class UsageError(NodescopeError, RuntimeError):
    """The API was called in the wrong order or place."""


class CompilerError(NodescopeError, RuntimeError):
    """No C compiler works, or its output cannot be loaded; other back ends do not need one."""


class RegistryError(NodescopeError, LookupError):
    """A name is registered twice, or is not registered."""


class _Placed(NodescopeError):
    """An error in a text written by the user.

    Attributes:
        column: Zero-based column of the fault in the text, or -1.
    """

    def __init__(self, message: str, *, column: int = -1, source: str = "", hint: str = "") -> None:
        super().__init__(message, source=source, hint=hint)
        self.column = column


class ConditionError(_Placed, ValueError):
    """A condition cannot be parsed or evaluated."""


class BreakpointError(_Placed, ValueError):
    """A breakpoint specification that cannot be understood."""


class EditError(_Placed, ValueError):
    """A value cannot be changed that way; nothing was changed."""


class RecordingError(NodescopeError, OSError):
    """A recording cannot be written, or a file is not a recording that this version reads."""


class ReplayError(_Placed, RuntimeError):
    """A recorded node cannot be rerun; the message says which, and what is missing."""


class ExportError(NodescopeError, RuntimeError):
    """An export cannot be made; the hint says what is missing."""


class LinkError(NodescopeError, ConnectionError):
    """The debuggee and the server do not speak the same protocol, or lost their connection."""


class ArrayError(NodescopeError):
    """The elements of a value cannot be obtained, or cannot be changed."""


class WorkerError(NodescopeError, RuntimeError):
    """A process that runs a part of a graph died, did not end in time, or did not start.

    Attributes:
        part: The partition: ``worker:1``.
        node: The id of the node that ran, or of the first of several; 0 if none did.
    """

    def __init__(
        self, message: str, *, source: str = "", hint: str = "", part: str = "", node: int = 0
    ) -> None:
        super().__init__(message, source=source, hint=hint)
        self.part, self.node = part, node
