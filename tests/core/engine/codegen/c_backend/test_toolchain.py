"""Finding a compiler, building and loading, with real failures."""

from __future__ import annotations

import ctypes
import json
import os
import re
import select
import shutil
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodescope.engine.codegen.c_backend import cache as caches
from nodescope.engine.codegen.c_backend import compiler as compilers
from nodescope.engine.codegen.c_backend import toolchain
from nodescope.engine.codegen.c_backend.prelude import complete
from nodescope.errors import CompilerError

REAL = shutil.which("cc") or "cc"
SOURCE = "NS_EXPORT i64 answer(i64 x) { return x * 2 + %d; }\n"


def source(number: int = 1) -> str:
    return complete(SOURCE % number)


def answer(library: toolchain.Library, x: int = 20) -> int:
    result = library.function("answer", ctypes.c_int64, result=ctypes.c_int64)(x)
    assert isinstance(result, int)
    return result


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A separate cache, with no compiler detected yet."""
    monkeypatch.setenv("NODESCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("NODESCOPE_CC", raising=False)
    monkeypatch.delenv("CC", raising=False)
    toolchain.forget()
    yield tmp_path / "cache" / "c"
    toolchain.forget()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Puts a shell script in the compiler's place; ``$out`` is what ``-o`` names."""

    def make(body: str) -> None:
        path = tmp_path / "fakecc"
        path.write_text(
            "#!/bin/sh\n"
            'case "$1" in --version|-dumpmachine) echo fake 1.0; exit 0;; esac\n'
            'for each in "$@"; do [ "$last" = -o ] && out="$each"; last="$each"; done\n' + body
        )
        path.chmod(0o755)
        monkeypatch.setenv("NODESCOPE_CC", str(path))

    return make


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a separate process, with this one's cache."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=100,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )  # fmt: skip


# What works


def test_a_source_is_built_once_and_then_found() -> None:
    first = toolchain.build(source())
    assert (answer(first), first.from_cache) == (41, False)
    assert toolchain.build(source()) is first
    toolchain.forget()
    again = toolchain.build(source())
    assert (answer(again), again.from_cache) == (41, True)
    assert toolchain.unavailable() == ""


def test_other_sources_flags_and_threads_are_other_libraries() -> None:
    built = [toolchain.build(source(1)), toolchain.build(source(2)),
             toolchain.build(source(1), openmp=True)]  # fmt: skip
    assert [answer(item) for item in built] == [41, 42, 41]
    assert len({item.path for item in built}) == 3


def test_a_known_compiler_is_not_run_again(cache: Path) -> None:
    assert toolchain.unavailable() == ""
    toolchain.build(source())
    (note,) = cache.glob("*.json")
    note_fields = json.loads(note.read_text())
    note_fields["version"] = "as it stands in the note"
    note.write_text(json.dumps(note_fields))
    toolchain.forget()
    assert toolchain.compiler().version == "as it stands in the note"
    assert toolchain.build(source()).from_cache
    note.write_text("{")  # A truncated note is ignored.
    toolchain.forget()
    assert toolchain.compiler().version != "as it stands in the note"


def test_flags_keep_every_result() -> None:
    flags = toolchain.compiler().flags
    for item in ("-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fwrapv"):
        assert item in flags
    assert not [flag for flag in flags if "fast" in flag or "unsafe" in flag]
    wide = any("512" in flag for flag in flags)
    assert wide == ("avx512f" in compilers.processor().split() and "-march=native" in flags)


def test_denormals_and_the_mode_of_the_processor_stay_as_they_were() -> None:
    mode = toolchain.build(
        complete(
            "NS_EXPORT u32 mode(void) {\n#ifdef __SSE__\n return __builtin_ia32_stmxcsr() & 0xffc0;"
            "\n#else\n return 0;\n#endif\n}\n"
        )
    ).function("mode", result=ctypes.c_uint32)
    before = mode()
    kernel = toolchain.build(
        complete(
            "NS_EXPORT void run(f32 *x, i64 n) {"
            " for (i64 i = 0; i < n; i++) x[i] = ns_exp_f32(ns_sin_f32(x[i])) * x[i]; }\n"
        )
    )
    x = np.full(37, 1e-40, np.float32)
    kernel.function("run", ctypes.c_void_p, ctypes.c_int64)(x.ctypes.data, x.size)
    assert np.array_equal(x, np.full(37, 1e-40, np.float32))
    assert mode() == before
    assert np.float32(1e-40) * np.float32(1) != 0


def test_threads_wait_for_one_compilation() -> None:
    results: list[toolchain.Library] = []
    threads = [
        threading.Thread(target=lambda: results.append(toolchain.build(source(7))))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert len({id(item) for item in results}) == 1


BUILD = """
    import ctypes, sys, threading
    from nodescope.engine.codegen.c_backend import toolchain
    from nodescope.engine.codegen.c_backend.prelude import complete
    said = []
    for number in map(int, sys.stdin.readline().split()):
        text = complete("NS_EXPORT i64 answer(i64 x) { return x * 2 + %d; }\\n" % number)
        library = toolchain.build(text)
        run = library.function("answer", ctypes.c_int64, result=ctypes.c_int64)
        said.append(run(100) - 200)
    print(*said)
"""


@pytest.mark.deep
def test_processes_build_the_same_and_other_sources_at_once(cache: Path) -> None:
    wanted = ["1 2 3", "1 2 3", "3 2 1", "1 4 5", "6 7 1", "1 2 3"]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(BUILD)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for _ in wanted
    ]  # fmt: skip
    # All processes are running before the first one builds.
    for process, numbers in zip(processes, wanted, strict=True):
        assert process.stdin is not None
        process.stdin.write(numbers + "\n")
        process.stdin.close()
        process.stdin = None
    for process, numbers in zip(processes, wanted, strict=True):
        out, err = process.communicate(timeout=100)
        assert (out.strip(), err) == (numbers, "")
    names = [path.name for path in cache.iterdir()]
    assert len([name for name in names if name.endswith(".so")]) == 8  # 7 and the self-test.
    assert not [name for name in names if name.endswith(".tmp") or name.startswith(".build")]


# What is damaged


@pytest.mark.one_in(3)
@pytest.mark.parametrize("damage", ["truncated", "empty", "flipped", "no sum", "other's"])
def test_a_damaged_library_is_built_again(damage: str, cache: Path) -> None:
    library = toolchain.build(source())
    other = toolchain.build(source(2))
    content = library.path.read_bytes()
    checksum = library.path.with_suffix(".sum")
    if damage == "no sum":
        checksum.unlink()
    elif damage == "other's":  # A valid library, but of another source.
        library.path.unlink()
        shutil.copyfile(other.path, library.path)
        shutil.copyfile(other.path.with_suffix(".sum"), checksum)
    else:
        worse = {"truncated": content[:999], "empty": b"",
                 "flipped": content[:500] + bytes([content[500] ^ 1]) + content[501:]}  # fmt: skip
        library.path.unlink()  # Write a new file: the old one is loaded and mapped into memory.
        library.path.write_bytes(worse[damage])
    if damage == "other's":
        result = python(BUILD.replace("sys.stdin.readline()", "'1'"))
        assert (result.stdout.strip(), result.stderr) == ("1", "")
    else:
        toolchain.forget()
        again = toolchain.build(source())
        assert (answer(again), again.from_cache) == (41, False)
    assert library.path.read_bytes() == content  # The same source compiles to the same bytes.


def test_the_oldest_libraries_go_first_and_those_in_use_stay(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, reason = caches.opened(cache)
    assert kept is not None, reason
    now = time.time()
    for i in range(6):
        path = kept.publish(f"k{i}", b"x" * 1000)
        os.utime(path, (now - 1000 * i, now - 1000 * i))
    (cache / ".left.tmp").write_bytes(b"")
    os.utime(cache / ".left.tmp", (now - 9e5, now - 9e5))
    monkeypatch.setattr(caches, "MOST_BYTES", 3500)
    assert kept.evict(now) == 3
    assert sorted(p.stem for p in cache.glob("*.so")) == ["k0", "k1", "k2"]
    # Their checksums stay too; the file that a dead process left is gone.
    assert len(list(cache.iterdir())) == 6
    monkeypatch.setattr(caches, "MOST_BYTES", 0)
    assert kept.evict(now) == 2
    assert [p.stem for p in cache.glob("*.so")] == ["k0"]  # Used a moment ago.
    assert kept.find("k0") is not None


# What is missing or broken


def unusable() -> str:
    reason = toolchain.unavailable()
    assert reason
    assert "\n" not in reason
    with pytest.raises(CompilerError):
        toolchain.build(source())
    return reason


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no C compiler on PATH" in unusable()


def test_a_compiler_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODESCOPE_CC", "no-such-compiler")
    assert "'no-such-compiler'" in unusable()


@pytest.mark.parametrize("flag", ["-ffast-math", "-Ofast", "-funsafe-math-optimizations"])
def test_a_compiler_with_inexact_flags(flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODESCOPE_CC", f"{REAL} {flag}")
    assert flag in unusable()


def test_a_compiler_that_fails(fake: Callable[[str], None]) -> None:
    fake("echo one; echo two >&2; echo three; echo 'fatal: no licence' >&2; exit 3")
    reason = unusable()
    assert "status 3" in reason
    assert "no licence" in reason
    assert "one;" not in reason  # The reason quotes the last lines only.


@pytest.mark.deep
def test_a_compiler_that_hangs(
    fake: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Long enough for the compiler to start on a busy machine.
    monkeypatch.setattr(compilers, "TIMEOUT_S", 3)
    fake(f"sleep 1000 & echo $! > {tmp_path}/child; wait")
    start = time.monotonic()
    assert "did not finish within 3 s" in unusable()
    assert time.monotonic() - start < 60
    child = int((tmp_path / "child").read_text())
    try:  # The compiler's child is killed too.
        handle = os.pidfd_open(child)
    except ProcessLookupError:
        return
    with os.fdopen(handle):
        assert select.select([handle], [], [], 60)[0]


def test_a_compiler_that_writes_garbage(fake: Callable[[str], None]) -> None:
    fake('echo rubbish > "$out"')
    assert "cannot be loaded" in unusable()


def test_a_compiler_that_writes_nothing(fake: Callable[[str], None]) -> None:
    fake("exit 0")
    assert "made no library" in unusable()


def test_a_compiler_that_gives_something_else(fake: Callable[[str], None], tmp_path: Path) -> None:
    other = toolchain.build(source()).path
    shutil.copyfile(other, tmp_path / "other.so")
    fake(f'cp {tmp_path}/other.so "$out"')
    assert "does not match its source" in unusable()


def test_a_compiler_that_computes_wrongly(fake: Callable[[str], None]) -> None:
    fake(f"sed -i 's/a [*] 0.5f/a * 0.25f/' kernel.c; exec {REAL} \"$@\"")
    assert "computes wrong results" in unusable()


def test_a_compiler_that_turns_off_denormals() -> None:
    # Use a new process: floating-point modes would otherwise affect later tests.
    result = python(
        f"""
        import os, pathlib, numpy as np
        path = pathlib.Path(os.environ["NODESCOPE_CACHE"] + "-fast")
        path.write_text('#!/bin/sh\\nexec {REAL} "$@" -ffast-math\\n')
        path.chmod(0o755)
        os.environ["NODESCOPE_CC"] = str(path)
        from nodescope.engine.codegen.c_backend import toolchain
        print(toolchain.unavailable())
        print(np.float32(1e-40) * np.float32(1) != 0)
        """
    )
    reason, denormals = result.stdout.splitlines()
    assert re.search("denormals|wrong", reason), result.stderr
    assert denormals == "True"


def test_a_source_that_is_not_c() -> None:
    assert toolchain.unavailable() == ""
    with pytest.raises(CompilerError, match=r"failed with status 1: .*error"):
        toolchain.build("this is not C;\n")
    # The error is in this source, so the compiler stays available.
    assert toolchain.unavailable() == ""


def test_a_name_that_the_library_lacks() -> None:
    with pytest.raises(CompilerError, match="has no question"):
        toolchain.build(source()).address("question")


# Where nothing can be written


def privately(reason: str) -> None:
    """It goes on in a private folder, and says so once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        library = toolchain.build(source())
        other = toolchain.build(source(2))
    assert (answer(library), answer(other)) == (41, 42)
    assert len(caught) == 1
    assert re.search(reason, str(caught[0].message)), caught[0]
    assert caught[0].filename == __file__
    folder = library.path.parent
    assert folder.stat().st_mode & 0o777 == 0o700
    toolchain.forget()
    assert not folder.exists()


def test_a_file_in_the_place_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NODESCOPE_CACHE", str(tmp_path / "file"))
    privately("cannot be written: (File exists|Not a directory)")


def test_a_cache_that_others_can_write(cache: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    privately("can be written by others")


def test_a_cache_that_cannot_be_written(cache: Path) -> None:
    cache.mkdir(parents=True)
    if os.geteuid():
        cache.chmod(0o500)
        privately("cannot be written")
    else:  # Root can write everywhere, but must not trust another user's files.
        os.chown(cache, 12345, -1)
        privately("belongs to another user")


def test_a_full_disk() -> None:
    # Files written by this process and by the compiler must be empty.
    result = python(
        """
        import resource
        from nodescope.engine.codegen.c_backend import toolchain
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        print(toolchain.unavailable())
        """
    )
    assert re.search("File too large|No space", result.stdout), result
    assert result.returncode == 0


def test_a_full_folder_of_temporary_files(fake: Callable[[str], None]) -> None:
    # Print what gcc prints in this case, including the lines that quote the source.
    fake(
        'case "$PWD" in */cache/c/*) ;; *) echo "kernel.c: fatal error: k.o: No space left" >&2\n'
        f'echo "22 | int x" >&2; echo "compilation terminated" >&2; exit 1;; esac\nexec {REAL} "$@"'
    )
    assert answer(toolchain.build(source())) == 41


def test_a_cache_that_is_full(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # /dev/full rejects every byte: a real write fails with ENOSPC in place of the temporary file.
    assert toolchain.unavailable() == ""

    def full(**_: Any) -> tuple[int, str]:
        (cache / "full.tmp").write_text("")
        return os.open("/dev/full", os.O_WRONLY), str(cache / "full.tmp")

    with monkeypatch.context() as patch:
        real = caches.tempfile.mkstemp
        patch.setattr(
            caches.tempfile, "mkstemp",
            lambda **arguments: full() if arguments["dir"] == cache else real(**arguments),
        )  # fmt: skip
        privately("No space left on device")
    assert not (cache / "full.tmp").exists()


def test_reasons_are_reported_once_each(recwarn: pytest.WarningsRecorder) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for reason in ("first", "second", "first"):
            toolchain.warn_once(reason)
    assert [str(item.message) for item in recwarn] == ["first", "second"]


def test_a_forked_child_leaves_what_is_its_parents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    result = python(
        f"""
        import os, warnings
        warnings.simplefilter("ignore")
        {
            textwrap.indent(
                textwrap.dedent(BUILD.replace("sys.stdin.readline()", "'1'")), " " * 8
            ).strip()
        }
        child = os.fork()
        if not child:
            second = toolchain.build(text.replace("+ 1", "+ 2"))
            raise SystemExit(0 if second.path.parent != library.path.parent else 1)
        print(os.waitpid(child, 0)[1], library.path.exists())
        """,
        NODESCOPE_CACHE=str(tmp_path / "file"),
    )
    assert result.stdout.split() == ["1", "0", "True"], result.stderr


# Stamps


def test_stamps_are_of_the_clock_of_perf_counter() -> None:
    run = toolchain.build(
        complete(
            "NS_EXPORT void run(i64 *r, i64 n) {"
            " for (i64 i = 0; i < n; i++) r[i] = ns_stamp(); ns_settle(r, n); }\n"
        )
    ).function("run", ctypes.c_void_p, ctypes.c_int64)
    stamps = np.zeros(1000, np.int64)
    address = stamps.ctypes.data
    for _ in range(5):
        begin = time.perf_counter_ns()
        run(address, stamps.size)
        end = time.perf_counter_ns()
        assert np.all(np.diff(stamps) >= 0)
        # The clocks are read one after the other, so allow 2 µs.
        assert begin - 2000 <= stamps[0]
        assert stamps[-1] <= end + 2000
