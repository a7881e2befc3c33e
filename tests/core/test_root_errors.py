"""An error that stands for one in another process has that one's name."""

from __future__ import annotations

from nodescope.console_output import last_line
from nodescope.debug.gate.python_stack import error_line


class RemoteError(Exception):
    """As Ray's: its text is the traceback of the other process."""

    def __init__(self, cause: Exception) -> None:
        super().__init__('report() (pid=7)\n  File "x.py", line 3, in report\nValueError: no')
        self.cause = cause


def test_the_cause_is_named() -> None:
    error = RemoteError(RemoteError(ValueError("no")))
    assert last_line(error) == "ValueError: no"
    assert error_line(error) == "ValueError: no"


def test_an_error_without_a_cause_is_its_own_root() -> None:
    error = ValueError("own")
    error.cause = KeyError("other")  # type: ignore[attr-defined]
    assert last_line(error) == "ValueError: own"
