"""Runs a script and records it, without a debugger: one side of ``nodescope compare``.

    python -m nodescope.cli.recorded_script OPTIONS script.py [args]

Invariant: the script runs as under ``nodescope run``; the status is its own, or 2 with one line.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np

from nodescope import api
from nodescope.cli.outermost_calls import Logged, after_each, digest
from nodescope.cli.script import Ending, load, run_script
from nodescope.console_output import last_line, say
from nodescope.engine import dispatch_mode
from nodescope.engine.crosscheck.active import set_cross_check
from nodescope.engine.crosscheck.checker import CrossCheck
from nodescope.errors import NodescopeError
from nodescope.events import LEVELS
from nodescope.ir.differences import CallLog
from nodescope.record.rows import Timings

SEED = 0
COMPILED = "compiled"
"""The label of the run in which each call is checked."""


class Unobserved(msgspec.Struct, frozen=True):
    """Digests of the results of each function's calls in unobserved runs, in order."""

    eager: dict[str, list[int]]
    compiled: dict[str, list[int]]


def _compare(log: CallLog, unobserved: Unobserved, check: CrossCheck) -> None:
    """Report to the check which observed calls return other results than unobserved ones."""
    numbers: Counter[int] = Counter()
    for call in log.calls:
        number, name = numbers[call.function], log.functions[call.function]
        numbers[call.function] += 1
        gave = unobserved.compiled.get(name, [])
        if number < len(gave) and call.result != gave[number]:
            eager = unobserved.eager.get(name, [])[number : number + 1]
            observed_alone = eager == [gave[number]]
            check.unlike(name, call.step, number + 1, observed_alone=observed_alone)


def main(arguments: list[str] | None = None) -> int:
    """Run and record; return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except NodescopeError as error:
        say(str(error))
        return 2
    except KeyboardInterrupt:
        return 130


def _run(options: argparse.Namespace) -> int:
    script: Path = options.script
    code = load(script)
    if isinstance(code, Ending):
        return code.status
    # So that a program without its own seeds draws the same numbers in both runs.
    random.seed(SEED)
    np.random.seed(SEED)
    check = CrossCheck()
    observed = api.Run(
        options.record,
        name=f"{script.name} · {options.label}",
        argv=(str(script), *options.args),
        level=options.level,
        budget_bytes=options.budget,
        value_steps=options.steps,
        say=say,
    )
    logged = Logged(_step)
    try:
        observed.start()
        if options.label == COMPILED:
            set_cross_check(check)
        after_each(logged.took, digest)
        if options.timings is not None:
            observed.recorder.add(msgspec.json.decode(options.timings.read_bytes(), type=Timings))
        ending = run_script(code, script, options.args, observed.log)
    except BaseException as error:
        _add(check, logged.log(), options, observed)
        observed.finish(1, last_line(error))
        raise
    _add(check, logged.log(), options, observed)
    observed.finish(ending.status, ending.error)
    return ending.status


def _add(check: CrossCheck, log: CallLog, options: argparse.Namespace, observed: api.Run) -> None:
    if options.unobserved is not None and options.label == COMPILED:
        unobserved = msgspec.json.decode(options.unobserved.read_bytes(), type=Unobserved)
        _compare(log, unobserved, check)
    if log.calls:
        observed.recorder.add(log)
    checked = check.report()
    if checked.functions:  # empty for the eager run
        observed.recorder.add(checked)


def _step() -> int:
    tracer = dispatch_mode.attending()
    return 0 if tracer is None else tracer.step


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nodescope compare", allow_abbrev=False)
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--label", default="")
    parser.add_argument("--level", choices=LEVELS, default="values")
    parser.add_argument("--budget", type=int)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--timings", type=Path)
    parser.add_argument("--unobserved", type=Path)
    parser.add_argument("script", type=Path)
    parser.add_argument("args", nargs=argparse.REMAINDER)
    return parser


if __name__ == "__main__":
    sys.exit(main())
