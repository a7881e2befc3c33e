"""``nodescope open`` and ``nodescope serve``: a server without a program of its own."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from nodescope.cli.server_process import Server
from nodescope.link.address import publish, withdraw

PROGRAM: Final = ".pt2"
"""The suffix of programs saved by PyTorch."""


def open_recording(options: argparse.Namespace) -> int:
    """Serve a recording, a graph file, or the list of all recordings, until Ctrl-C; run a saved
    program.
    """
    path: Path | None = options.recording
    if path is not None and path.suffix == PROGRAM:
        from nodescope.cli.saved_program import open_program

        return open_program(options)
    if path is None:
        return stay(Server(options.port), browser=not options.no_browser, place="#runs")
    from nodescope.cli.graph_file import as_recording

    with as_recording(path, options.record) as recording:
        return stay(Server(options.port, (recording,)), browser=not options.no_browser)


def serve(options: argparse.Namespace) -> int:
    """Wait for programs that attach, until Ctrl-C."""
    server = Server(options.port, waits=True)
    try:
        publish(server.address)
        print("nodescope: programs that call ns.attach() appear here", file=sys.stderr)
        return stay(server, browser=not options.no_browser)
    finally:
        withdraw(server.address)
        server.stop()


def stay(server: Server, *, browser: bool, place: str = "") -> int:
    """Show the page, at a place in it, until Ctrl-C; return the exit status."""
    try:
        server.show(browser=browser, place=place)
        server.wait()
        # It ends by itself only if another process ended it.
        print("nodescope: the server stopped", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        server.stop()
