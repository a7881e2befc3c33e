"""Births report: how often `why` names the planted birth as the culprit.

``python -m tests.core.debug.why.births_report`` prints the share by kind of query, and every wrong
answer with its program. ``--seeds 200`` sets the number of programs, ``--first 0`` the first seed.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nodescope.debug.why import spread, why
from nodescope.debug.why.answer import Cause
from nodescope.debug.why.first_nonfinite import nonfinite_origin
from nodescope.errors import NodescopeError
from nodescope.record.recording import Recording
from tests.core.debug.why.planted_births import ASKED, Case, record

WAYS = ("element", "word", "value", "run")
"""Queries: of the element; by ``[nan]``, ``[inf]``, ``[zero]``; of a value; of the whole run."""


@dataclass(frozen=True)
class Answer:
    """One answer.

    Attributes:
        way: The kind of query.
        right: Whether the answer names the node, the element and the step.
        told: The answer's text.
    """

    way: str
    right: bool
    told: str


def _judged(case: Case, way: str, culprit: Cause) -> Answer:
    right = (
        "planted" in culprit.name.split("/") and culprit.at == case.at and culprit.step == case.step
    )
    told = f"{culprit.kind} {culprit.name} at {culprit.at} in step {culprit.step}: {culprit.words}"
    return Answer(way, right, told)


def answers(case: Case, recording: Recording) -> list[Answer]:
    """The answers to all kinds of queries that this program allows."""
    step = case.asked_step or None
    results = []
    asked: list[tuple[str, object]] = [("element", case.element), ("word", case.kind)]
    if case.kind != "zero":
        asked.append(("value", None))
    for way, index in asked:
        try:
            answer = why(recording, ASKED, index, step=step)
        except NodescopeError as error:
            results.append(Answer(way, False, f"{type(error).__name__}: {error}"))
        else:
            results.append(_judged(case, way, answer.culprit))
    if case.sure:
        results.append(_of_run(case, recording))
    return results


def _of_run(case: Case, recording: Recording) -> Answer:
    """The answer to ``nodescope why`` with only the recording."""
    origin = nonfinite_origin(recording)
    if origin is None:
        return Answer("run", False, "nothing was found")
    report = spread(recording, origin.step)
    first = report.births[0]
    right = (
        "planted" in first.node.split("/")
        and first.at == case.at
        and (origin.step, report.step) == (case.step, case.step)
        and first.fate != "healed"
        and not origin.healed
    )
    told = f"{first.fate} {first.node} at {first.at} in step {report.step}: {first.words}"
    return Answer("run", right, told)


def judged(seed: int, folder: Path) -> tuple[Case, list[Answer]]:
    """Record the program of a seed, and judge the answers to all queries."""
    path = folder / f"{seed}.nscope"
    case = record(seed, path)
    with (
        Recording.open(path) as recording,
        np.errstate(all="ignore"),
        warnings.catch_warnings(action="ignore"),
    ):
        case_answers = answers(case, recording)
    path.unlink()
    return case, case_answers


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    right: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.first, options.first + options.seeds):
            case, case_answers = judged(seed, Path(folder))
            for answer in case_answers:
                for key in (answer.way, case.form, case.kind):
                    asked[key] += 1
                    right[key] += answer.right
                if not answer.right:
                    print(f"seed {seed} ({case.form}, {case.kind}), asked by {answer.way}:")
                    print(f"    {'; '.join(case.told)}")
                    print(f"    planted at {case.at} in step {case.step}; asked {case.element}")
                    print(f"    {answer.told}")
    for key, count in asked.items():
        print(f"{key:12} {right[key]:4} of {count:4} right ({right[key] / count:.1%})")


if __name__ == "__main__":
    main()
