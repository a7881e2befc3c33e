"""Without PyTorch, features that need it say what to install."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

import nodescope as ns
from nodescope.cli import main
from nodescope.errors import UsageError

HINT = "pip install 'nodescope[torch]'"


@pytest.fixture(autouse=True)
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.split(".")[0] == "torch" or name.startswith("nodescope.adapters.torch.static"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec",
        lambda name, *more: None if name == "torch" else find_spec(name, *more),
    )  # fmt: skip


def test_a_saved_program_is_not_opened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "model.pt2"
    saved.write_bytes(b"PK")
    assert main(["open", "--no-browser", str(saved)]) == 2
    said = capsys.readouterr().err
    assert "model.pt2 is a program of PyTorch, which is not installed" in said
    assert HINT in said


def test_graphs_of_models_are_not_made() -> None:
    with pytest.raises(UsageError, match="PyTorch is not installed") as raised:
        ns.torch.graph  # noqa: B018
    assert raised.value.hint == HINT
