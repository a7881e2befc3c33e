"""What the start page and the end of a run tell of a recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodescope_server.http.start_page import _commands


def test_commands_are_told_in_a_folder_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert _commands(folder / "r.nscope")[0].line == "nodescope open r.nscope"
    folder.rmdir()
    assert _commands(tmp_path / "r.nscope")[0].line == f"nodescope open {tmp_path / 'r.nscope'}"
