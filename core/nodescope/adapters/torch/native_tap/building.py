"""Building: compiles the native tap into the user's cache, once for each PyTorch and Python.

The module also runs as a script, without nodescope or PyTorch, to compile in the background while
the program runs.

Invariant: a library in the cache is complete, and fits the versions and sources in its digest.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

SOURCES: Final = Path(__file__).parent / "source"
NAME: Final = "nodescope_tap"
FLAGS: Final = ("-O2", "-std=c++20", "-shared", "-fPIC", "-DNDEBUG", "-fvisibility=hidden")
_KEPT: Final = 4
_LONGEST_S: Final = 1800


class Plan(NamedTuple):
    """What to compile, and where to put it.

    Attributes:
        library: The file to make.
        command: The compiler's command line without the output file.
    """

    library: str
    command: tuple[str, ...]

    @property
    def log(self) -> Path:
        """The file with the compiler's messages, if it failed."""
        return Path(self.library).with_suffix(".log")

    def distrusted(self) -> str:
        """Why the library must not be loaded, or ``""``: other users can write to its folder."""
        from nodescope.plain_files import distrusted  # not available to the script

        folder = Path(self.library).parent
        try:
            return distrusted(folder.parent, within=True) or distrusted(folder)
        except OSError as error:
            return f"the cache {folder} cannot be read: {error.strerror}"

    @property
    def is_built(self) -> bool:
        """Whether the library exists."""
        return os.path.exists(self.library)


def cache_folder() -> Path:
    """The folder for compiled libraries and kernels."""
    chosen = os.environ.get("NODESCOPE_CACHE")
    if chosen:
        return Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "nodescope"


def plan() -> Plan | str:
    """How to build the native tap for the installed PyTorch, or why that is impossible."""
    if sys.platform != "linux":
        return f"it is not available on {platform.system()}"
    if sys.implementation.name != "cpython":
        return f"it is not available for {sys.implementation.name}"
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return "PyTorch is not installed"
    torch = Path(spec.origin).parent
    try:
        version = (torch / "version.py").read_text(encoding="utf-8")  # includes the commit's hash
        sources = [path.read_text(encoding="utf-8") for path in sorted(SOURCES.iterdir())]
    except OSError as error:
        return f"a file is missing: {error.filename}"
    headers = Path(sysconfig.get_path("include"))
    include = torch / "include"
    requested = os.environ.get("CXX") or "g++"
    compiler = shutil.which(requested)
    command = (
        compiler or requested, *FLAGS, f"-I{include}", f"-I{headers}", str(SOURCES / "tap.cpp"),
        f"-L{torch / 'lib'}", "-lc10", "-ltorch_cpu", "-ltorch_python",
    )  # fmt: skip
    key = repr((version, sources, sys.version, sysconfig.get_config_var("SOABI"), FLAGS, requested))
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    made = Plan(str(cache_folder() / f"torch-tap-{digest}" / f"{NAME}.so"), command)
    if made.is_built:
        return made
    if compiler is None:
        return f"there is no C++ compiler ({requested})"
    if not (headers / "Python.h").is_file():
        return f"Python's headers are missing ({headers})"
    if not (include / "ATen" / "record_function.h").is_file():
        return f"PyTorch's headers are missing ({include})"
    return made


def build(plan: Plan, *, wait: bool = True) -> str:
    """Compile the library, unless it exists.

    Args:
        plan: What to compile.
        wait: Whether to wait for another process that is compiling it.

    Returns:
        Why there is no library, or ``""``.
    """
    library = Path(plan.library)
    try:
        library.parent.parent.mkdir(parents=True, exist_ok=True)
        library.parent.mkdir(mode=0o700, exist_ok=True)
        with open(library.with_suffix(".lock"), "a", encoding="utf-8") as lock:
            if not _locked(lock.fileno(), wait=wait):
                return "another process is compiling it"
            if not plan.is_built:
                reason = _compile(plan, library)
                if reason:
                    plan.log.write_text(reason, encoding="utf-8")
                    return reason
                plan.log.unlink(missing_ok=True)
                _forget_old(library.parent)
    except OSError as error:
        return f"it cannot be compiled: {error}"
    return ""


def _locked(file: int, *, wait: bool) -> bool:
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _compile(plan: Plan, library: Path) -> str:
    handle, made = tempfile.mkstemp(suffix=".so", dir=library.parent)
    os.close(handle)
    try:
        done = subprocess.run(
            [*plan.command, "-o", made], capture_output=True, text=True, timeout=_LONGEST_S,
            check=False,
        )  # fmt: skip
        if done.returncode:
            return f"{plan.command[0]} failed:\n{done.stderr[-4000:]}"
        os.chmod(made, 0o644)
        os.replace(made, library)
    except subprocess.TimeoutExpired:
        return f"{plan.command[0]} took more than {_LONGEST_S} s"
    finally:
        with contextlib.suppress(OSError):
            os.unlink(made)
    return ""


def _forget_old(newest: Path) -> None:
    """Remove the libraries of other versions, except the latest `_KEPT`."""
    others = [folder for folder in newest.parent.glob("torch-tap-*") if folder != newest]
    others.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
    for folder in others[_KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)


def start(plan: Plan) -> None:
    """Start building in a separate process, which is not a child of this one and may outlive it."""
    subprocess.run(
        [sys.executable, "-I", "-S", __file__, json.dumps(plan)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True, close_fds=True, check=False,
    )  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Build a plan at low priority, in a process that nobody waits for."""
    if os.fork():
        return 0
    os.nice(10)
    library, command = json.loads(arguments[0])
    return bool(build(Plan(library, tuple(command)), wait=False))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
