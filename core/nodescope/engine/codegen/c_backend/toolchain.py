"""From C source to a loaded library: built once, then found on disk.

Invariant: a loaded library was built from this very source by a compiler that passed the self-test;
every fault is a `CompilerError` of one sentence, and the other back ends keep working.
"""

from __future__ import annotations

import _ctypes
import atexit
import concurrent.futures
import ctypes
import hashlib
import json
import os
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nodescope.emit.frames import user_source
from nodescope.engine.codegen.c_backend import cache as caches
from nodescope.engine.codegen.c_backend import compiler as compilers
from nodescope.engine.codegen.c_backend import selftest
from nodescope.engine.codegen.c_backend.cache import Cache
from nodescope.engine.codegen.c_backend.compiler import Compiler
from nodescope.errors import CompilerError
from nodescope.plain_files import read_plain

_MOST_NOTE = 1 << 20
_STAMP = "ns_built_from"


@dataclass(frozen=True, slots=True)
class Library:
    """A loaded library.

    Attributes:
        path: Its file.
        from_cache: Whether it was in the cache; otherwise it was compiled now.
        seconds: Time for building, or for finding and loading.
        handle: The ctypes handle.
    """

    path: Path
    from_cache: bool
    seconds: float
    handle: ctypes.CDLL

    def address(self, name: str) -> int:
        """The address of a function or variable. Raises `CompilerError` if it does not exist."""
        try:
            symbol = getattr(self.handle, name)
        except AttributeError:
            raise CompilerError(f"the compiled library has no {name}") from None
        address = ctypes.cast(symbol, ctypes.c_void_p).value
        assert address is not None
        return address

    def function(
        self, name: str, *arguments: Any, result: Any = None, locked: bool = False
    ) -> Callable[..., Any]:
        """A function to call.

        Args:
            name: Its name in C.
            arguments: ctypes types of its parameters.
            result: The ctypes type of its result, None for void.
            locked: Whether to keep the interpreter lock during the call: right for functions that
                take microseconds or read Python objects. Otherwise other threads may run.
        """
        kind = ctypes.PYFUNCTYPE if locked else ctypes.CFUNCTYPE
        return kind(result, *arguments)(self.address(name))


class _State:
    """This process's state; a forked child gets a new one, with its own private folder."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.building: dict[str, threading.Lock] = {}
        self.compilers: dict[tuple[Any, ...], Compiler | CompilerError] = {}
        self.caches: dict[Path, Cache] = {}
        self.libraries: dict[str, Library] = {}
        self.private: Cache | None = None
        self.said: set[str] = set()


_state = _State()


def unavailable() -> str:
    """Why C is unavailable here, or ``""``. The first answer on a machine takes 0.3 s."""
    try:
        compiler()
    except CompilerError as error:
        return str(error)
    return ""


def compiler() -> Compiler:
    """The tested compiler. Raises `CompilerError`."""
    names = ("NODESCOPE_CC", "CC", "PATH", "NODESCOPE_CACHE", "XDG_CACHE_HOME", "HOME")
    key = tuple(os.environ.get(name) for name in names)
    with _state.lock:
        known = _state.compilers.get(key)
        if known is None:
            try:
                known = _compiler()
            except CompilerError as error:
                known = error
            _state.compilers[key] = known
    if isinstance(known, CompilerError):
        raise CompilerError(known.message, hint=known.hint)
    return known


def build(source: str, *, openmp: bool = False) -> Library:
    """The library of a source text.

    Args:
        source: Complete C text, which itself declares the visible functions.
        openmp: Whether ``#pragma omp parallel`` is enabled; ``omp simd`` always is.

    Raises:
        CompilerError: No compiler works, it refuses the text, or nothing can be written.
    """
    start = time.perf_counter()
    tool = compiler()
    key = _key(source, tool, openmp)
    library = _state.libraries.get(key)
    if library is not None:
        return library
    with _state.lock:
        lock = _state.building.setdefault(key, threading.Lock())
    with lock:
        library = _state.libraries.get(key)
        if library is None:
            library = _state.libraries[key] = _find_or_build(source, tool, openmp, key, start)
    return library


def build_all(sources: Sequence[str]) -> tuple[Library, ...]:
    """The libraries of several texts, compiled in parallel. Raises `CompilerError`."""
    if sum(not present(source) for source in sources) < 2:
        return tuple([build(source) for source in sources])
    with concurrent.futures.ThreadPoolExecutor(len(sources)) as pool:
        return tuple(pool.map(build, sources))


def present(source: str) -> bool:
    """Whether the library of a source text appears to exist. Raises `CompilerError`."""
    key = _key(source, compiler(), False)
    return key in _state.libraries or _cache().path(key).exists()


def folder() -> Path:
    """The folder for libraries. Raises `CompilerError` if none is possible."""
    return _cache().folder


def note(path: Path, content: bytes) -> None:
    """Store a file beside the libraries, if possible; otherwise it is made again."""
    try:
        _cache().write(path, content)
    except (OSError, CompilerError):
        pass


def warn_once(reason: str) -> None:
    """Warn at the user's line why C is not used: once per process for each reason."""
    with _state.lock:
        if reason in _state.said:
            return
        _state.said.add(reason)
    at = user_source()
    if at is None:
        warnings.warn(reason, UserWarning, stacklevel=2)
    else:
        warnings.warn_explicit(reason, UserWarning, at.file, at.line)


def forget() -> None:
    """Forget the state of this process, for tests; loaded libraries stay loaded."""
    global _state
    _leave(_state)
    _state = _State()


# Testing the compiler


def _compiler() -> Compiler:
    command = compilers.find(os.environ)
    cpu = compilers.processor()
    name = compilers.fingerprint(command, cpu)
    home = _cache()
    note = home.folder / f"{name}.json"
    try:
        note_of_compiler = json.loads(read_plain(note, _MOST_NOTE))
        return Compiler(
            tuple(note_of_compiler["command"]),
            note_of_compiler["version"],
            tuple(note_of_compiler["flags"]),
            tuple(note_of_compiler["libraries"]),
            note_of_compiler["key"],
        )
    except (OSError, ValueError, KeyError, TypeError):
        pass  # missing or incomplete
    version = compilers.version_of(command)
    failed: CompilerError | None = None
    for flags, libraries in compilers.attempts(cpu, version):
        words = (*command, version, *flags, *libraries, cpu, compilers.libc(), compilers.FORMAT)
        key = hashlib.sha256("\0".join(map(str, words)).encode()).hexdigest()
        tool = Compiler(command, version, flags, libraries, key)
        try:
            before = selftest.flushes()
            library = _find_or_build(
                selftest.SOURCE, tool, False, _key(selftest.SOURCE, tool, False),
                time.perf_counter(),
            )  # fmt: skip
            selftest.check(library.function, before)
        except CompilerError as error:
            if failed is None:
                failed = error
            if "was not done" in error.message:
                break
            continue
        try:
            home.write(note, json.dumps(asdict(tool)).encode())
        except OSError:
            pass  # tested again next time
        return tool
    assert failed is not None
    raise failed


def _cache() -> Cache:
    """The cache, or else a private folder, with a warning."""
    folder = caches.folder_of(os.environ)
    cache = _state.caches.get(folder)
    if cache is None:
        opened, reason = caches.opened(folder)
        if opened is None:
            opened = _private()
            warn_once(f"{reason}; compiled code is not cached for other processes")
        cache = _state.caches[folder] = opened
    return cache


def _private() -> Cache:
    """A folder of this process. Raises `CompilerError`."""
    if _state.private is None:
        try:
            folder = Path(tempfile.mkdtemp(prefix="nodescope-"))
        except OSError as error:
            raise CompilerError(f"no folder to compile in: {error.strerror or error}") from None
        _state.private = Cache(folder, private=True)
    return _state.private


# Building


def _key(source: str, tool: Compiler, openmp: bool) -> str:
    return hashlib.sha256(f"{tool.key}\0{openmp}\0{source}".encode()).hexdigest()[:40]


def _find_or_build(source: str, tool: Compiler, openmp: bool, key: str, start: float) -> Library:
    home = _cache()
    for _ in range(2):  # a library may vanish, or prove invalid, after it was found
        path = home.find(key)
        if path is None:
            break
        try:
            return Library(path, True, time.perf_counter() - start, _load(path, key))
        except CompilerError:
            home.drop(key)
    content = _compiled(source, tool, openmp, key)
    failed: CompilerError | None = None
    for place in (_cache, _private):
        try:
            cache = place()
            path = cache.publish(key, content)
            library = Library(path, False, time.perf_counter() - start, _load(path, key))
        except OSError as error:
            reason = f"the cache {cache.folder} cannot be written: {error.strerror or error}"
            failed = failed or CompilerError(reason)
        except CompilerError as error:
            home.drop(key)  # files there may not be executed, or the library is at fault
            failed = failed or error
        else:
            if failed is not None:
                warn_once(f"{failed.message}; compiled code is not cached for other processes")
            return library
    assert failed is not None
    raise failed


def _compiled(source: str, tool: Compiler, openmp: bool, key: str) -> bytes:
    text = f'{source}\n__attribute__((visibility("default"))) const char {_STAMP}[] = "{key}";\n'
    parallel = ("-fopenmp",) if openmp else ("-fopenmp-simd",)
    # Names without folders: libraries of one source are byte-identical.
    words = (
        *tool.command, *tool.flags, *parallel, "-s", "kernel.c", "-o", "kernel.so",
        *tool.libraries,
    )  # fmt: skip
    last: CompilerError | None = None
    for parent in (None, _cache().folder):  # one may be full and the other not
        try:
            work = Path(tempfile.mkdtemp(prefix=".build-", dir=parent))
        except OSError as error:
            last = CompilerError(f"no folder to compile in: {error.strerror or error}")
            continue
        try:
            (work / "kernel.c").write_text(text, encoding="utf-8")
            compilers.run(words, work)
            return (work / "kernel.so").read_bytes()
        except OSError as error:
            last = CompilerError(
                f"{os.path.basename(tool.command[0])} made no library: {error.strerror or error}"
            )
        except CompilerError as error:
            last = error
            if "No space left" not in error.message:
                break
        finally:
            shutil.rmtree(work, ignore_errors=True)
    assert last is not None
    raise last


def _load(path: Path, key: str) -> ctypes.CDLL:
    """Load a library, and verify its identity. Raises `CompilerError`."""
    try:
        handle = ctypes.CDLL(str(path))
    except OSError as error:
        detail = str(error).removeprefix(f"{path}: ")
        raise CompilerError(
            f"the compiled library cannot be loaded from {path.parent}: {detail}"
        ) from None
    try:
        stamp = (ctypes.c_char * (len(key) + 1)).in_dll(handle, _STAMP).value
    except ValueError:
        stamp = b""
    if stamp != key.encode():
        if hasattr(_ctypes, "dlclose"):  # otherwise loading the same name would return it again
            _ctypes.dlclose(handle._handle)
        raise CompilerError("the compiled library does not match its source")
    return handle


# Exits and forks


def _leave(state: _State) -> None:
    if state.private is not None and state.private.folder.exists():
        shutil.rmtree(state.private.folder, ignore_errors=True)


def _leave_all() -> None:
    _leave(_state)


def _child() -> None:
    """In a forked child, keep the loaded libraries; the private folder stays the parent's."""
    global _state
    parent, _state = _state, _State()
    _state.libraries, _state.compilers = dict(parent.libraries), dict(parent.compilers)
    _state.caches = {k: cache for k, cache in parent.caches.items() if not cache.private}
    _state.said = set(parent.said)


atexit.register(_leave_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_child)
