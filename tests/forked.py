"""Commands of nodescope, forked from a process that has imported everything: tests start hundreds.

`Popen` is `subprocess.Popen`, except that ``python -m nodescope``, its servers and its programs do
not start new interpreters. The first of them starts a process that imports nodescope, the server
and NumPy; that process forks each of them, and those that they start in turn. There is one such
process per hash seed: what ``nodescope compare`` starts has the seed 0, and is forked only if the
command itself has ``PYTHONHASHSEED=0``. Tests about imports, Python's own options or the command
line as seen from outside need `subprocess`.

With ``pytest --new-interpreters``, and on systems other than Linux, `Popen` is `subprocess.Popen`.
The tests that use `subprocess` check that new interpreters work: `tests/core/cli/test_as_plain.py`,
`tests/core/test_processes.py` and `tests/server/test_main.py`, for example.

Invariant: a forked command runs as it would in a new interpreter.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import fcntl
import gc
import importlib
import io
import os
import random
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_MOST = 1 << 17
_IMPORTED = (
    "nodescope.api", "nodescope.adapters.numpy_engine", "nodescope.cli.run",
    "nodescope.cli.open_and_serve", "nodescope.cli.server_process", "nodescope.cli.runs",
    "nodescope.cli.dap", "nodescope.cli.terminal",
    "nodescope.cli.terminal_lines", "nodescope.cli.check", "nodescope.cli.compare",
    "nodescope.cli.recorded_script", "nodescope.cli.timed_script",
    "nodescope.cli.why", "nodescope.dap.launching", "nodescope.dap.debuggee",
    "nodescope.link.client", "nodescope_server.__main__", "numpy.random", "tests.forked",
)  # fmt: skip
# Python, NumPy, nodescope and the server's libraries read these when they are imported.
_READ_AT_START = (
    "PYTHON", "OMP_", "OPENBLAS_", "MKL_", "LC_", "LANG", "TZ",
    "UVICORN_", "WEB_CONCURRENCY", "WEBSOCKETS_", "PYDANTIC_", "FORWARDED_",
)  # fmt: skip
_NOT_AT_START = ("PYTHONUNBUFFERED",)
_HASH_SEED = "PYTHONHASHSEED"
_MODE, _MODES = "NODESCOPE_MODE", ("", "eager", "compiled")
# The source runs like a frozen module, so its lines count neither as the program's nor as
# nodescope's.
_SOURCE = (
    "import sys; path = sys.argv[1]; names = {'__name__': 'forked', '__file__': path}; "
    "exec(compile(open(path).read(), '<frozen forked>', 'exec'), names); "
    "names['serve'](int(sys.argv[2]))"
)


_chosen = False


def choose(forked: bool) -> None:
    """Choose whether commands are forked or run in new interpreters."""
    global _chosen
    _chosen = forked


class Popen(subprocess.Popen[Any]):
    """A process, which is forked if it is one of nodescope's."""

    def _execute_child(self, args: Any, *rest: Any) -> None:
        (_, preexec, _, pass_fds, cwd, env, _, _, _,
         p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite) = rest[:15]  # fmt: skip
        self._reply: socket.socket | None = None
        channel = _channel(args, env) if preexec in (None, own_terminal) else None
        if channel is None:
            super()._execute_child(args, *rest)  # type: ignore[misc]
            return
        new_session = bool(rest[20])
        streams = [
            given if given != -1 else own for own, given in enumerate((p2cread, c2pwrite, errwrite))
        ]
        request = {
            "args": list(map(str, args)), "cwd": os.fspath(cwd or os.getcwd()),
            "env": dict(os.environ if env is None else env), "session": new_session,
            "parent": os.getpid(), "terminal": preexec is own_terminal, "passed": list(pass_fds),
        }  # fmt: skip
        parent_end, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with parent_end, child_end:
            # A program may close every possible file descriptor.
            self._reply = socket.socket(fileno=fcntl.fcntl(parent_end, fcntl.F_DUPFD_CLOEXEC, 256))
            fds = [child_end.fileno(), channel.fileno(), *streams, *pass_fds]
            socket.send_fds(channel, [repr(request).encode()], fds)
        self.pid = int(self._reply.recv(64))
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]

    def __del__(self, *args: Any, **kwargs: Any) -> None:
        super().__del__(*args, **kwargs)  # type: ignore[misc]
        if getattr(self, "_reply", None) is not None:
            self._reply.close()  # type: ignore[union-attr]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._reply is None:
            return super()._try_wait(wait_flags)  # type: ignore[misc,no-any-return]
        answered = select.poll()  # `select.select` refuses high descriptors
        answered.register(self._reply, select.POLLIN)
        if not answered.poll(0 if wait_flags & os.WNOHANG else None):
            return 0, 0
        status = self._reply.recv(64)
        self._reply.close()
        return self.pid, int(status or signal.SIGKILL)

    def _internal_poll(self, *args: Any, **kwargs: Any) -> int | None:
        if getattr(self, "_reply", None) is None:
            return super()._internal_poll(*args, **kwargs)  # type: ignore[misc,no-any-return]
        lock = self._waitpid_lock  # type: ignore[attr-defined]
        if not lock.acquire(blocking=False):
            return None  # Another thread waits for the process, and holds the lock meanwhile.
        try:
            if self.returncode is None:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
        finally:
            lock.release()
        return self.returncode


def children(pid: int) -> list[int]:
    """The processes that any thread of a process has started or had forked."""
    pids = [
        int(child)
        for task in Path(f"/proc/{pid}/task").glob("*/children")
        for child in task.read_text().split()
    ]
    for path in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):  # The process has just ended.
            if path.read_text().strip() == _NAME.format(pid):
                pids.append(int(path.parent.name))
    return pids


def own_terminal() -> None:
    """For ``preexec_fn`` in a new session: make standard output the controlling terminal."""
    os.close(os.open(os.ttyname(1), os.O_RDWR))


def run(
    args: list[str], *, timeout: float, input: Any = None, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """As `subprocess.run`, with captured output."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        pipes["stdin"] = subprocess.PIPE
    with Popen(args, **pipes, **options) as process:
        try:
            stdout, stderr = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
        return subprocess.CompletedProcess(args, process.wait(), stdout, stderr)


def _channel(args: Any, env: Mapping[str, str] | None) -> socket.socket | None:
    """The connection to the process that can fork a command; None if it must start anew."""
    if not _chosen or isinstance(args, str) or args[0] != sys.executable:
        return None
    command = args[1:3] == ["-m", "nodescope"]
    if not command and not any(word in " ".join(args[1:4]) for word in _OWN_CODE):
        return None
    given = os.environ if env is None else env
    ignored = ("PYTHON",) if "-I" in args[1:3] else ()
    seed = next(iter(_opened), "") if ignored else given.get(_HASH_SEED, "")
    if seed not in _opened:
        if _is_forked:
            return None  # It knows only the process that it is from.
        _opened[seed] = _start(seed)
    channel, here = _opened[seed]
    same = (
        not here.get(_MODE)
        and given.get(_MODE, "") in _MODES
        and all(
            (given.get(name) or "") == (here.get(name) or "")  # An empty variable counts as unset.
            for name in {*given, *here}
            if name.startswith(_READ_AT_START) and not name.startswith((*_NOT_AT_START, *ignored))
        )
    )
    return channel if same else None


_NAME = "for {}"
_OWN_CODE = (
    "run_module('nodescope_server'", "from nodescope.cli import main",
    "from nodescope.cli.recorded_script import main", "from nodescope.cli.timed_script import main",
)  # fmt: skip
_opened: dict[str, tuple[socket.socket, dict[str, str]]] = {}
"""By hash seed: the connection to the forking process, and the environment of its imports."""


def _start(seed: str) -> tuple[socket.socket, dict[str, str]]:
    """Start a forking process with a hash seed; random for ``""``."""
    environment = {**os.environ, _HASH_SEED: seed} if seed else dict(os.environ)
    client_end, fork_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with fork_end:
        command = [sys.executable, "-c", _SOURCE, __file__, str(fork_end.fileno())]
        process = subprocess.Popen(command, pass_fds=[fork_end.fileno()], cwd=ROOT, env=environment,
                                   stdin=subprocess.DEVNULL)  # fmt: skip
    process.returncode = 0  # Nobody waits for this process, which ends with its last client.
    atexit.register(client_end.close)
    return client_end, environment


_is_forked = False


# The forking process


def serve(channel_fd: int) -> None:
    """Import everything, then fork on request. Returns only in a forked child, when it has run."""
    for name in _IMPORTED:
        importlib.import_module(name)
    # The child runs this module, so it must not be imported.
    del sys.modules["nodescope_server.__main__"]
    gc.collect()  # Collect now, so that no child traverses the imported objects.
    channel = socket.socket(fileno=channel_fd)
    watched = selectors.DefaultSelector()
    watched.register(channel, selectors.EVENT_READ)
    alive: dict[int, tuple[int, socket.socket]] = {}  # Process and client by descriptor.
    while True:
        for key, _ in watched.select():
            if key.data is not None:
                pidfd, reply = alive.pop(key.data)
                watched.unregister(pidfd)
                os.close(pidfd)
                with reply:
                    _tell(reply, os.waitpid(key.data, 0)[1])
                continue
            message, fds, _, _ = socket.recv_fds(channel, _MOST, 16)
            if not message:
                os._exit(0)  # No client is left.
            pid = os.fork()
            if not pid:
                watched.close()
                channel.close()
                for pidfd, reply in alive.values():
                    os.close(pidfd)
                    reply.close()
                return _run(_prepared(ast.literal_eval(message.decode()), fds))
            alive[pid] = os.pidfd_open(pid), socket.socket(fileno=fds.pop(0))
            watched.register(alive[pid][0], selectors.EVENT_READ, pid)
            for fd in fds:
                os.close(fd)
            _tell(alive[pid][1], pid)


def _tell(reply: socket.socket, number: int) -> None:
    with contextlib.suppress(ConnectionError):  # The client is gone.
        reply.send(str(number).encode())


def _prepared(request: dict[str, Any], fds: list[int]) -> list[str]:
    """Prepare this process as requested, up to its first line. Returns its command line."""
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 256) for fd in fds[1:]]
    for fd in fds:
        os.close(fd)
    client, *streams = high
    for fd, place in zip(streams, [0, 1, 2, *request["passed"]], strict=True):
        os.dup2(fd, place)
        os.close(fd)
    # `children` finds the process by this name, since it is not a child of its client.
    Path("/proc/self/comm").write_text(_NAME.format(request["parent"]))
    if request["session"]:
        os.setsid()
    if request["terminal"]:
        own_terminal()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    # When a child ends, its collections skip imported objects, whose pages they would copy.
    atexit.register(gc.freeze)
    _open_streams(buffered=not os.environ.get("PYTHONUNBUFFERED"))
    main_thread: Any = threading.main_thread()
    main_thread._set_native_id()  # Python 3.11 keeps the parent's thread id.
    random.seed()
    sys.modules["numpy"].random.seed()
    private_copies = sys.modules["nodescope.record.files.private_copies"]
    private_copies._process = os.getpid()
    forked = sys.modules["tests.forked"]
    forked._chosen = forked._is_forked = True
    seed = _ENVIRONMENT.get(_HASH_SEED, "")
    forked._opened[seed] = socket.socket(fileno=client), dict(_ENVIRONMENT)
    sys.modules["nodescope.engine.mode"].from_environment()
    for name in (
        "nodescope.cli.server_process",
        "nodescope.cli.compare",
        "nodescope.dap.launching",
    ):
        starts: Any = sys.modules[name]
        starts.subprocess = SimpleNamespace(**vars(subprocess) | {"Popen": forked.Popen})
    return list(request["args"])


def _open_streams(*, buffered: bool) -> None:
    """Open the standard streams as Python does at its start, since they are other files now."""
    for name, fd in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        before = getattr(sys, name)
        raw = open(fd, "rb" if fd == 0 else "wb", buffering=0, closefd=False)  # noqa: SIM115
        binary: Any = raw
        if fd == 0:
            binary = io.BufferedReader(raw)  # type: ignore[arg-type]
        elif buffered:
            binary = io.BufferedWriter(raw)  # type: ignore[arg-type]
        stream = io.TextIOWrapper(
            binary, before.encoding, before.errors, newline=None if fd == 0 else "\n",
            line_buffering=buffered and (fd == 2 or raw.isatty()),
            write_through=fd > 0 and not buffered,
        )  # fmt: skip
        stream.mode = "r" if fd == 0 else "w"  # type: ignore[misc]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _run(args: list[str]) -> None:
    """Run a command line as Python does: ``-m`` or ``-c``, possibly isolated."""
    sys.orig_argv[:] = args
    options = args[1 : args.index("-m") if "-m" in args[:3] else args.index("-c")]
    kind, code = args[1 + len(options) : 3 + len(options)]
    sys.argv[:] = [kind, *args[3 + len(options) :]]
    sys.path[:1] = [] if "-I" in options else [os.getcwd() if kind == "-m" else ""]
    sys.modules["nodescope.processes"].leave_current_folder()
    names = vars(sys.modules["__main__"])
    for name in [name for name in names if not name.startswith("__")]:
        del names[name]
    if kind == "-m":
        as_main: Any = vars(runpy)["_run_module_as_main"]  # Python calls this function for ``-m``.
        as_main(code)
        return
    exec(compile(code, "<string>", "exec"), names)


_ENVIRONMENT = dict(os.environ)
