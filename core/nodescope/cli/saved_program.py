"""``nodescope open model.pt2``: a saved program of PyTorch, drawn and run under the debugger.

Invariant: this process loads PyTorch only once the run observes it, and nothing from the folder of
the file is imported.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

from nodescope.cli.grammar import parser
from nodescope.cli.run import run_code
from nodescope.errors import UsageError

_MODULE = "nodescope.adapters.torch.static.opening"


def open_program(options: argparse.Namespace) -> int:
    """Draw the program and, unless ``--no-run``, run it; return the exit status."""
    path: Path = options.recording.absolute()
    if not path.is_file():
        raise UsageError(f"no saved program {str(path)!r}")
    if importlib.util.find_spec("torch") is None:
        raise UsageError(
            f"{path.name} is a program of PyTorch, which is not installed",
            hint="pip install 'nodescope[torch]'",
        )
    words = ["run", "--port", str(options.port), "--level", "values"]
    words += [word for spec in options.breaks for word in ("--break", spec)]
    words += [
        flag
        for flag, option in (
            ("--no-browser", options.no_browser), ("--exit", options.exit), ("--cli", options.cli),
            ("--no-stop-on-entry", options.no_stop_on_entry or options.no_run),
        )
        if option
    ]  # fmt: skip
    if options.commands is not None:
        words += ["-x", str(options.commands)]
    if options.record is not None:
        words += ["--record", str(options.record)]
    run = parser().parse_args([*words, str(path)])
    run.spec = importlib.util.find_spec(_MODULE)
    file = None if options.input is None else str(options.input.absolute())
    code = compile(
        f"import sys, pathlib\nfrom {_MODULE} import open_program\n"
        f"sys.exit(open_program(pathlib.Path({str(path)!r}), "
        f"file={file!r} and pathlib.Path({file!r}), runs={not options.no_run}, "
        f"joint={bool(options.joint)}, trusted={bool(options.trust)}))\n",
        __file__, "exec",
    )  # fmt: skip
    return run_code(run, code, name=path.name, stem=path.stem)
