"""A user's mistake as data, and what `nodescope` has to say to it."""

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
        line: Of the program, where it is; the first after the empty one is 1.
        says: The whole message.
        hint: How to mend it.
    """

    name: str
    program: str
    kind: type[NodescopeError]
    line: int
    says: str
    hint: str


def check(mistake: Mistake) -> None:
    """The program raises the error, which says what, where and how to mend it."""
    code = compile(mistake.program.strip("\n"), "model.py", "exec")
    with pytest.raises(mistake.kind) as caught:
        exec(code, {"ns": ns, "np": np})
    error = caught.value
    assert type(error) is mistake.kind
    assert error.message == mistake.says
    assert error.source == f"model.py:{mistake.line}"
    assert error.hint == mistake.hint
    assert str(error) == f"{mistake.says} (model.py:{mistake.line}); {mistake.hint}"
