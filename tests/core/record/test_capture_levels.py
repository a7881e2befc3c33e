"""Which level a node has, whether all have the same, and whether arrays may be read now."""

from __future__ import annotations

import pytest

from nodescope.events import Level
from nodescope.record.capture_levels import CaptureLevels, Detail


def test_levels_are_uniform_again_once_nothing_is_kept_whole() -> None:
    levels = CaptureLevels("summary", None, (), None)
    assert levels.of_blocks == "summary"
    levels.keep_whole(everything=False, nodes=frozenset({3}))
    assert not levels.uniform
    # Blocks keep statistics; the node's elements are kept in addition.
    assert levels.of_blocks == "summary"
    levels.keep_whole(everything=True, nodes=frozenset())
    assert levels.of_blocks is None
    levels.keep_whole(everything=False, nodes=frozenset())
    assert levels.uniform
    assert levels.of_blocks == "summary"
    times = CaptureLevels("timing", None, (), None)
    times.keep_whole(everything=False, nodes=frozenset({3}))
    assert times.of_blocks is None
    by_scope = CaptureLevels("summary", {"net/*": "values"}, (), None)
    by_scope.keep_whole(everything=False, nodes=frozenset())
    assert not by_scope.uniform


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
