"""A user's mistake as data, with nodescope's message."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import NodescopeError


class Mistake(NamedTuple):
    """A program that goes wrong.

    Attributes:
        name: What the mistake is.
        program: Its lines, the first of which is empty; it has ``ns`` and ``np``.
        kind: The error.
        line: The line of the mistake; the first after the empty one is 1.
        says: The whole message.
        hint: How to fix it.
    """

    name: str
    program: str
    kind: type[NodescopeError]
    line: int
    says: str
    hint: str


def check(mistake: Mistake) -> None:
    """Check that the program raises the error, with message, line and hint."""
    code = compile(mistake.program.strip("\n"), "model.py", "exec")
    with pytest.raises(mistake.kind) as caught:
        exec(code, {"ns": ns, "np": np})
    error = caught.value
    assert type(error) is mistake.kind
    assert error.message == mistake.says
    assert error.source == f"model.py:{mistake.line}"
    assert error.hint == mistake.hint
    assert str(error) == f"{mistake.says} (model.py:{mistake.line}); {mistake.hint}"
