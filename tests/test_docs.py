"""The documents are correct: their code runs, and their commands and links exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.adapters.protocol import Adapter, Attachment, Rerun
from nodescope.arrays import ArrayOps, Captured
from nodescope.cli import main
from nodescope.debug.breakpoints.syntax import describe, parse_breakpoint
from nodescope.emit.emitter import Emitter
from nodescope.engine.codegen.c_backend.prelude import ULPS
from nodescope.passes import all_passes

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def programs_of(document: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.S)


def test_the_program_of_the_readme_runs() -> None:
    program = programs_of("README.md")[0]
    rng = np.random.default_rng(0)
    batches = [(rng.standard_normal((8, 64)), rng.standard_normal((8, 10))) for _ in range(3)]
    names = {"batches": batches}
    exec(compile(program, "README.md", "exec"), names)
    assert np.abs(names["w"].numpy()).max() > 0  # type: ignore[attr-defined]


def test_the_model_of_the_readme_learns() -> None:
    (_, program) = programs_of("README.md")
    rng = np.random.default_rng(0)
    images = rng.standard_normal((64, 1, 8, 8)).astype(np.float32)
    labels = (images.sum(axis=(1, 2, 3)) > 0).astype(np.int64)
    names: dict[str, Any] = {"batches": [(images, labels)] * 20, "losses": []}
    exec(compile(program, "README.md", "exec"), names)
    losses = names["losses"]
    assert losses[-1] < losses[0] / 2
    assert "traced once" in str(names["train_step"].explain())


def test_the_programs_of_the_guide_run(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "engine.md").read_text()
    names: dict[str, Any] = {}
    mode = ns.get_mode()
    try:
        for program in programs_of("docs/engine.md"):
            # With these lines before it, errors show the lines of the guide.
            before = text[: text.index(program)].count("\n")
            exec(compile("\n" * before + program, "engine.md", "exec"), names)
    finally:
        ns.set_mode(mode)
    assert "traced once" in capsys.readouterr().out


def test_the_names_in_the_guide_exist() -> None:
    text = (ROOT / "docs" / "engine.md").read_text()
    assert len(text.splitlines()) <= 400
    absent = {item for item in re.findall(r"\bns\.(\w+)", text) if not hasattr(ns, item)}
    assert absent == {"einsum"}  # The text says that einsum is not available.
    named = set(re.findall(r"\bns\.optim\.(\w+)", text))
    assert not {item for item in named if not hasattr(ns.optim, item)}


def test_the_programs_of_the_document_on_graphs_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "graphs.md").read_text(), re.S)
    assert len(programs) == 5
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for program in programs:
        exec(compile(program, "graphs.md", "exec"), names)
    assert (tmp_path / "model.nsgraph").is_file()


def test_the_programs_of_the_document_on_the_compiler_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NODESCOPE_BACKEND", raising=False)
    programs = programs_of("docs/compiler.md")
    assert len(programs) == 5
    names: dict[str, Any] = {}
    for program in programs:
        exec(compile(program, "compiler.md", "exec"), names)


def test_the_document_on_the_compiler_is_true() -> None:
    text = (ROOT / "docs" / "compiler.md").read_text()
    usual = [graph_pass for graph_pass in all_passes() if graph_pass.default]
    for item in usual:
        assert f"| `{item.name}` | {item.help} |" in text
    places = [text.index(f"| `{item.name}` |") for item in usual]
    assert places == sorted(places)
    for function, bounds in ULPS.items():
        (row,) = [line for line in text.splitlines() if f"`{function}`" in line and " ulp" in line]
        assert row.endswith("| " + " | ".join(f"{bound:g} ulp" for bound in bounds) + " |")


def test_the_first_ten_minutes_go_as_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, traced = programs_of("docs/first-ten-minutes.md")
    for program in (plain, traced):
        exec(compile(program, "fit.py", "exec"), {})
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    assert first.startswith("loss 0.")

    broken = traced.replace("lr=0.5", "lr=500")
    assert broken != traced
    (tmp_path / "fit.py").write_text(broken)
    done = subprocess.run(
        [sys.executable, "-m", "nodescope", "check", "fit.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    text = (ROOT / "docs" / "first-ten-minutes.md").read_text()
    (document,) = re.findall(r"check fit.py\n(HIT.*?\n.*?)\n", text)
    assert document in done.stdout
    assert re.search(r"next: nodescope why \S+ log_1@2", done.stdout)


def test_the_cells_of_the_notebook_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # No server can be found here.
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in programs_of("docs/notebooks.md"):
        exec(compile(cell, "notebooks.md", "exec"), names)
    assert names["run"] is None
    assert (tmp_path / "run.nscope").is_file()


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
    missing = [target for target in targets if not re.search(rf"^{target}:", makefile, re.M)]
    assert not missing


PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md"))


def links_of(document: str) -> list[tuple[str, str]]:
    """The file and the anchor (or "") of each link within the repository."""
    text = re.sub(r"```.*?```", "", (ROOT / document).read_text(), flags=re.S)
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    parts = [link.partition("#") for link in links]
    return [(path or Path(document).name, anchor) for path, _, anchor in parts]


def anchors_of(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "document",
    ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "samples/broken/README.md", *PAGES],
)
def test_links_lead_somewhere(document: str) -> None:
    folder = (ROOT / document).parent
    broken = [
        f"{path}#{anchor}"
        for path, anchor in links_of(document)
        if not folder.joinpath(path).exists()
        or (anchor and anchor not in anchors_of(folder / path))
    ]
    assert not broken


def test_the_readme_leads_to_every_page() -> None:
    linked = {path for path, _ in links_of("README.md")}
    assert not set(PAGES) - linked


def test_the_guide_leads_to_its_own_headings() -> None:
    text = (ROOT / "docs" / "engine.md").read_text()
    headings = re.findall(r"^## (.+)$", text, re.M)
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    wanted = set(re.findall(r"\]\(#([\w-]+)\)", text))
    assert wanted == anchors


def test_every_sample_is_in_the_readme() -> None:
    for sample in (ROOT / "samples").glob("*.py"):
        assert f"(samples/{sample.name})" in README


def test_every_table_of_a_recording_is_documented() -> None:
    from nodescope.record.schema import SCHEMA

    text = (ROOT / "docs" / "recording.md").read_text()
    tables = re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)", SCHEMA)
    assert len(tables) > 5
    missing = [table for table in tables if f"`{table}`" not in text]
    assert not missing


def test_the_breakpoints_of_the_guide_are_understood() -> None:
    text = (ROOT / "docs" / "debugging.md").read_text()
    (block,) = re.findall(r"```breakpoints\n(.*?)```", text, re.S)
    for line in block.strip().splitlines():
        breakpoint = parse_breakpoint(line)
        assert parse_breakpoint(describe(breakpoint)) == breakpoint


def test_the_keys_of_the_guide_are_the_page_s() -> None:
    text = (ROOT / "docs" / "debugging.md").read_text()
    commands = (ROOT / "web" / "src" / "app" / "commands.ts").read_text()
    for key in re.findall(r"^\| <kbd>(.*?)</kbd>", text, re.M):
        assert f'"{key}"' in commands, key


@pytest.mark.parametrize(
    "protocol", [Adapter, Rerun, Attachment, ArrayOps, Captured], ids=lambda kind: kind.__name__
)
def test_the_guide_of_adapters_names_every_method(protocol: type) -> None:
    guide = (ROOT / "docs" / "adapters.md").read_text()
    methods = [name for name in vars(protocol) if not name.startswith("_")]
    assert methods
    assert [name for name in methods if not re.search(rf"`[\w.]*\b{name}\b", guide)] == []


def test_the_guide_of_adapters_calls_what_there_is() -> None:
    guide = (ROOT / "docs" / "adapters.md").read_text()
    called = set(re.findall(r"emitter\.(\w+)\(", guide))
    assert len(called) > 8
    assert [name for name in called if not callable(getattr(Emitter, name, None))] == []
