"""The process that runs PyTorch: answers requests on its standard streams, one after another.

Invariant: it runs only ATen operators, with arguments of their schema. It ends with its parent
process, and after `IDLE_S` without a request.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from nodescope.adapters.torch.rerun.wire import (
    LENGTH,
    MOST_HEADER_BYTES,
    Hello,
    Reply,
    Request,
    packed,
)
from nodescope.console_output import last_line
from nodescope.events import Array

IDLE_S: Final = 600.0
_PARENT_S: Final = 1.0
_MOST_TEXT: Final = 2000


def main() -> None:
    """Answer requests until the input ends or stays idle."""
    replies = os.dup(1)  # output that PyTorch prints must not get between the replies
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    _limit()
    try:
        import torch

        from nodescope.adapters.torch.rerun import answers
    except Exception as error:  # PyTorch's installation is broken, or of another version
        _send(replies, msgspec.msgpack.encode(Hello(error=last_line(error))), ())
        return
    _send(replies, msgspec.msgpack.encode(Hello(str(torch.__version__))), ())
    while (header := _header()) is not None:
        request = msgspec.msgpack.decode(header, type=Request)
        tensors = answers.received(request.arrays, _read_into)
        try:
            results: Sequence[Array] = answers.answer(request, tensors)
            headers, memories = packed(results)
            reply = Reply(headers)
        except answers.NotTriedError as error:
            reply, memories = Reply(error=str(error), refused=True), []
        except MemoryError:
            reply, memories = Reply(error="there is not enough memory"), []
        except Exception as error:  # PyTorch refuses the request
            reply, memories = Reply(error=_first_lines(error)), []
        del tensors
        _send(replies, msgspec.msgpack.encode(reply), memories)


def _first_lines(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:_MOST_TEXT]


def _header() -> bytes | None:
    ready, _, _ = select.select([0], [], [], IDLE_S)
    if not ready:
        return None
    length = bytearray(LENGTH.size)
    if not _read_into(memoryview(length)):
        return None
    (size,) = LENGTH.unpack(length)
    if size > MOST_HEADER_BYTES:
        return None
    data = bytearray(size)
    return bytes(data) if _read_into(memoryview(data)) else None


def _read_into(memory: memoryview) -> bool:
    """Fill the memory from standard input; return whether there was enough input."""
    while memory:
        count = os.readv(0, [memory])
        if not count:
            return False
        memory = memory[count:]
    return True


def _send(descriptor: int, header: bytes, memories: Sequence[Any]) -> None:
    for part in (LENGTH.pack(len(header)), header, *memories):
        rest = memoryview(part)
        if not rest.nbytes:
            continue
        rest = rest.cast("B")
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def _limit() -> None:
    """Limit the process to half of the machine's memory: a recording may be from any source."""
    try:
        import resource
    except ImportError:  # not a Unix system, which has no such limits
        return
    os.nice(5)
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    for kind, limit in ((resource.RLIMIT_DATA, most), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(kind)
        least = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (least, least))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # no files can be written


def _end_with_parent(parent: int) -> None:
    """End once the parent process is gone, even during a computation."""
    while os.getppid() == parent:
        time.sleep(_PARENT_S)
    os._exit(0)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)
