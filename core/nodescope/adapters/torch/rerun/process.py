"""The process that runs PyTorch for readers of recordings: the readers' end.

The process starts when it is first needed, and answers one request at a time. A request always ends
within the time limits: with arrays, with PyTorch's error, or with the reason why there is no
answer.

Invariant: after a crash or a request that takes too long, the process is gone, and the next request
starts a new one.
"""

from __future__ import annotations

import atexit
import os
import selectors
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from nodescope.adapters.torch.rerun.wire import (
    LENGTH,
    MOST_HEADER_BYTES,
    Hello,
    Reply,
    Request,
    packed,
    unpacked,
)
from nodescope.errors import ReplayError
from nodescope.events import Array
from nodescope.processes import own_command, own_environment, refused

MODULE: Final = "nodescope.adapters.torch.rerun.worker"
START_S: Final = 120.0
"""How long the import of PyTorch may take, in seconds."""
ANSWER_S: Final = 30.0
"""How long an operation may take, in seconds."""
_CHUNK: Final = 1 << 20
_CRASH_S: Final = 1.0


class RefusedError(ReplayError):
    """PyTorch refused one request; it can still answer others."""


class TorchProcess:
    """See the module.

    Args:
        answer_s: The longest time for an answer, in seconds.
        module: The module that runs in the process.
    """

    def __init__(self, answer_s: float = ANSWER_S, module: str = MODULE) -> None:
        self._answer_s, self._module = answer_s, module
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self.version = ""
        atexit.register(self.end)

    def ask(self, request: Request, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """The arrays of the answer.

        Args:
            request: The request, without the headers of its arrays.
            arrays: One per input.

        Raises:
            RefusedError: The process did not try it, or PyTorch raised an exception.
            ReplayError: PyTorch is missing, crashed, or took too long.
        """
        headers, memories = packed(arrays)
        request = msgspec.structs.replace(request, arrays=headers)
        header = msgspec.msgpack.encode(request)
        with self._lock:
            process = self._started()
            until = time.monotonic() + self._answer_s
            try:
                self._send(process, [LENGTH.pack(len(header)), header, *memories], until)
                reply = msgspec.msgpack.decode(self._header(process, until), type=Reply)
                made = [self._receive(process, item.nbytes, until) for item in reply.arrays]
                results = unpacked(reply.arrays, made)
            except TimeoutError:
                self._end()
                raise ReplayError(
                    f"{request.native} takes more than {self._answer_s:g} s",
                    hint="record at --level values: what is recorded needs no running",
                ) from None
            except (OSError, EOFError, ValueError, msgspec.MsgspecError) as error:
                status = self._end(_CRASH_S)
                raise ReplayError(
                    f"PyTorch ended while it ran {request.native} again "
                    f"({_ended(status) or type(error).__name__})",
                    hint="it may have needed more memory than there is",
                ) from None
            except BaseException:  # such as Ctrl-C: an unread answer may still arrive
                self._end()
                raise
        if reply.error:
            raise RefusedError(reply.error)
        return results

    def end(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _started(self) -> subprocess.Popen[bytes]:
        """The running process. Raises `ReplayError`."""
        process = self._process
        if process is not None and self._owner != os.getpid():  # forked: it is the parent's
            self._process = process = None
        if process is not None and process.poll() is None:
            return process
        self._end()
        try:
            process = subprocess.Popen(
                own_command(self._module), env=own_environment(), stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            reason = refused(error) or error.strerror
            raise ReplayError(f"PyTorch cannot be started: {reason}") from None
        self._process, self._owner = process, os.getpid()
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        try:
            data = self._header(process, time.monotonic() + START_S)
            hello = msgspec.msgpack.decode(data, type=Hello)
        except (TimeoutError, OSError, EOFError, ValueError, msgspec.MsgspecError):
            status = self._end(_CRASH_S)
            raise ReplayError(f"PyTorch cannot be started ({_ended(status)})") from None
        if hello.error:
            self._end()
            raise ReplayError(
                f"PyTorch cannot be imported: {hello.error}",
                hint="install it beside nodescope: pip install 'nodescope[torch]'",
            )
        self.version = hello.version
        return process

    def _send(
        self, process: subprocess.Popen[bytes], parts: Sequence[object], until: float
    ) -> None:
        assert process.stdin is not None
        descriptor = process.stdin.fileno()
        with selectors.DefaultSelector() as ready:
            ready.register(descriptor, selectors.EVENT_WRITE)
            for part in parts:
                memory = memoryview(part).cast("B") if len(memoryview(part)) else memoryview(b"")  # type: ignore[arg-type]
                while memory:
                    if not ready.select(max(until - time.monotonic(), 0)):
                        raise TimeoutError
                    memory = memory[os.write(descriptor, memory[:_CHUNK]) :]

    def _header(self, process: subprocess.Popen[bytes], until: float) -> bytes:
        (length,) = LENGTH.unpack(self._receive(process, LENGTH.size, until))
        if length > MOST_HEADER_BYTES:
            raise ValueError("a header that is too long")
        return bytes(self._receive(process, length, until))

    def _receive(self, process: subprocess.Popen[bytes], size: int, until: float) -> bytearray:
        assert process.stdout is not None
        descriptor = process.stdout.fileno()
        data = bytearray(size)
        rest = memoryview(data)
        with selectors.DefaultSelector() as ready:
            ready.register(descriptor, selectors.EVENT_READ)
            while rest:
                if not ready.select(max(until - time.monotonic(), 0)):
                    raise TimeoutError
                count = os.readv(descriptor, [rest[:_CHUNK]])
                if not count:
                    raise EOFError
                rest = rest[count:]
        return data

    def _end(self, patience_s: float = 0.0) -> int | None:
        """End the process. Returns its status if it ended by itself within ``patience_s``."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return None
        try:
            status = process.wait(patience_s)
        except subprocess.TimeoutExpired:
            status = None
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    pass
        return status


def _ended(status: int | None) -> str:
    if status is None:
        return "it was ended"
    return f"signal {-status}" if status < 0 else f"status {status}"
