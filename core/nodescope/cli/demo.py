"""``nodescope demo``: the training program of the source tree, under the debugger."""

from __future__ import annotations

import argparse
from pathlib import Path

from nodescope.cli.grammar import parser
from nodescope.cli.run import run


def demo(options: argparse.Namespace) -> int:
    """Run the training program of the source tree, or print how to get it."""
    sample = Path(__file__).resolve().parents[3] / "samples" / "digits_mlp.py"
    if sample.is_file():
        return run(parser().parse_args(["run", str(sample)]))
    print("The training program comes with the sources of nodescope: run 'make demo' there.")
    print("On a program of your own: nodescope run train.py")
    return 0
