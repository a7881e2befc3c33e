"""Generated files: checked by default, written on request."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import generated


def test_an_outdated_file_is_reported_and_rewritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "types.gen.ts"
    assert generated.update(path, "new\n", "page_types", write=False) == 1
    assert capsys.readouterr().err == (
        "types.gen.ts is out of date; run: python -m tools.page_types --write\n"
    )
    assert generated.update(path, "new\n", "page_types", write=True) == 0
    assert generated.update(path, "new\n", "page_types", write=False) == 0
    assert generated.update(path, "newer\n", "page_types", write=False) == 1


def test_a_section_changes_and_nothing_else() -> None:
    old = "before\n<!-- ops:begin -->\nold\n<!-- ops:end -->\nafter\n"
    new = generated.with_section(old, "ops", "new")
    assert new == old.replace("old", "new")
    with pytest.raises(ValueError, match="no section"):
        generated.with_section(old, "rules", "new")


@pytest.mark.parametrize(("arguments", "write"), [([], False), (["--write"], True)])
def test_the_only_option_is_to_write(arguments: list[str], write: bool) -> None:
    assert generated.asked_to_write("ops_table", arguments) is write
    with pytest.raises(SystemExit):
        generated.asked_to_write("ops_table", [*arguments, "--other"])
