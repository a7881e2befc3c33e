"""The broken programs: the documented commands lead from the symptom to the culprit.

The first program's commands run in new interpreters, as a user would run them.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import depth, forked
from tests.integration.processes import environment

BROKEN = Path(__file__).resolve().parents[2] / "samples" / "broken"
README = (BROKEN / "README.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\w+\.py)\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL))
MOST_COMMANDS = 3
NAMES = sorted(path.name for path in BROKEN.glob("*.py"))
Start = Callable[..., "subprocess.CompletedProcess[str]"]


def anew(args: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """As `forked.run`, in a new interpreter."""
    return subprocess.run(args, capture_output=True, check=False, **options)


def printed(start: Start, folder: Path, command: str) -> str:
    """The output of a documented command, run as written in a folder with the programs."""
    program, *arguments = shlex.split(command)
    head = {"nodescope": [sys.executable, "-m", "nodescope"], "python": [sys.executable]}[program]
    done = start([*head, *arguments], cwd=folder, env=environment(), text=True, timeout=60)
    assert done.stderr == ""
    assert done.returncode in (0, 1)
    return done.stdout


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", depth.some(NAMES, 3))
def test_the_documented_way_leads_to_the_culprit(name: str, tmp_path: Path) -> None:
    section = SECTIONS[name]
    (tmp_path / name).write_bytes((BROKEN / name).read_bytes())
    for script in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
        (tmp_path / "what_if.py").write_text(script)
    commands = re.findall(r"^\$ (.*)$", section, re.MULTILINE)
    assert 0 < len(commands) <= MOST_COMMANDS
    start = anew if name == NAMES[0] else forked.run
    outputs = [printed(start, tmp_path, command) for command in commands]
    culprit, proof = re.findall(r"^Culprit: `(.*?)`, (.*)$", section, re.MULTILINE)[0]
    assert culprit in "".join(outputs)
    assert proof in outputs[-1]


def test_every_program_is_reported() -> None:
    assert sorted(SECTIONS) == NAMES
    assert len(SECTIONS) == 10
