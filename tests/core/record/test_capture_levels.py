"""Which level a node has, and whether all have the same."""

from __future__ import annotations

from nodescope.record.capture_levels import CaptureLevels


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
