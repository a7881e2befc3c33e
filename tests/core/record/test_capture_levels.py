"""Capture levels: whether arrays may be read now."""

from __future__ import annotations

import pytest

from nodescope.events import Level
from nodescope.record.capture_levels import CaptureLevels, Detail


@pytest.mark.parametrize("detail", ["whole", "times", "counted"])
@pytest.mark.parametrize("level", ["timing", "summary", "values"])
def test_arrays_of_viewed_nodes_are_read_at_any_level(level: Level, detail: Detail) -> None:
    levels = CaptureLevels(level, None, (), None)
    levels.detail = detail
    unviewed = level != "timing" and detail == "whole"
    assert levels.with_arrays == unviewed
    levels.keep_whole(everything=False, nodes=frozenset({1}))
    assert levels.with_arrays
    levels.keep_whole(everything=True, nodes=frozenset())
    assert levels.with_arrays
    levels.keep_whole(everything=False, nodes=frozenset())
    assert levels.with_arrays == unviewed
