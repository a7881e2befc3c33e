"""The conformance suite of adapters: what each must do, and what its capabilities promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodescope.adapters import attached
from nodescope.api import Run
from nodescope.arrays import register, to_numpy
from nodescope.events import NodeFinished
from nodescope.record.recording import Recording
from nodescope.record.rows import FAILED
from tests.adapters import cases
from tests.adapters.cases import CASES, STEPS, Case
from tests.adapters.foreign import library as lib


@pytest.fixture(params=CASES, ids=[case.dialect for case in CASES])
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Case:
    found: Case = request.param
    monkeypatch.setattr(attached, "_OWN", (found.adapter,))
    return found


@pytest.fixture
def distant(monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setattr(attached, "_OWN", (CASES[1].adapter,))
    return CASES[1]


def recorded(path: Path, program: Callable[[], Any], **options: Any) -> Any:
    run = Run(path, **options)
    run.start()
    try:
        return program()
    finally:
        run.finish()


def test_the_result_of_the_program_is_unchanged(case: Case, tmp_path: Path) -> None:
    plain = case.train()
    for level in ("graph", "timing", "summary", "values"):
        seen = recorded(tmp_path / f"{level}.nscope", case.train, level=level)
        assert seen.tobytes() == plain.tobytes()


def test_steps_scopes_lines_and_dialect(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, case.train)
    with Recording.open(path) as recording:
        nodes = {row.node.id: row.node for row in recording.nodes()}
        product = next(node for node in nodes.values() if node.op == case.product)
        assert product.scope == "layer"
        assert product.dialect == case.dialect
        assert product.source is not None
        assert product.source.file == cases.__file__
        ran = Counter(execution.node for execution in recording.executions())
        # Where the optimizer tells steps apart, the first one began before that was known.
        assert ran[product.id] in (STEPS, STEPS - 1)
        steps = [row.step for row in recording.steps()]
        assert steps == list(range(1, len(steps) + 1))
        assert len(steps) in (STEPS, STEPS - 1)


def test_values_at_each_level(case: Case, tmp_path: Path) -> None:
    for level in ("timing", "summary", "values"):
        path = tmp_path / f"{level}.nscope"
        recorded(path, case.train, level=level)
        with Recording.open(path) as recording:
            product = next(r.node for r in recording.nodes() if r.node.op == case.product)
            at = recording.latest_at(product.outputs[0])
            assert (at is not None) == (level != "timing")
            if at is not None:
                assert at.summary.spec.shape == (4, 3)
            whole = recording.array(product.outputs[0], at.seq) if at is not None else None
            if level == "values":
                assert whole is not None
                assert whole.shape == (4, 3)
            assert recording.dropped().summaries == 0


def test_a_loop_without_steps_is_a_few_nodes(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, lambda: case.loop(50))
    with Recording.open(path) as recording:
        nodes = {row.node.id: row.node for row in recording.nodes()}
        computing = [node for node in nodes.values() if not node.is_leaf]
        assert sorted(node.op for node in computing) == sorted([case.product, computing[-1].op])
        assert set(Counter(e.node for e in recording.executions()).values()) == {1, 50}


def test_an_operation_that_raises_is_a_failed_node(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    with pytest.raises(case.raises):
        recorded(path, case.fail)
    with Recording.open(path) as recording:
        assert [row for row in recording.executions() if row.flags & FAILED]


def test_a_fault_in_the_adapter_never_kills_the_program(case: Case, tmp_path: Path) -> None:
    class Fault:
        def emit(self, event: Any) -> None:
            if isinstance(event, NodeFinished):
                raise RuntimeError("a fault")

    plain = case.train()
    said: list[str] = []
    run = Run(tmp_path / "run.nscope", say=said.append)
    run.bus.add(Fault())
    run.start()
    result = case.train()
    run.finish()
    assert result.tobytes() == plain.tobytes()
    assert any("a fault" in line for line in said)


def test_a_window_is_fetched_and_not_the_whole(distant: Case, tmp_path: Path) -> None:
    register(attached.known_adapters()[0].arrays())
    large = lib.distant(np.ones((500, 500)))
    before = lib.Process.fetched_bytes
    window = to_numpy(large, (slice(0, 2), slice(0, 3)))
    assert window.shape == (2, 3)
    assert lib.Process.fetched_bytes - before == window.nbytes
