"""Another version of PyTorch than the one that is supported: a line, and the program runs."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest
import torch

from nodescope.adapters.torch import TorchAdapter
from nodescope.record.recording import Recording
from tests.adapters.driving import recorded


@pytest.mark.parametrize("version", ["2.10.1", "3.0.0+cu130", ""])
def test_an_unsupported_version_is_reported(
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


def test_a_step_reads_no_package_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a package's metadata takes a millisecond."""
    asked: list[str] = []

    def program() -> None:
        parameter = torch.nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([parameter], 0.1)
        read = importlib.metadata.version
        monkeypatch.setattr(
            importlib.metadata, "version", lambda name: asked.append(name) or read(name)
        )
        for _ in range(3):
            optimizer.zero_grad()
            parameter.sum().backward()
            optimizer.step()
        monkeypatch.setattr(importlib.metadata, "version", read)

    recorded(tmp_path / "run.nscope", program)
    assert not asked


def test_another_number_of_threads_is_recorded(tmp_path: Path) -> None:
    before = torch.get_num_threads()

    def program() -> None:
        parameter = torch.nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([parameter], 0.1)
        for threads in (before, before + 1):
            torch.set_num_threads(threads)
            parameter.sum().backward()
            optimizer.step()

    try:
        recorded(tmp_path / "run.nscope", program)
    finally:
        torch.set_num_threads(before)
    with Recording.open(tmp_path / "run.nscope") as recording:
        (framework,) = (one for one in recording.run().frameworks if one.dialect == "torch")
    assert framework.threads == before + 1
