"""Another version of PyTorch than the one that is supported: a line, and the program runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nodescope.adapters.torch import TorchAdapter
from nodescope.record.recording import Recording
from tests.adapters.driving import recorded


@pytest.mark.parametrize("version", ["2.10.1", "3.0.0+cu130", ""])
def test_it_is_said_which_is_supported(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(TorchAdapter, "version", lambda adapter: version)
    path = tmp_path / "run.nscope"
    assert recorded(path, lambda: float(torch.ones(2).sum())) == 2.0
    lines = [line for line in capfd.readouterr().err.splitlines() if "2.13" in line]
    assert len(lines) == 1
    assert f"PyTorch {version or 'of an unknown version'} is installed" in lines[0]
    with Recording.open(path) as recording:
        assert not recording.executions()
