"""The grammar of the command line, as a table: commands, their options and the values allowed.

Invariant: data and plain functions; importing it loads no engine.
"""

from __future__ import annotations

import argparse
import errno
import math
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from nodescope.console_output import show
from nodescope.events import LEVELS

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

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class Option(NamedTuple):
    """An option or argument of a command.

    Attributes:
        names: The names as written; a name without a dash is an argument.
        settings: As `argparse.ArgumentParser.add_argument` takes them.
    """

    names: tuple[str, ...]
    settings: dict[str, Any]


class OneOf(NamedTuple):
    """Options of which at most one may be given."""

    options: tuple[Option, ...]


class CliCommand(NamedTuple):
    """A command: its name, its description in the list of commands, and its options in order."""

    name: str
    help: str
    options: tuple[Option | OneOf, ...] = ()


def option(*names: str, **settings: Any) -> Option:
    """An option from its names and its argparse settings."""
    return Option(names, settings)


# Option values


def path(text: str) -> Path:
    """A path that the system can look up; the file may not exist.

    Raises:
        argparse.ArgumentTypeError: The system refuses the path.
    """
    try:
        os.lstat(text)
    except ValueError:
        raise argparse.ArgumentTypeError("a path cannot contain a null character") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise argparse.ArgumentTypeError(f"the path {text[:40]}... is too long") from None
    return Path(text)


def scope(text: str) -> str:
    """The path of a scope. Raises `argparse.ArgumentTypeError`."""
    if "\0" in text:
        raise argparse.ArgumentTypeError("a scope cannot contain a null character")
    return text


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


def port(text: str) -> int:
    """A port number, 0 to 65535."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number up to 65535")
    return int(text)


def natural(text: str) -> int:
    """A nonnegative integer."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer, 0 or more")
    return int(text)


def seconds(text: str) -> float:
    """A positive time in seconds."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time in seconds, more than 0")
    return value


def size(text: str) -> int:
    """A size in bytes: ``"4096"``, ``"256M"``, ``"1.5G"``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size, such as 256M or 2G")
    return int(float(match[1]) * _UNITS[match[2]])


# The table


WATCH: Final = option(
    "--watch",
    dest="watches",
    action="append",
    default=[],
    metavar="SPEC",
    help="'RULE(NAME=SETTING) on WHERE -> ACTION', or recommended: those for this program",
)

SERVING: Final = (
    option("--port", type=port, default=7711, metavar="N", help="7711; 0 picks a free one"),
    option("--no-browser", action="store_true", help="print the address and open no browser"),
)

_MODULE: Final = option(
    "-m",
    dest="module",
    action="store_true",
    help="the script is named as a module, as for python -m: -m package.train",
)

_RUN: Final = (
    option(
        "--break",
        dest="breaks",
        action="append",
        default=[],
        metavar="SPEC",
        help="NAME, node:NAME, op:OP, scope:PATH or glob:PATTERN, each with ' if CONDITION'",
    ),
    WATCH,
    option(
        "--level",
        choices=LEVELS,
        help="what is kept of each node: its structure (graph), its time (timing), statistics of "
        "its values (summary), or every element (values). Without it: every element of the last 2 "
        "training steps, of stops and of pinned nodes, and statistics of the rest while the run "
        "stays below twice its unobserved time",
    ),
    option(
        "--max-slowdown",
        type=_slowdown,
        metavar="FACTOR",
        help="keep the run below this multiple of its unobserved time, such as 1.5, by leaving "
        "training steps unobserved or recording less; --level is then the most that is kept. 2 "
        "without --level; 0 for no limit, and every element",
    ),
    option(
        "--select",
        action="append",
        default=[],
        metavar="NODES=LEVEL",
        help="another level for some nodes, named as for --break: 'scope:encoder=values'; the "
        "first match applies, and --max-slowdown does not change it",
    ),
    option(
        "--record",
        type=path,
        metavar="PATH",
        help="the recording's file; without it, a new one in .nodescope/runs",
    ),
    option(
        "--budget",
        type=size,
        metavar="SIZE",
        help="how much of full arrays is kept, the newest first, such as 2G; without it, 256M, and "
        "128M of what is kept without --level",
    ),
    option("--no-stop-on-entry", action="store_true", help="do not stop at the first node"),
    option(
        "--open",
        dest="opened",
        action="append",
        default=[],
        metavar="PATTERN",
        help="show what happens inside compiled kernels: those whose name matches, such as "
        "'*scan*', and those that cover a node whose name does",
    ),
    option("--cli", action="store_true", help="debug in this terminal, without a server or page"),
    option(
        "-x",
        dest="commands",
        type=path,
        metavar="FILE",
        help="with --cli: read debugger commands from a file, - for standard input",
    ),
    option("--no-color", action="store_true", help="with --cli: no colours"),
    option("--editor", action="store_true", help="let editors attach with nodescope dap; no page"),
    option("--dap", action="store_true", help=argparse.SUPPRESS),  # passed by nodescope dap
    option("--exit", action="store_true", help="exit when the program ends, with its status"),
    *SERVING,
    _MODULE,
    option("script", type=path, help="the Python script"),
    option("args", nargs=argparse.REMAINDER, help="the script's own arguments"),
)

_OPEN: Final = (
    option(
        "recording",
        type=path,
        nargs="?",
        help="a recording; a graph file (.onnx, .pb, .pbtxt, .dot, Model Explorer's .json, "
        ".nsgraph), which is only shown; or a program saved by torch.export (.pt2), which is run "
        "under the debugger; without it, the list of recordings",
    ),
    *SERVING,
    option(
        "--input",
        type=path,
        metavar="FILE",
        help=".pt2: its inputs, as .npz by name or as .npy; without it, those that it was saved "
        "with, or random ones",
    ),
    option(
        "--joint", action="store_true", help=".pt2: the backward pass too, from its first output"
    ),
    option("--no-run", action="store_true", help=".pt2: show the graph, and run nothing"),
    option(
        "--trust",
        action="store_true",
        help=".pt2: let PyTorch unpickle objects, which runs code of whoever wrote the file",
    ),
    *(
        entry
        for entry in _RUN
        if isinstance(entry, Option)
        and entry.names[0] in ("--break", "--record", "--no-stop-on-entry", "--cli", "-x", "--exit")
    ),
)

_RUNS: Final = (
    option("--all", action="store_true", help="include recent recordings of other folders"),
    option("-n", dest="number", type=_number, default=30, metavar="N", help="list at most N (30)"),
)

_CHECK: Final = (
    WATCH,
    option("--json", type=path, metavar="FILE", help="write the verdicts as JSON"),
    option("--junit", type=path, metavar="FILE", help="write them as JUnit XML"),
    option(
        "--strict",
        action="store_true",
        help="a watch that could not be evaluated every time is a failure, too",
    ),
    option("--keep", action="store_true", help="keep the recording of a clean run, too"),
    option("--record", type=path, metavar="PATH", help="the recording's file, which is kept"),
    option("--level", choices=LEVELS[2:], default="values", help="what is kept of each node"),
    option(
        "--budget",
        type=size,
        default=256 << 20,
        metavar="SIZE",
        help="how much of full arrays is kept, the newest first: 256M (the default)",
    ),
    _MODULE,
    option("what", type=path, help="a Python script, or a recording"),
    option("args", nargs=argparse.REMAINDER, help="the script's own arguments"),
)

_WHY: Final = (
    option("recording", type=path),
    option(
        "element",
        nargs="?",
        help="NAME, NAME[0, 3], NAME[nan], NAME[max], each with @STEP; without it, what NaN and "
        "Inf did in the first step that has any",
    ),
    option(
        "--step",
        type=int,
        metavar="N",
        help="training step; without it, the last one that computed the value",
    ),
)

_COMPARE: Final = (
    option("--level", choices=LEVELS[1:], default="values", help="what is kept of each node"),
    option(
        "--steps",
        type=_count,
        default=8,
        metavar="N",
        help="keep every element in the first N training steps, statistics in the others (8)",
    ),
    option(
        "--budget",
        type=size,
        default=256 << 20,
        metavar="SIZE",
        help="how much of full arrays is kept of each run: 256M (the default)",
    ),
    option(
        "-o",
        "--output",
        type=path,
        metavar="DIR",
        help="folder for eager.nscope and compiled.nscope",
    ),
    option(
        "--no-timing",
        action="store_true",
        help="skip the six extra unobserved runs that time both versions",
    ),
    option(
        "--exit",
        action="store_true",
        help="print the verdict and exit: status 0 if both runs do the same, 1 if not; no page",
    ),
    option("--json", type=path, metavar="FILE", help="write the verdict as JSON"),
    *SERVING,
    option("what", type=path, help="a Python script, or the eager run's recording"),
    option(
        "args",
        nargs=argparse.REMAINDER,
        help="the script's own arguments, or the compiled run's recording",
    ),
)

_DAP: Final = (
    option(
        "--port",
        type=port,
        metavar="N",
        help="listen on this port instead of standard streams; 0 picks a free one",
    ),
    option(
        "--socket",
        type=path,
        metavar="FILE",
        help="listen on a Unix socket that only this user can open",
    ),
)

_EXPORT: Final = (
    option("recording", type=path),
    option(
        "-o",
        "--output",
        type=path,
        required=True,
        metavar="FILE",
        help="its ending names the format: .svg .png .pdf .html, .dot .mmd, .json (Model "
        "Explorer), .trace.json (Perfetto, Chrome), .csv",
    ),
    option("--format", metavar="NAME", help="the format, whatever the ending"),
    option(
        "--engine", choices=("page", "dot"), default="page", help="whose layout: dot is Graphviz's"
    ),
    option("--theme", choices=("light", "dark"), default="light"),
    OneOf(
        (
            option(
                "--depth",
                type=natural,
                metavar="N",
                help="open scopes N levels deep; without it, as many as fit, as on the page",
            ),
            option("--all", action="store_true", help="open every scope"),
        )
    ),
    option(
        "--step",
        type=natural,
        metavar="N",
        help="as the graph was at the end of this training step; without it, as it was last",
    ),
    option(
        "--scope",
        type=scope,
        default="",
        metavar="PATH",
        help="only this scope, such as block_0/attention",
    ),
    option(
        "--time-limit",
        type=seconds,
        default=120.0,
        metavar="S",
        help="time limit for the layout (120)",
    ),
)

_DOCS: Final = (option("guide", nargs="?", metavar="NAME", help="such as watches; all are listed"),)

_DOCTOR: Final = (option("--port", type=port, default=7711, help=argparse.SUPPRESS),)

COMMANDS: Final = (
    CliCommand("run", "run a script under the debugger", _RUN),
    CliCommand("open", "open a recording or graph file, or run a saved program", _OPEN),
    CliCommand("runs", "list recordings", _RUNS),
    CliCommand("check", "run a script under watches, for CI", _CHECK),
    CliCommand("why", "where an element, NaN and Inf come from", _WHY),
    CliCommand("compare", "show an eager and a compiled run side by side", _COMPARE),
    CliCommand("serve", "wait for programs that call ns.attach()", SERVING),
    CliCommand("dap", "serve an editor over the Debug Adapter Protocol", _DAP),
    CliCommand("demo", "debug the bundled training program"),
    CliCommand("export", "write the graph as a picture, a table or a trace", _EXPORT),
    CliCommand("passes", "list the compiler passes and their rules"),
    CliCommand("docs", "print the guides", _DOCS),
    CliCommand("doctor", "show what is installed", _DOCTOR),
)


def parser() -> argparse.ArgumentParser:
    """The parser of `COMMANDS`."""
    top = _Parser(
        prog="nodescope",
        description="A visual debugger for computation graphs.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action=_Version, help="show the version and exit")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        parser = commands.add_parser(command.name, help=command.help, allow_abbrev=False)
        for entry in command.options:
            if isinstance(entry, OneOf):
                group = parser.add_mutually_exclusive_group()
                for choice in entry.options:
                    group.add_argument(*choice.names, **choice.settings)
                continue
            action = parser.add_argument(*entry.names, **entry.settings)
            if action.nargs == argparse.REMAINDER:
                action.required = False  # must not be reported as missing
    return top


class _Parser(argparse.ArgumentParser):
    """A parser whose messages escape terminal control sequences in the arguments that they
    repeat.
    """

    def error(self, message: str) -> NoReturn:
        """Print the error, and exit with status 2."""
        self.print_usage(sys.stderr)
        show(f"{self.prog}: error: {message}", sys.stderr)
        sys.exit(2)


class _Version(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"nodescope {version('nodescope')}")
        parser.exit()
