"""Models that nobody here wrote: steps follow the one before, and a recording does not show it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.torch.both_paths import check_equal, run
from tests.torch.models import MODELS, NAMES
from tests.torch.taps import TAPS
from tests.torch.test_models import trained

STEPS = 6
"""The first ones define nodes, and find gradients; the next is taken down."""

UNINITIALISED = ("mixtral",)
"""What these read has memory that nobody has written to: statistics of it are another each time."""


@pytest.mark.parametrize("tap", TAPS)
@pytest.mark.parametrize("name", NAMES)
def test_steps_are_followed(
    name: str, tap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program() -> Any:
        loss, state = trained(MODELS[NAMES.index(name)], STEPS)
        bits = torch.frombuffer(bytearray(b"".join(state.values())), dtype=torch.uint8)
        return [torch.tensor(loss), bits]

    level = "timing" if name in UNINITIALISED else "summary"
    ways = [
        run(program, tmp_path / f"{fast}.nscope", monkeypatch, fast=fast, tap=tap, level=level)
        for fast in (False, True)
    ]
    assert all(map(torch.equal, ways[0][0], ways[1][0]))
    check_equal(ways[1][1], ways[0][1])
    assert ways[1][2] >= 2
