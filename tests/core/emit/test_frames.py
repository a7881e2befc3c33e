"""The user's line: of each call, and without the objects of a program staying alive."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nodescope.emit import frames
from nodescope.emit.frames import user_source
from nodescope.ir.graph import Node, SourceLocation, TensorSpec, Value


def first_line(function: Callable[..., Any]) -> int:
    return function.__code__.co_firstlineno


def two_lines() -> list[SourceLocation | None]:
    sources = [user_source()]
    sources.append(user_source())
    return sources


def test_the_line_is_that_of_the_instruction() -> None:
    for _ in range(2):  # the second time, the lines are known
        lines = [source.line for source in two_lines() if source is not None]
        assert lines == [first_line(two_lines) + 1, first_line(two_lines) + 2]


def made(text: str) -> Callable[[], SourceLocation | None]:
    names: dict[str, Any] = {"user_source": user_source}
    exec(compile(text, "<made>", "exec"), names)
    return names["function"]  # type: ignore[no-any-return]


def test_functions_that_are_made_and_dropped_are_told_apart() -> None:
    """A dropped function's code may have the address of the next one's."""
    for blank in range(50):
        source = made("\n" * blank + "def function():\n    return user_source()")()
        assert source == SourceLocation("<made>", blank + 2, "function")


def test_what_is_known_of_lines_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_locations", {})
    monkeypatch.setattr(frames, "_MOST_LOCATIONS", 4)
    for _ in range(20):
        assert made("def function():\n    return user_source()")() is not None
        assert len(frames._locations) <= 4


def test_a_line_keeps_no_object_of_the_program() -> None:
    class Thing:
        pass

    def function() -> Any:
        thing = Thing()
        assert user_source() is not None
        return weakref.ref(thing)

    assert function()() is None


def test_parts_of_a_graph_cost_the_collector_nothing() -> None:
    spec = TensorSpec((2, 3), "float32")
    node = Node(
        id=1, name="a", op="add", family="elementwise", inputs=(1, 2), outputs=(3,),
        attrs={"axes": [np.zeros(1)]}, source=SourceLocation("a.py", 1),
    )  # fmt: skip
    parts = (spec, Value(3, spec, "a"), node, node.source)
    assert not any(map(gc.is_tracked, parts))
