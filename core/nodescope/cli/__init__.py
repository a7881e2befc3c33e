"""The command line: ``nodescope COMMAND``; ``--help`` lists the commands.

Invariant: what goes wrong in nodescope or in how it was called is one line on stderr and status 2,
never a traceback of ours. The exit status of ``run`` is the program's.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from nodescope.errors import NodescopeError
from nodescope.events import LEVELS
from nodescope.telling import show

EXAMPLES = """\
examples:
  nodescope run train.py --epochs 3
  nodescope run --break 'op:log if isnan(value).any()' train.py
  nodescope run --cli train.py
  nodescope open .nodescope/runs/train.nscope
  nodescope check --junit report.xml train.py
  nodescope why run.nscope 'loss[0]@3'
  nodescope compare train.py
  nodescope export run.nscope -o graph.svg
"""

SUFFIX = ".nscope"
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if not given:
        parser().print_help(sys.stderr)
        return 2
    options = read(given)
    try:
        os.getcwd()
    except OSError:
        return _fail("the current folder no longer exists; run nodescope from another one")
    try:
        return _commands()[options.command](options)
    except NodescopeError as error:
        column = getattr(error, "column", -1)
        return _fail(f"{error}{f' (column {column + 1})' if column >= 0 else ''}")
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever reads, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def read(given: Sequence[str]) -> argparse.Namespace:
    """The options of a command line.

    ``why run.nscope --step 2 loss`` and ``check run.nscope --strict`` mean what they would with the
    options first: argparse gives up on the one, and takes the options of the other for a script's.
    """
    top = parser()
    options, more = top.parse_known_args(given)
    last = [each for each in more if not each.startswith("-")]
    if options.command == "why" and options.element is None and more == last[:1]:
        options.element = more.pop() if more else None
    if more:
        top.error(f"unrecognized arguments: {' '.join(more)}")
    if options.command in ("check", "compare") and options.args:
        place = len(given) - len(options.args)
        recording, tail = given[place - 1], given[place:]
        if recording.endswith(SUFFIX) and tail[0].startswith("-"):
            others = [each for each in tail if each.endswith(SUFFIX)]
            moved = [each for each in tail if not each.endswith(SUFFIX)]
            options = top.parse_args([*given[: place - 1], *moved, recording, *others])
            if str(options.what) != recording:
                top.error(f"{options.what} cannot follow {recording}")
    return options


def _commands() -> dict[str, Callable[[argparse.Namespace], int]]:
    # Imported here: ``nodescope --help`` needs no engine.
    from nodescope.cli import check, compare, dap, other, run, runs, why

    return {
        "run": run.run,
        "open": other.open_recording,
        "runs": runs.runs,
        "check": check.check,
        "why": why.tell,
        "compare": compare.compare,
        "dap": dap.dap,
        "serve": other.serve,
        "demo": other.demo,
        "export": other.export_recording,
        "passes": other.passes,
        "doctor": other.doctor,
    }


def _fail(message: str) -> int:
    show(f"nodescope: {message}", sys.stderr)
    return 2


def parser() -> argparse.ArgumentParser:
    """The grammar of the command line."""
    top = argparse.ArgumentParser(
        prog="nodescope",
        description="A visual debugger for computation graphs.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action=_Version, help="show the version and exit")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run a script under the debugger", allow_abbrev=False)
    run.add_argument(
        "--break",
        dest="breaks",
        action="append",
        default=[],
        metavar="SPEC",
        help="NAME, node:NAME, op:OP, scope:PATH or glob:PATTERN, each with ' if CONDITION'",
    )
    _watching(run)
    run.add_argument(
        "--level",
        choices=LEVELS,
        help="what is kept of each node: its structure (graph), its time (timing), statistics of "
        "its values (summary), or every element (values); without it, statistics of all and every "
        "element of the last 2 training steps, of where the program stops and of what is pinned, "
        "below twice the time unobserved",
    )
    run.add_argument(
        "--max-slowdown",
        type=_slowdown,
        metavar="FACTOR",
        help="keep the run below this multiple of its unobserved time, such as 1.5, by recording "
        "less of what costs most; --level is then the most that is kept. 2 without --level; 0 for "
        "no limit, and every element",
    )
    run.add_argument(
        "--select",
        action="append",
        default=[],
        metavar="NODES=LEVEL",
        help="another level for some nodes, named as for --break: 'scope:encoder=values'; the "
        "first that fits counts, and --max-slowdown leaves it alone",
    )
    run.add_argument(
        "--record",
        type=Path,
        metavar="PATH",
        help="the recording's file; without it, a new one in .nodescope/runs",
    )
    run.add_argument(
        "--budget",
        type=size,
        default=256 << 20,
        metavar="SIZE",
        help="how much of full arrays is kept, the newest first: 256M (the default), 2G",
    )
    run.add_argument(
        "--no-stop-on-entry", action="store_true", help="do not stop at the first node"
    )
    run.add_argument(
        "--open",
        dest="opened",
        action="append",
        default=[],
        metavar="PATTERN",
        help="show what happens inside compiled kernels: those whose name matches, such as "
        "'*scan*', and those that cover a node whose name does",
    )
    run.add_argument(
        "--cli", action="store_true", help="debug in this terminal, without a server or page"
    )
    run.add_argument(
        "-x",
        dest="commands",
        type=Path,
        metavar="FILE",
        help="with --cli: read debugger commands from a file, - for standard input",
    )
    run.add_argument("--no-color", action="store_true", help="with --cli: no colours")
    run.add_argument(
        "--editor", action="store_true", help="let editors attach with nodescope dap; no page"
    )
    run.add_argument("--dap", action="store_true", help=argparse.SUPPRESS)  # by nodescope dap
    run.add_argument(
        "--exit", action="store_true", help="exit when the program ends, with its status"
    )
    _serving(run)
    run.add_argument("script", type=Path, help="the Python script")
    rest = run.add_argument("args", nargs=argparse.REMAINDER, help="the script's own arguments")
    rest.required = False  # is not named as missing

    opening = commands.add_parser("open", help="open a recording", allow_abbrev=False)
    opening.add_argument(
        "recording", type=Path, nargs="?", help="without it, the list of recordings"
    )
    _serving(opening)

    listing = commands.add_parser("runs", help="list recordings", allow_abbrev=False)
    listing.add_argument(
        "--all", action="store_true", help="include recent recordings of other folders"
    )
    listing.add_argument(
        "-n",
        dest="number",
        type=_number,
        default=30,
        metavar="N",
        help="list at most N (30)",
    )

    _checking(
        commands.add_parser("check", help="run a script under watches, for CI", allow_abbrev=False)
    )
    _asking(
        commands.add_parser(
            "why", help="where an element, NaN and Inf come from", allow_abbrev=False
        )
    )

    _comparing(
        commands.add_parser(
            "compare", help="show an eager and a compiled run side by side", allow_abbrev=False
        )
    )

    serve = commands.add_parser(
        "serve", help="wait for programs that call ns.attach()", allow_abbrev=False
    )
    _serving(serve)

    adapter = commands.add_parser(
        "dap", help="serve an editor over the Debug Adapter Protocol", allow_abbrev=False
    )
    adapter.add_argument(
        "--port",
        type=port,
        metavar="N",
        help="listen on this port instead of standard streams; 0 picks a free one",
    )
    adapter.add_argument(
        "--socket",
        type=Path,
        metavar="FILE",
        help="listen on a Unix socket that only this user can open",
    )

    commands.add_parser("demo", help="debug the bundled training program", allow_abbrev=False)

    export = commands.add_parser("export", help="write the graph as SVG or DOT", allow_abbrev=False)
    export.add_argument("recording", type=Path)
    export.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    export.add_argument(
        "--engine", choices=("page", "dot"), default="page", help="whose layout: dot is Graphviz's"
    )
    export.add_argument("--theme", choices=("light", "dark"), default="light")
    much = export.add_mutually_exclusive_group()
    much.add_argument(
        "--depth",
        type=natural,
        metavar="N",
        help="open scopes N levels deep; without it, as many as fit, as on the page",
    )
    much.add_argument("--all", action="store_true", help="open every scope")
    export.add_argument(
        "--scope", default="", metavar="PATH", help="only this scope, such as block_0/attention"
    )
    export.add_argument(
        "--time-limit",
        type=seconds,
        default=120.0,
        metavar="S",
        help="time limit for the layout (120)",
    )

    commands.add_parser(
        "passes", help="list the compiler passes and their rules", allow_abbrev=False
    )
    doctor = commands.add_parser("doctor", help="show what is installed", allow_abbrev=False)
    doctor.add_argument("--port", type=port, default=7711, help=argparse.SUPPRESS)
    return top


def _watching(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--watch",
        dest="watches",
        action="append",
        default=[],
        metavar="SPEC",
        help="'RULE(NAME=SETTING) on WHERE -> ACTION', or recommended: those for this program",
    )


def _checking(command: argparse.ArgumentParser) -> None:
    _watching(command)
    command.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts as JSON")
    command.add_argument("--junit", type=Path, metavar="FILE", help="write them as JUnit XML")
    command.add_argument(
        "--strict",
        action="store_true",
        help="a watch that could not be evaluated every time is a failure, too",
    )
    command.add_argument(
        "--keep", action="store_true", help="keep the recording of a clean run, too"
    )
    command.add_argument(
        "--record", type=Path, metavar="PATH", help="the recording's file, which is kept"
    )
    command.add_argument(
        "--level", choices=LEVELS[2:], default="values", help="what is kept of each node"
    )
    command.add_argument(
        "--budget",
        type=size,
        default=256 << 20,
        metavar="SIZE",
        help="how much of full arrays is kept, the newest first: 256M (the default)",
    )
    command.add_argument("what", type=Path, help="a Python script, or a recording")
    rest = command.add_argument("args", nargs=argparse.REMAINDER, help="the script's own arguments")
    rest.required = False  # is not named as missing


def _asking(command: argparse.ArgumentParser) -> None:
    command.add_argument("recording", type=Path)
    command.add_argument(
        "element",
        nargs="?",
        help="NAME, NAME[0, 3], NAME[nan], NAME[max], each with @STEP; without it, what NaN and "
        "Inf did in the first step that has any",
    )
    command.add_argument(
        "--step",
        type=int,
        metavar="N",
        help="training step; without it, the last one that computed the value",
    )


def _comparing(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--level", choices=LEVELS[1:], default="values", help="what is kept of each node"
    )
    command.add_argument(
        "--steps",
        type=_count,
        default=8,
        metavar="N",
        help="keep every element in the first N training steps, statistics in the others (8)",
    )
    command.add_argument(
        "--budget",
        type=size,
        default=256 << 20,
        metavar="SIZE",
        help="how much of full arrays is kept of each run: 256M (the default)",
    )
    command.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="folder for eager.nscope and compiled.nscope",
    )
    command.add_argument(
        "--no-timing",
        action="store_true",
        help="skip the six extra unobserved runs that time both versions",
    )
    _serving(command)
    command.add_argument("what", type=Path, help="a Python script, or the eager run's recording")
    rest = command.add_argument(
        "args",
        nargs=argparse.REMAINDER,
        help="the script's own arguments, or the compiled run's recording",
    )
    rest.required = False  # is not named as missing


def _number(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of recordings: 1 or more")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of steps: 1 or more")
    return int(text)


def _slowdown(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = -1.0
    if factor != 0 and not 1 < factor < float("inf"):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a slowdown: a number above 1, or 0 for no limit"
        )
    return factor


def _serving(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--port", type=port, default=7711, metavar="N", help="7711; 0 picks a free one"
    )
    command.add_argument(
        "--no-browser", action="store_true", help="print the address and open no browser"
    )


def port(text: str) -> int:
    """A port number, 0 to 65535."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number up to 65535")
    return int(text)


def natural(text: str) -> int:
    """A whole number from 0 up."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 up")
    return int(text)


def seconds(text: str) -> float:
    """A time in seconds, more than 0."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time in seconds, more than 0")
    return found


def size(text: str) -> int:
    """Bytes: ``"4096"``, ``"256M"``, ``"1.5G"``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size, such as 256M or 2G")
    return int(float(found[1]) * _UNITS[found[2]])


class _Version(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"nodescope {version('nodescope')}")
        parser.exit()
