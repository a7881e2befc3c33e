"""A recording's facts about scopes."""

from __future__ import annotations

from pathlib import Path

import nodescope as ns
from nodescope.ir.graph import ScopeDescribed
from nodescope.record.recording import Recording
from nodescope.record.scope_facts import scope_facts


def test_a_scope_is_found_by_the_paths_of_its_further_calls(tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    described = ScopeDescribed("net/layer_0", "Linear", {"bias": "True"})
    with ns.record(path) as run:
        run.bus.emit(described)
        run.bus.emit(ScopeDescribed("net/layer", "Other"))
    with Recording.open(path) as recording:
        for scope in ("net/layer_0", "backward/net/layer_0", "recompute/net/layer_0"):
            assert scope_facts(recording, scope) == described
        for scope in ("net/layer_1", "backward/net_1/layer_2"):
            facts = scope_facts(recording, scope)
            assert facts is not None
            assert facts.kind == "Other"
        assert scope_facts(recording, "net") is None
