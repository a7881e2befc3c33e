"""Find or install the system programs that tests need: Chromium, Graphviz, a C compiler.

`python tests/e2e/chromium.py` prints their paths. The order for Chromium: $CHROMIUM; the system's
(tests prefer a headless one, which does half the work); the system's package manager (as root or
with passwordless sudo); Playwright's own download.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HEADLESS = "chromium-headless-shell"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# No first-run page, no background network, and no sandbox, which root cannot use in a container.
# Text is equally wide with a window and headless.
FLAGS = (
    "--no-sandbox",
    "--font-render-hinting=none",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find(*, windows: bool = False) -> str | None:
    """The path of an installed Chromium, or None; with ``windows``, of one that is not headless."""
    named = os.environ.get("CHROMIUM")
    if named:
        return named
    for name in NAMES if windows else (HEADLESS, *NAMES):
        path = shutil.which(name)
        # On Ubuntu, `chromium-browser` may be a stub that only says to install a snap.
        if path and _answers(path):
            return path
    return _playwrights_own()


def install() -> str | None:
    """Install a Chromium, trying the system's packages first. Returns its path, or None."""
    _apt("chromium")
    if executable := find():
        return executable
    subprocess.run(
        [sys.executable, "-m", "playwright", "install", "chromium"], stdout=sys.stderr, check=False
    )
    return find()


def _apt(*packages: str) -> None:
    """Install Debian packages, if this machine and user permit it."""
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if not shutil.which("apt-get") or (root and not shutil.which("sudo")):
        return
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-qq"], ["install", "-y", "-qq", *packages]):
        subprocess.run([*root, "apt-get", *command], stdout=sys.stderr, env=quiet, check=False)


def _answers(path: str) -> bool:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _playwrights_own() -> str | None:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).is_file() else None


def _compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def main() -> int:
    """Install what is missing, and print all paths."""
    if not shutil.which("dot"):
        _apt("graphviz")
    if not shutil.which("dot"):
        print(
            "No Graphviz for the tests of --engine dot: apt-get install graphviz", file=sys.stderr
        )
        return 1
    if not _compiler():
        _apt("gcc", "libc6-dev")
    if not _compiler():
        print(
            "No C compiler for the tests of the back end c (nodescope itself needs none): "
            "apt-get install gcc libc6-dev",
            file=sys.stderr,
        )
        return 1
    path = find() or install()
    if path is None:
        print(
            "No Chromium for the browser tests. Install one (apt-get install chromium) "
            "or name it: CHROMIUM=<path> make test",
            file=sys.stderr,
        )
        return 1
    print(f"The tests use {path}, {shutil.which('dot')} and {_compiler()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
