"""The system's C compiler: finding it, testing it, and running it.

Testing takes a compilation or two; the result is cached on disk, keyed by the program's path, time
and size and by the processor.

Invariant: nothing here changes the floating-point mode, and no shell is involved.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nodescope.errors import CompilerError

FORMAT = 1  # version of the files on disk; another number means another library
TIMEOUT_S = 60.0
_SAID = 3  # limit of lines of a compiler's message that a reason quotes

EXACT = (
    "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fwrapv",
    "-fno-strict-aliasing", "-std=gnu11", "-w", "-fPIC", "-shared", "-fvisibility=hidden",
)  # fmt: skip
"""Flags that preserve results: NaN, infinities, denormals and signed zeros are kept.

Never ``-ffast-math``: it drops NaN, and linking with it disables denormals in the thread that loads
the library, including for NumPy.
"""
_FAULT = re.compile(r"\b(error|fatal|cannot|No space left)\b")
_UNSAFE = re.compile(
    r"-(Ofast|ffast-math|funsafe-math-optimizations|ffinite-math-only|mdaz-ftz|fassociative-math"
    r"|freciprocal-math|fno-signed-zeros|fcx-limited-range)$"
)


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler that passed the self-test.

    Attributes:
        command: The program and the words that always follow it.
        version: The first line of its version output.
        flags: Its flags.
        libraries: The libraries to link.
        key: Digest of everything that a library depends on besides its source.
    """

    command: tuple[str, ...]
    version: str
    flags: tuple[str, ...]
    libraries: tuple[str, ...]
    key: str


def find(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The command that starts the compiler: NODESCOPE_CC, else CC, else cc, gcc or clang.

    Raises:
        CompilerError: There is none, or its flags make it compute inexactly.
    """
    named = environ.get("NODESCOPE_CC", "").strip()
    path = environ.get("PATH", os.defpath)
    if named:
        words = _words(named)
        program = shutil.which(words[0], path=path)
        if program is None:
            raise CompilerError(f"NODESCOPE_CC names {words[0]!r}, which is not a program")
        return (program, *words[1:])
    for candidate in (environ.get("CC", "").strip(), "cc", "gcc", "clang"):
        if candidate:
            words = _words(candidate)
            program = shutil.which(words[0], path=path)
            if program is not None:
                return (program, *words[1:])
    raise CompilerError("no C compiler on PATH", hint="install gcc or clang, or set NODESCOPE_CC")


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise CompilerError(f"the compiler's name {command!r} has no end: {error}") from None
    for word in words:
        if _UNSAFE.match(word):
            raise CompilerError(f"the compiler is called with {word}, which breaks NaN and zeros")
    return words


def processor() -> str:
    """The processor's model and features, on which code for this processor depends."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            # One read gives the first processor; all of them would take long on large machines.
            text = file.read(16384).decode("ascii", "replace")
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    fields = ("flags", "Features", "vendor_id", "cpu family", "model\t", "CPU ", "isa")
    first = text.split("\n\n")[0].splitlines()
    lines = [" ".join(line.split()) for line in first if line.startswith(fields)]
    return f"{platform.machine()}\n" + "\n".join(lines)


def fingerprint(command: tuple[str, ...], cpu: str) -> str:
    """A compiler's identity without running it: each word, its file's time and size, the processor.

    Raises:
        CompilerError: The program does not exist any more.
    """
    real = os.path.realpath(command[0])
    try:
        info = os.stat(real)
    except OSError as error:
        raise CompilerError(f"the compiler {real} cannot be read: {error.strerror}") from None
    ticks = steady_ticks()
    parts = (*command, real, info.st_mtime_ns, info.st_size, cpu, libc(), ticks, FORMAT, EXACT)
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]


def libc() -> str:
    """The C library, such as ``glibc 2.36``, or ``""``."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError, OSError):
        return ""


def vector_functions() -> int:
    """The level of libmvec in the C library: 0, 1 (glibc 2.22) or 2 (glibc 2.35)."""
    version_match = re.fullmatch(r"glibc (\d+)\.(\d+)", libc())
    if version_match is None or platform.machine() != "x86_64" or sys.maxsize < 1 << 32:
        return 0
    version = (int(version_match[1]), int(version_match[2]))
    return 2 if version >= (2, 35) else 1 if version >= (2, 22) else 0


def steady_ticks() -> bool:
    """Whether the system's clock is the processor's own counter."""
    try:
        source = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        return platform.machine() == "x86_64" and source.read_text().strip() == "tsc"
    except OSError:
        return False


def attempts(cpu: str, version: str) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Flags and libraries to try, from the fastest code to the most cautious."""
    words = set(cpu.split())
    native = ("-march=native", "-mprefer-vector-width=512") if "avx512f" in words else (
        "-march=native",)  # fmt: skip
    if "clang" not in version:
        # Scalar remainder loops, and short loops not unrolled: half the compile time at equal
        # speed.
        native = (
            *native, "--param=vect-epilogues-nomask=0", "--param=max-completely-peeled-insns=60",
        )  # fmt: skip
    if steady_ticks():
        native = (*native, "-DNS_TSC")
    level = vector_functions()
    flag_sets: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    if level:
        flag_sets.append(((*EXACT, *native, f"-DNS_LIBMVEC={level}"), ("-lmvec", "-lm")))
    flag_sets.append(((*EXACT, *native), ("-lm",)))
    flag_sets.append((EXACT, ("-lm",)))
    return flag_sets


def version_of(command: tuple[str, ...]) -> str:
    """The compiler's version and target machine. Raises `CompilerError`."""
    output = run((*command, "--version"), Path.cwd()).strip().splitlines()
    target = run((*command, "-dumpmachine"), Path.cwd()).strip()
    return f"{output[0] if output else command[0]} [{target}]"


def run(words: tuple[str, ...], folder: Path) -> str:
    """Run the compiler in a folder and return its output.

    Raises:
        CompilerError: It cannot be started, fails, or takes more than `TIMEOUT_S`.
    """
    name = os.path.basename(words[0])
    environment = {**os.environ, "LC_ALL": "C", "LANGUAGE": "C", "TMPDIR": str(folder)}
    try:
        process = subprocess.Popen(
            words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise CompilerError(f"{name} cannot be started: {error.strerror}") from None
    try:
        printed, _ = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise CompilerError(f"{name} did not finish within {TIMEOUT_S:g} s") from None
    finally:
        if process.returncode is None:  # together with its children, which also hold the pipe
            _kill(process)
    output = printed.decode("utf-8", "replace")
    if process.returncode:
        status = process.returncode
        how = f"failed with status {status}" if status > 0 else f"was ended by signal {-status}"
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        # gcc goes on to quote the source; the error is in the line before.
        faults = "; ".join(([line for line in lines if _FAULT.search(line)] or lines)[-_SAID:])
        raise CompilerError(f"{name} {how}" + (f": {faults}" if faults else ""))
    return output


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
