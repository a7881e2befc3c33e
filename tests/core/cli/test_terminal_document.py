"""docs/terminal.md is correct: its session shows the real output, its table the real commands."""

from __future__ import annotations

import re
from pathlib import Path

from nodescope.cli.terminal_commands import COMMANDS
from tests.integration.processes import nodescope

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "terminal.md").read_text()


def test_the_documented_session_is_the_real_output(tmp_path):
    (program,) = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    (session,) = re.findall(r"```console\n(.*?)```", TEXT, re.S)
    commands = re.findall(r"^\(nodescope\) (.*)$", session, re.M)
    (tmp_path / "commands.txt").write_text("\n".join(commands))
    done = nodescope(tmp_path, "run", "--cli", "-x", "commands.txt", "script.py", text=program)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(session)
    assert done.stdout.startswith("w [")
    assert "nan" not in done.stdout


def test_the_table_is_the_commands():
    for item in COMMANDS:
        arguments = "`" + item.arguments.replace("|", "\\|") + "`" if item.arguments else ""
        assert f"| `{', '.join(item.names)}` | {arguments} | {item.help} |\n" in TEXT
