"""Plugins: found by their group, and looked for again once something was installed."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path

import pytest

from nodescope import plugins


def install(folder: Path, name: str, group: str) -> None:
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{group}]\n{name} = {name}:thing\n")


def test_plugins_are_read_once_until_something_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    read = importlib.metadata.entry_points

    def counted() -> object:
        reads.append(1)
        return read()

    monkeypatch.setattr(plugins, "entry_points", counted)
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "one", "nodescope.test_kind")
    os.utime(tmp_path, ns=(1, 1))
    assert [entry.name for entry in plugins.plugins("nodescope.test_kind")] == ["one"]
    assert plugins.plugins("nodescope.another_kind") == ()
    assert len(reads) == 1
    once = plugins.plugins("nodescope.test_kind")
    assert plugins.plugins("nodescope.test_kind") is once
    install(tmp_path, "two", "nodescope.test_kind")
    os.utime(tmp_path, ns=(2, 2))
    assert {entry.name for entry in plugins.plugins("nodescope.test_kind")} == {"one", "two"}
    assert len(reads) == 2
