"""Compiles the native core: run `python core/native/build.py`; a wheel's build calls `build_core`.

Without a compiler or Python's headers, nothing is built, and Python code computes the same.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

SOURCES = (
    "summary.c", "summary_bytes.c", "summary_float.c", "summary_wide.c", "memory.c",
    "memory_hash.c", "times.c", "outputs.c", "held.c", "noted_statistics.c", "elements.c",
    "columns.c", "calls.c", "plain.c", "polling_lock.c", "pauses.c", "thread_times.c", "pull.c",
    "rows.c", "step_times.c", "writers.c", "checksum.c", "module.c",
)  # fmt: skip
LIMITED_API = "0x030b0000"
HERE = Path(__file__).resolve().parent
TARGET = HERE.parent / "nodescope" / "native" / "_core.abi3.so"


def compiler() -> str | None:
    """The C compiler: ``CC``, or the usual ones."""
    compiler = os.environ.get("CC")
    names = [compiler] if compiler else ["cc", "gcc", "clang"]
    return next(filter(None, map(shutil.which, names)), None)


def build_core(target: Path = TARGET) -> str:
    """Compile the core into a file; return ``""``, or why it could not be compiled."""
    cc = compiler()
    if os.name != "posix" or sys.byteorder != "little":
        return "the native core is for little-endian Linux and macOS"
    if cc is None:
        return "there is no C compiler"
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / target.name
        command = [
            cc, "-O3", "-ffp-contract=off", "-fPIC", "-shared", "-fvisibility=hidden",
            "-Werror=implicit-function-declaration",  # GCC 14 and Clang 16 refuse it in any case
            *(["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []),
            f"-DPy_LIMITED_API={LIMITED_API}", f"-I{sysconfig.get_paths()['include']}",
            *(str(HERE / name) for name in SOURCES), "-o", str(made), "-lm",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            first = next((line for line in done.stderr.splitlines() if "error" in line), "")
            return first.strip() or f"{cc} failed with status {done.returncode}"
        # The file is replaced atomically: a process that has loaded the old one keeps it. Several
        # builds may run at once, one per environment, so the name of the copy is new.
        copy = target.with_suffix(f".{secrets.token_hex(4)}.new")
        try:
            shutil.copyfile(made, copy)
            copy.replace(target)
        finally:
            copy.unlink(missing_ok=True)
    return ""


if __name__ == "__main__":
    reason = build_core()
    print(f"no native core: {reason}" if reason else f"built {TARGET}")
