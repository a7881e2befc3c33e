"""The other commands: open, serve, demo, export, passes, doctor.

Invariant: they only combine what other modules do.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import platform
import shutil
import socket
import sys
from pathlib import Path
from typing import Final

from nodescope import api
from nodescope.adapters.attached import known_adapters
from nodescope.adapters.protocol import Adapter
from nodescope.cli.grammar import parser
from nodescope.cli.run import run
from nodescope.cli.server import Server, has_screen
from nodescope.errors import RecordingError
from nodescope.link.address import publish, withdraw
from nodescope.telling import say, show

PACKAGES: Final = ("numpy", "msgspec", "fastapi", "uvicorn", "websockets", "graphviz", "mini-racer")
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def open_recording(options: argparse.Namespace) -> int:
    """Serve a recording, or the list of those that there are, until Ctrl-C."""
    path: Path | None = options.recording
    if path is None:
        return stay(Server(options.port), browser=not options.no_browser, place="#runs")
    if not path.is_file():
        raise RecordingError(f"no recording {str(path)!r}")
    return stay(Server(options.port, (path.absolute(),)), browser=not options.no_browser)


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
    """Show the page, at a place of it, until Ctrl-C; the exit status."""
    try:
        server.show(browser=browser, place=place)
        server.wait()
        # It ends by itself only if someone else ended it.
        print("nodescope: the server stopped", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        server.stop()


def demo(options: argparse.Namespace) -> int:
    """Run the training program of the source tree, or tell how to get it."""
    sample = Path(__file__).resolve().parents[3] / "samples" / "digits_mlp.py"
    if sample.is_file():
        return run(parser().parse_args(["run", str(sample)]))
    print("The training program comes with the sources of nodescope: run 'make demo' there.")
    print("On a program of your own: nodescope run train.py")
    return 0


def export_recording(options: argparse.Namespace) -> int:
    """Write the graph of a recording as a picture."""
    if not options.recording.is_file():
        raise RecordingError(f"no recording {str(options.recording)!r}")
    from nodescope.export.apart import Limits, export_apart

    export_apart(
        options.recording,
        options.output,
        engine=options.engine,
        theme=options.theme,
        expand="all" if options.all else "fit" if options.depth is None else options.depth,
        scope=options.scope,
        step=options.step,
        limits=Limits(seconds=options.time_limit),
        tell=say,
    )
    show(f"wrote {options.output}")
    return 0


def passes(options: argparse.Namespace) -> int:
    """List the compiler's passes in order, each with its rules; unsafe ones are marked."""
    from nodescope.passes import all_passes

    for compiler_pass in all_passes():
        suffix = "" if compiler_pass.exact else ", not exact"
        usual = "usual" if compiler_pass.default else "if asked for"
        head = f"{compiler_pass.name} (stage {compiler_pass.stage}, {usual}{suffix})"
        print(f"{head}: {compiler_pass.help}")
        width = max((len(rule.name) for rule in compiler_pass.rules), default=0)
        for rule in compiler_pass.rules:
            print(f"  {rule.name:<{width}}  {'' if rule.exact else 'unsafe: '}{rule.help}")
    return 0


def doctor(options: argparse.Namespace) -> int:
    """Show what is installed; status 1 if something that is needed is missing."""
    rows = [("nodescope", api.version()), ("python", platform.python_version())]
    complete = True
    for name in PACKAGES:
        try:
            rows.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            complete = False
            rows.append((name, f"missing: pip install {name}"))
    server = importlib.util.find_spec("nodescope_server")
    built = any(
        (Path(place) / "_web" / "index.html").is_file()
        for place in (server.submodule_search_locations or () if server is not None else ())
    )
    complete = complete and built
    rows += [
        ("page", "built" if built else "missing: make page, or install the wheel"),
        ("browser", "opens by itself" if has_screen() else "no screen: open the link yourself"),
        ("chromium", next(filter(None, map(shutil.which, BROWSERS)), "none (only tests need it)")),
        ("dot", shutil.which("dot") or "none (only export --engine dot needs it: Graphviz)"),
        (f"port {options.port}", _port_state(options.port)),
    ]
    rows += _adapters()
    width = max(len(name) for name, _ in rows)
    for name, state in rows:
        print(f"{name:<{width}}  {state}")
    return 0 if complete else 1


def _adapters() -> list[tuple[str, str]]:
    """Which libraries can be observed, and which not, and why."""
    faults: list[str] = []
    rows = [
        (
            f"adapter {adapter.name}",
            adapter.missing() or f"for programs that import {_top(adapter)}",
        )
        for adapter in known_adapters(faults.append)
    ]
    return [*rows, *(("adapter", fault) for fault in faults)]


def _top(adapter: Adapter) -> str:
    return adapter.module.partition(".")[0]


def _port_state(port: int) -> str:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return f"taken ({error.strerror}); the next free one will be used"
    return "free"
