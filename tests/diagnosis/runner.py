"""Runs `nodescope check` on a program as a user would, follows its suggestions, and judges.

Invariant: at most three commands run, all with default options; the judge uses only their output
and the hits of ``--json``.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests import forked
from tests.diagnosis.case import Broken, Right
from tests.integration.processes import environment

MOST_COMMANDS: Final = 3
_TIMEOUT_S: Final = 240.0


@dataclass(frozen=True)
class Hit:
    """A hit of a watch, from ``--json``."""

    rule: str
    node: str
    line: int
    text: str

    @property
    def words(self) -> str:
        return f"{self.rule} {self.node} {self.text}"


@dataclass(frozen=True)
class Diagnosis:
    """The output of the commands on a program.

    Attributes:
        status: The exit status of the check.
        printed: The program's own output.
        hits: All hits in ``--json``.
        verdicts: The check's output, without the program's own output and clean rules.
        answers: The output of the suggested commands.
        commands: The commands, the check first.
        failed: Suggested commands that failed, with status and error.
    """

    status: int
    printed: str
    hits: tuple[Hit, ...]
    verdicts: str
    answers: tuple[str, ...]
    commands: tuple[str, ...]
    failed: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        return "\n".join((self.verdicts, *self.answers))


@dataclass(frozen=True)
class Judgement:
    """The judgement on a broken program.

    Attributes:
        found_by: The rules that found the fault; none if it was not found.
        named_by: ``check`` or ``next`` if the culprit was named there; ``aside`` if it appears
            only in the rest of an answer's list, which does not count; else ``""``.
        other: Rules with hits that are not about the fault.
        first: The first hit that the check printed.
    """

    found_by: tuple[str, ...]
    named_by: str
    other: tuple[str, ...]
    first: str

    @property
    def found(self) -> bool:
        return bool(self.found_by)

    @property
    def named(self) -> bool:
        return self.named_by in ("check", "next")


def plainly(text: str, name: str) -> str:
    """A program's output when it is not observed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(text, f"{name}.py", "exec"), {"__name__": "__main__"})
    return printed.getvalue()


def diagnose(text: str, name: str, folder: Path) -> Diagnosis:
    """Check a program, and run the suggested next commands."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "program.py"  # a name without hints
    program.write_text(text, encoding="utf-8")
    commands = [f"nodescope check --json hits.json {program.name}"]
    done = _command(commands[0], folder)
    report = folder / "hits.json"
    if done.returncode not in (0, 1) or not report.exists():
        raise AssertionError(f"{name}: status {done.returncode}: {done.stderr[-2000:]}")
    printed, verdicts = _parts(done.stdout, program.name)
    waiting = _next(done.stdout)
    answers: list[str] = []
    failed: list[str] = []
    while waiting and len(commands) < MOST_COMMANDS:
        commands.append(waiting.pop(0))
        answer = _command(commands[-1], folder)
        answers.append(answer.stdout)
        if answer.returncode or not answer.stdout.strip():
            failed.append(f"{commands[-1]}: {answer.returncode}: {answer.stderr[-300:]}")
        waiting += [line for line in _next(answers[-1]) if line not in commands]
    return Diagnosis(
        done.returncode,
        printed,
        _hits(json.loads(report.read_bytes())),
        verdicts,
        tuple(answers),
        tuple(commands),
        tuple(failed),
    )


def judge(case: Broken, broken: Diagnosis, twin: Diagnosis) -> Judgement:
    """Judge whether the fault was found, and its culprit named.

    Hits that the twin has too are not about the fault.
    """
    lines = case.line_numbers()
    about, other = [], []
    both = {(hit.rule, hit.node) for hit in twin.hits}
    for hit in broken.hits:
        placed = hit.line in lines or any(re.fullmatch(node, hit.node) for node in case.nodes)
        right = any(re.search(pattern, hit.words) for pattern in case.about)
        right |= placed and (not case.words or bool(re.search(case.words, hit.words)))
        right &= (hit.rule, hit.node) not in both
        (about if right else other).append(hit.rule)
    found_by = dict.fromkeys(about) if broken.status else {}
    return Judgement(
        tuple(found_by), _named_by(case, broken, twin, lines) if found_by else "",
        tuple(rule for rule in dict.fromkeys(other) if rule not in found_by),
        first_line(broken.verdicts),
    )  # fmt: skip


def false_alarms(diagnosis: Diagnosis) -> list[str]:
    """The first hit of each rule in a correct program, or the status if the check failed."""
    first = {hit.rule: hit for hit in reversed(diagnosis.hits)}
    alarms = [f"{hit.rule}: {hit.text}" for hit in reversed(first.values())]
    return alarms or ([f"status {diagnosis.status}"] if diagnosis.status else [])


def first_line(verdicts: str) -> str:
    """The line of the first hit in the check's output."""
    lines = verdicts.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("HIT"):
            detail = lines[number + 1].strip() if number + 1 < len(lines) else ""
            return f"{line.removeprefix('HIT').split(':')[0].split('(')[0].strip()}: {detail}"
    return ""


def run_case(case: Broken | Right, folder: Path) -> Diagnosis:
    return diagnose(case.text, case.name, folder / case.name)


def run_twin(case: Broken, folder: Path) -> Diagnosis:
    return diagnose(case.twin, case.name, folder / f"{case.name}_twin")


def _command(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program, *arguments = shlex.split(command)
    if program != "nodescope":
        raise AssertionError(f"not a command of nodescope: {command}")
    done: subprocess.CompletedProcess[Any] = forked.run(
        [sys.executable, "-m", "nodescope", *arguments], cwd=folder, env=environment(),
        stdin=subprocess.DEVNULL, text=True, timeout=_TIMEOUT_S,
    )  # fmt: skip
    return done


def _parts(output: str, program: str) -> tuple[str, str]:
    """The program's own output, and the lines about hits, without what was clean or not
    evaluated.
    """
    lines = output.splitlines()
    starts = [n for n, line in enumerate(lines) if line.startswith(f"{program} ended")]
    start = starts[-1] if starts else 0
    kept, keeps = [], True
    for line in lines[start:]:
        if not line.startswith(" "):
            keeps = not re.match(r"ok\b|-\s|recording:", line)
        if keeps:
            kept.append(line)
    return "\n".join(lines[:start]), "\n".join(kept)


def _next(output: str) -> list[str]:
    return re.findall(r"^next: (nodescope .*)$", output, re.MULTILINE)


def _hits(report: dict[str, Any]) -> tuple[Hit, ...]:
    return tuple(
        Hit(
            verdict["rule"],
            hit["node"],
            (hit["source"] or {}).get("line", 0),
            hit["text"],
        )
        for verdict in report["verdicts"]
        for hit in verdict["found"]
    )


def _named_by(case: Broken, broken: Diagnosis, twin: Diagnosis, lines: list[int]) -> str:
    if not broken.status:
        return ""
    places = [rf"(?<![\w/]){node}(?![\w/])" for node in case.nodes]
    places += [rf"\bprogram\.py:{number}(?!\d)" for number in lines]

    def says(passage: str) -> bool:
        placed = any(re.search(place, passage) for place in places)
        return placed and bool(re.search(case.words, passage))

    of_twin = {*twin.verdicts.splitlines(), *_main_passages(twin.answers)}
    if any(says(line) for line in broken.verdicts.splitlines() if line not in of_twin):
        return "check"
    if any(says(text) for text in _main_passages(broken.answers) if text not in of_twin):
        return "next"
    return "aside" if says(broken.said) else ""


def _main_passages(answers: tuple[str, ...]) -> list[str]:
    """The verdict of each answer, and the entries that it marks with a star."""
    passages = []
    for answer in answers:
        head, _, rest = answer.strip().partition("\n\n")
        passages += [head, *re.findall(r"^\*.*(?:\n {4,}.*)*", rest, re.MULTILINE)]
    return passages
