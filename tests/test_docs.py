"""The documents stay true: their code runs, their commands and links are there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from nodescope.cli import main

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def test_the_program_of_the_readme_runs() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", README, re.S)
    rng = np.random.default_rng(0)
    batches = [(rng.standard_normal((8, 64)), rng.standard_normal((8, 10))) for _ in range(3)]
    names = {"batches": batches}
    exec(compile(program, "README.md", "exec"), names)
    assert np.abs(names["w"].numpy()).max() > 0  # type: ignore[attr-defined]


def test_the_programs_of_the_document_on_graphs_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "graphs.md").read_text(), re.S)
    assert len(programs) == 4
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for program in programs:
        exec(compile(program, "graphs.md", "exec"), names)
    assert (tmp_path / "model.nsgraph").is_file()


def test_the_commands_of_the_readme_exist(capsys: pytest.CaptureFixture[str]) -> None:
    commands = set(re.findall(r"nodescope (run|open|export|serve|demo|doctor|\w+) ", README))
    named = {"run", "open", "export"} & commands
    assert named == {"run", "open", "export"}
    for command in named:
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        assert ended.value.code == 0
        assert command in capsys.readouterr().out


def test_the_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"make ([a-z]+)", README)) - {"sure"}
    assert {"demo", "test", "check", "bench", "setup"} <= targets
    missing = [each for each in targets if not re.search(rf"^{each}:", makefile, re.M)]
    assert not missing


@pytest.mark.parametrize("document", ["README.md", "ARCHITECTURE.md"])
def test_links_lead_somewhere(document: str) -> None:
    text = (ROOT / document).read_text()
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    broken = [each for each in links if not (ROOT / each).exists()]
    assert not broken


def test_every_table_of_a_recording_is_documented() -> None:
    from nodescope.record.schema import SCHEMA

    text = (ROOT / "docs" / "recording.md").read_text()
    tables = re.findall(r"CREATE TABLE (\w+)", SCHEMA)
    assert len(tables) > 5
    missing = [each for each in tables if f"`{each}`" not in text]
    assert not missing
