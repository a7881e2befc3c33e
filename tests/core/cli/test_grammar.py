"""Every option and argument of every command with invalid values: each gives a clear message.

The options come from the parser itself, so new ones are tested too. Commands that would serve a
page or run a program are only parsed.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import nodescope as ns
from nodescope import cli
from nodescope.cli import main, read
from nodescope.cli.grammar import parser

VALUES = (
    "", " ", "-1", "0", "1", "99999999999999999999", "1e400", "-inf", "nan", "\x00", "a\x00b",
    "\udc80", "\x1b[31mred", "\u202e", "é💥", "a" * 5000, "*", "[", "(", "x if (", "nan(", "=",
    "=values", "op:", "glob:[", "re:(", "1T", "-1M", "/dev/null", "/dev/zero", "fifo", "folder",
    "empty.nscope", "noise.nscope", "loop", "none/none", "run.nscope", "\udcff.nscope", "--", "-",
)  # fmt: skip
MADE = ("run.nscope", "fifo", "folder", "empty.nscope", "noise.nscope", "loop")
READ_ONLY = ("run", "export", "open", "serve", "dap", "demo", "compare", "doctor")
GOOD = {
    "check": ["--watch", "nan", "run.nscope"],
    "why": ["run.nscope", "w/multiply"],
    "export": ["--engine", "dot", "-o", "out.dot", "run.nscope"],
    "runs": [],
    "passes": [],
    "docs": ["watches"],
    "run": ["script.py"],
    "compare": ["script.py"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    weight = ns.parameter([1.0, 2.0], name="w")
    with ns.record(folder / "run.nscope", level="values"):
        for step in ns.steps(range(2)):
            (weight * float(step)).sum()
    os.mkfifo(folder / "fifo")
    (folder / "folder").mkdir()
    (folder / "empty.nscope").touch()
    (folder / "noise.nscope").write_bytes(bytes(range(256)) * 20)
    (folder / "loop").symlink_to("loop")
    return folder


def commands() -> dict[str, argparse.ArgumentParser]:
    actions = parser()._actions
    (result,) = (action for action in actions if isinstance(action, argparse._SubParsersAction))
    return dict(result.choices)


def cases() -> Iterator[tuple[str, str]]:
    """Pairs of command and option; the option is ``""`` for a positional argument."""
    for name, command in commands().items():
        yield name, ""
        for action in command._actions:
            if action.option_strings and action.nargs != 0:
                yield name, action.option_strings[-1]


@pytest.fixture(scope="module")
def one_parser() -> Iterator[None]:
    """Share one parser: building it for each of thousands of command lines would dominate."""
    made = parser()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, "parser", lambda: made)
        yield


@pytest.mark.usefixtures("one_parser")
@pytest.mark.parametrize(("command", "option"), list(cases()))
def test_any_value_is_taken_or_refused_in_words(
    command: str,
    option: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    for value in VALUES:
        arguments = [command, *([option, value] if option else [value]), *GOOD.get(command, [])]
        if not option and command in ("check", "why"):
            arguments = [command, value]
        twice = [command, *[option, value] * 2, *GOOD.get(command, [])] if option else arguments
        for line in (arguments, twice):
            try:
                if command in READ_ONLY:
                    read(line)
                    status = 0
                else:
                    status = main(line)
            except SystemExit as leaving:
                status = int(leaving.code or 0)
            captured = capfd.readouterr()
            output = captured.out + captured.err
            assert status in (0, 1, 2), (line, status)
            for word in ("Traceback", "defect", "\x1b[31m", "\u202e"):
                assert word not in output, (line, output[:2000])
            if status == 2:
                assert captured.err.strip(), line
                assert len(captured.err) < 12_000, line
        # Remove the files that the command wrote, whatever their names.
        for path in folder.iterdir():
            if path.name not in (
                "run.nscope",
                "fifo",
                "folder",
                "empty.nscope",
                "noise.nscope",
                "loop",
            ):
                path.unlink()
