"""Breakpoints that are saved with the project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nodescope.debug.breakpoints.syntax import parse_breakpoint
from nodescope.debug.project_settings import VARIABLE, ProjectSettings

LOSS = parse_breakpoint("loss/mean [step 3.., hits % 2, group nan] if value > 3 log {value}")
LINE = parse_breakpoint("before train.py:12 [off]")


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)


def test_breakpoints_are_saved_readably_and_loaded(tmp_path: Path) -> None:
    saved = ProjectSettings(tmp_path / "train.py")
    assert saved.load() == ((), [])
    assert saved.save([]) == ""
    assert not saved.path.exists()
    assert saved.save([LOSS, LINE]) == ""
    assert ProjectSettings(tmp_path / "other.py").save([LINE]) == ""
    assert saved.load() == ((LOSS, LINE), [])
    assert json.loads((tmp_path / ".nodescope/breakpoints.json").read_text()) == {
        "version": 1,
        "breakpoints": {
            "train.py": [
                "loss/mean [step 3.., hits % 2, group nan] if value > 3 log {value}",
                "before source:train.py:12 [off]",
            ],
            "other.py": ["before source:train.py:12 [off]"],
        },
    }
    assert saved.save([]) == ""
    assert saved.load() == ((), [])
    assert ProjectSettings(tmp_path / "other.py").load()[0] == (LINE,)


def test_what_is_not_understood_is_reported_and_the_rest_is_there(tmp_path: Path) -> None:
    saved = ProjectSettings(tmp_path / "train.py")
    saved.save([LOSS])
    content = json.loads(saved.path.read_text())
    content["breakpoints"]["train.py"] += ["op:log [bakward]", 7]
    saved.path.write_text(json.dumps(content))
    result, complaint = saved.load()
    assert result[0] == LOSS
    assert "did you mean 'backward'" in complaint[0]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 9, "breakpoints": {}}', "\0"])
def test_a_damaged_file_is_put_aside(tmp_path: Path, text: str) -> None:
    saved = ProjectSettings(tmp_path / "train.py")
    saved.path.parent.mkdir()
    saved.path.write_text(text)
    result, complaint = saved.load()
    assert (result, len(complaint)) == ((), 1)
    assert "renamed to" in saved.save([LOSS])
    assert saved.load() == ((LOSS,), [])
    assert saved.path.with_suffix(".damaged").read_text() == text


def test_an_unwritable_folder_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / ".nodescope").write_text("in the way")
    saved = ProjectSettings(tmp_path / "train.py")
    assert saved.load() == ((), [])
    assert "not saved" in saved.save([LOSS])


def test_the_folder_can_be_chosen_or_disabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "kept"))
    assert ProjectSettings(Path("train.py")).save([LOSS]) == ""
    assert (tmp_path / "kept/breakpoints.json").is_file()
    monkeypatch.setenv(VARIABLE, "none")
    assert ProjectSettings(tmp_path / "train.py").save([LOSS]) == ""
    assert ProjectSettings(tmp_path / "train.py").load() == ((), [])
    assert not (tmp_path / ".nodescope").exists()


def test_watches_are_saved_beside_breakpoints(tmp_path: Path) -> None:
    saved = ProjectSettings(tmp_path / "train.py")
    assert saved.save_watches(["nan on op:log -> log"]) == ""
    assert saved.save([LOSS]) == ""
    content = json.loads(saved.path.read_text())
    assert content["watches"] == {"train.py": ["nan on op:log -> log"]}
    content["watches"]["train.py"].append("nann")
    saved.path.write_text(json.dumps(content))
    texts, complaint = saved.load_watches()
    assert texts == ("nan on op:log -> log",)
    assert "no watch rule named 'nann'" in complaint[0]
    assert saved.save_watches([]) == ""
    assert saved.load()[0] == (LOSS,)
    assert "watches" not in json.loads(saved.path.read_text())
