"""Models that nobody here wrote: training steps, plainly and observed, are the same bits.

`python -m tests.torch.model_table` prints how large each is, and what observing it costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from nodescope.adapters.torch.values import Values
from nodescope.debug.watch.offline import Asking
from nodescope.debug.watch.watch import Watch
from tests.torch import origins
from tests.torch.models import MODELS, NAMES, Made
from tests.torch.observing import nodes_of, observed, state_of
from tests.torch.tap_programs import views_and_writes
from tests.torch.taps import TAPS

STEPS = 3
NUMBERS = {"t5": 1, "vit": 4, "whisper": 1, "detr": 1}
"""How many numbers PyTorch makes tensors of: see `origins`."""


def trained(make: Callable[[], Made], steps: int = STEPS) -> tuple[float, dict[str, bytes]]:
    """Train a new model for some steps; its last loss, and all its bits."""
    torch.manual_seed(0)
    model, loss_of = make()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(steps):
        loss = loss_of(model)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float(loss.detach()), state_of(model)


@pytest.mark.parametrize("make", MODELS, ids=NAMES)
def test_a_training_step_is_observed_whole(make: Callable[[], Made], tmp_path: Path) -> None:
    plain = trained(make)
    with observed(tmp_path / "run.nscope", lambda: trained(make)) as (result, recording):
        assert result == plain
        assert [row.step for row in recording.steps()] == list(range(1, STEPS + 1))
        assert recording.losses()[-1].value == plain[0]
        nodes = nodes_of(recording).values()
        unlinked = [node.name for node in nodes if node.phase == "backward" and not node.forward]
        assert not unlinked
        phases = Counter(node.phase for node in nodes if not node.is_leaf)
        assert min(phases["forward"], phases["backward"], phases["optimizer"]) > 50
        # Every tensor is known by its name in the model, so no version lacks an origin.
        last = {row.node for row in recording.executions() if row.step == STEPS}
        names = {node.name for node in nodes if node.role == "parameter" and node.id in last}
        assert names
        assert all("/" in name for name in names), names
        # The models write in place deliberately.
        assert not list(Asking(recording, [Watch("alias_overwritten")]))


@pytest.mark.parametrize("tap", TAPS)
@pytest.mark.parametrize("name", NAMES)
def test_each_version_that_is_read_has_an_origin(
    name: str, tap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", tap)
    monkeypatch.setenv("NODESCOPE_TORCH_FAST", "0")  # Observe operator by operator.
    make = MODELS[NAMES.index(name)]
    with (
        origins.followed(tap) as read,
        observed(tmp_path / "run.nscope", lambda: trained(make, 1)),
    ):
        pass
    assert read.orphans == []
    assert read.reads > 500
    assert read.numbers == NUMBERS.get(name, 0)


@pytest.mark.parametrize("tap", TAPS)
def test_a_write_that_is_not_recorded_makes_an_orphan(
    tap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", tap)
    with (
        patch.object(Values, "wrote", lambda *_: None),
        patch.object(origins.Origins, "wrote", lambda *_: None),
        origins.followed(tap) as read,
        observed(tmp_path / "run.nscope", views_and_writes),
    ):
        pass
    assert len(read.orphans) > 2
