"""``nodescope doctor``: what is installed, and what is missing."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import platform
import shutil
import socket
from pathlib import Path
from typing import Final

from nodescope import api, native
from nodescope.adapters.attached import known_adapters
from nodescope.adapters.protocol import Adapter, Detailed
from nodescope.cli.server_process import has_screen

PACKAGES: Final = (
    "numpy", "msgspec", "google-re2", "fastapi", "uvicorn", "websockets", "graphviz", "mini-racer",
)  # fmt: skip
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def doctor(options: argparse.Namespace) -> int:
    """Show what is installed; the status is 1 if something required is missing."""
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
        ("native core", native.STATE),
        (f"port {options.port}", _port_state(options.port)),
    ]
    rows += _adapters()
    width = max(len(name) for name, _ in rows)
    for name, state in rows:
        print(f"{name:<{width}}  {state}")
    return 0 if complete else 1


def _adapters() -> list[tuple[str, str]]:
    """The libraries that can be observed, and for the others the reason why not."""
    faults: list[str] = []
    rows: list[tuple[str, str]] = []
    for adapter in known_adapters(faults.append):
        missing = adapter.missing()
        says = missing or f"for programs that import {_top(adapter)}"
        rows.append((f"adapter {adapter.name}", says))
        if not missing and isinstance(adapter, Detailed):
            rows += adapter.details()
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
