"""The list of recordings that were written last."""

from __future__ import annotations

from pathlib import Path

import pytest

import nodescope as ns
from nodescope.record import recent as listed
from nodescope.record.recent import place, recent, remember


@pytest.fixture(autouse=True)
def own_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_each_run_is_listed_once_the_latest_first(tmp_path: Path) -> None:
    for name in ("a", "b", "a"):
        with ns.record(tmp_path / f"{name}.nscope"):
            ns.tensor([1.0])
    assert recent() == (tmp_path / "a.nscope", tmp_path / "b.nscope")
    (tmp_path / "a.nscope").unlink()
    assert recent() == (tmp_path / "b.nscope",)
    assert place().stat().st_mode & 0o777 == 0o600


def test_damage_is_skipped_and_the_list_stays_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run.nscope").touch()
    remember(tmp_path / "run.nscope")
    with place().open("ab") as file:
        file.write(b'\xff\xfe"\n{}\n"relative.nscope"\n"/nul\\u0000.nscope"\n"/cut')
    assert recent() == (tmp_path / "run.nscope",)
    monkeypatch.setattr(listed, "MOST", 4)
    for i in range(60):
        (tmp_path / f"{i}.nscope").touch()
        remember(tmp_path / f"{i}.nscope")
    assert [item.stem for item in recent()] == ["59", "58", "57", "56"]
    assert place().stat().st_size < 4000


def test_a_folder_that_cannot_be_written_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    remember(tmp_path / "run.nscope")
    assert recent() == ()
