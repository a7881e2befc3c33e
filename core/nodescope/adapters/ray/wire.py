"""Messages between a worker and the run: MessagePack, sent in frames over a socket.

Both ends prove that they know the run's token before anything else is read.

Invariant: decoding a frame never runs code, whatever the frame contains. Sending never waits: a
message for which the backlog has no room is dropped and counted.
"""

from __future__ import annotations

import hashlib
import hmac
import socket
import struct
import threading
import time
from collections import deque
from typing import Final

import msgspec

from nodescope.record.summary import TensorSummary

MAX_FRAME: Final = 256 << 20
FIRST_FRAME: Final = 4096
"""The longest frame accepted before the other end has proved itself, in bytes."""
BACKLOG: Final = 64 << 20
SOON_S: Final = 0.005
_LENGTH: Final = struct.Struct("<I")


class Content(msgspec.Struct, frozen=True):
    """What is sent of a value.

    Attributes:
        type: Its class, as ``module.Name``.
        shape, dtype: Of its elements; ``dtype`` is empty if it has none.
        nbytes: Size of the elements.
        data: The elements in C order, or None.
        summary: Their statistics, or None.
        text: The value as text, if it has no elements.
    """

    type: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    nbytes: int = 0
    data: bytes | None = None
    summary: TensorSummary | None = None
    text: str = ""


class Argument(msgspec.Struct, frozen=True):
    """An argument of a submission.

    Attributes:
        slot: Its position: ``0`` for the first, ``lr`` for a keyword.
        name: The parameter's name.
        refs: Object references: the argument itself, or what it contains.
        itself: Whether the argument is a reference, so that the task is given the object.
        content: Its elements if it has any.
        text: The argument as text, if it has no elements.
        unknown: Whether it becomes known only when the drawn graph is executed.
    """

    slot: str
    name: str
    refs: tuple[bytes, ...] = ()
    itself: bool = False
    content: Content | None = None
    text: str = ""
    unknown: bool = False


class Challenge(msgspec.Struct, frozen=True, tag=True):
    """The first frame, from the run."""

    nonce: bytes


class Hello(msgspec.Struct, frozen=True, tag=True):
    """A worker's answer.

    Attributes:
        proof: The proof of knowing the token, for the run's nonce.
        nonce: The worker's own nonce.
        clock_ns: Its `time.perf_counter_ns`.
        boot: The boot id of its machine; processes with equal ids share a clock.
    """

    proof: bytes
    nonce: bytes
    worker: str
    node: str
    pid: int
    clock_ns: int
    boot: str


class Config(msgspec.Struct, frozen=True, tag=True):
    """What a worker reports, and where it asks the run whether to stop.

    Attributes:
        number: Grows with each change.
        starts, ends, errors: As in `nodescope.ir.demands.StopsAt`.
        arrays: Whether values are wanted.
        inline: The largest array that is sent whole, in bytes; larger ones are sent as statistics.
    """

    number: int
    starts: tuple[str, ...] | None = ()
    ends: tuple[str, ...] | None = ()
    errors: bool = False
    arrays: bool = True
    inline: int = 1 << 16


class Welcome(msgspec.Struct, frozen=True, tag=True):
    """The run's proof, and the first configuration."""

    proof: bytes
    config: Config


class Configured(msgspec.Struct, frozen=True, tag=True):
    """A configuration is in effect."""

    number: int


class Submitted(msgspec.Struct, frozen=True, tag=True):
    """Something was submitted.

    Attributes:
        kind: ``task``, ``actor``, ``method`` or ``put``.
        task: Its id; for the creation of an actor, ``actor:`` and the actor's id.
        parent, attempt: The task that submitted it, and the attempt of that task; ``""`` and 0 for
            the program itself.
        owner: The class of the actor, or ``""``.
        name: The name of the function or method.
        label: The name that was given in the call, or ``""``.
        actor: The actor's id, or ``""``.
        refs: The object references of its results.
        retries: How often it may be retried; -1 for no limit.
        retries_errors: Whether it is retried after an exception too.
        options: The options of the call, as text.
        source: File, line and function of the call, or None.
        graph: Scope and number of the execution of a bind graph that submitted it; 0 for its
            drawing. Else None.
        channelled: Whether it runs in a compiled graph; then its results are not objects.
    """

    kind: str
    task: str
    parent: str
    attempt: int
    owner: str
    name: str
    label: str
    actor: str
    arguments: tuple[Argument, ...]
    refs: tuple[bytes, ...]
    retries: int
    retries_errors: bool
    options: dict[str, str]
    source: tuple[str, int, str] | None
    time_ns: int
    graph: tuple[str, int] | None = None
    channelled: bool = False


class Ran(msgspec.Struct, frozen=True):
    """The execution that a message is about.

    Attributes:
        task: As in `Submitted`.
        attempt: Number of earlier attempts.
        owner, name: As in `Submitted`.
        actor: The actor's id, or ``""``.
        arrived_ns: When the worker began to read the arguments.
        transfer_ns: How long that took.
        start_ns: When the function was called.
    """

    task: str
    attempt: int
    owner: str
    name: str
    actor: str
    arrived_ns: int
    transfer_ns: int
    start_ns: int


class Began(msgspec.Struct, frozen=True, tag=True):
    """A task begins."""

    ran: Ran


class Ended(msgspec.Struct, frozen=True, tag=True):
    """A task has ended, and the worker goes on.

    Attributes:
        outputs: Its results; empty if it failed.
        error: The exception, or ``""``.
    """

    ran: Ran
    end_ns: int
    outputs: tuple[Content, ...] = ()
    error: str = ""


class Asks(msgspec.Struct, frozen=True, tag=True):
    """A task waits before or after its function, and may be stopped there.

    Attributes:
        number: The number of the question.
        when: ``before`` or ``after``.
        inputs: The arguments by slot.
        outputs, error, end_ns: As in `Ended`.
        stack: File, line and function of the user's frames, if the task raised.
    """

    number: int
    when: str
    ran: Ran
    inputs: dict[str, Content]
    outputs: tuple[Content, ...] = ()
    error: str = ""
    end_ns: int = 0
    stack: tuple[tuple[str, int, str], ...] = ()


class Go(msgspec.Struct, frozen=True, tag=True):
    """The task may go on, with other values in some slots (``>0`` is the first result)."""

    number: int
    edits: dict[str, Content] = {}


class Fetch(msgspec.Struct, frozen=True, tag=True):
    """Asks for elements of a waiting task's value; ``window`` is start and stop by axis."""

    number: int
    question: int
    slot: str
    window: tuple[tuple[int, int], ...] | None = None


class Fetched(msgspec.Struct, frozen=True, tag=True):
    """The elements, or why there are none."""

    number: int
    content: Content | None = None
    error: str = ""


class Alive(msgspec.Struct, frozen=True, tag=True):
    """The run still holds the tasks that wait."""


FromWorker = Hello | Submitted | Began | Ended | Asks | Fetched | Configured
FromRun = Challenge | Welcome | Config | Go | Fetch | Alive

_encoder: Final = msgspec.msgpack.Encoder()
from_worker: Final = msgspec.msgpack.Decoder(FromWorker)
from_run: Final = msgspec.msgpack.Decoder(FromRun)


def proof(token: bytes, nonce: bytes, side: bytes) -> bytes:
    """The proof of knowing a token."""
    return hmac.digest(token, side + nonce, hashlib.sha256)


def frame(message: FromWorker | FromRun) -> bytes:
    """The bytes in which a message is sent."""
    body = _encoder.encode(message)
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Cuts received bytes into frames. Raises `ValueError` if one is too long."""

    def __init__(self) -> None:
        self.most = FIRST_FRAME
        self._bytes = bytearray()

    def take(self, received: bytes) -> list[bytes]:
        """The frames that are complete now."""
        self._bytes += received
        frames: list[bytes] = []
        while len(self._bytes) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._bytes)
            if size > self.most:
                raise ValueError(f"a frame of {size} bytes")
            end = _LENGTH.size + size
            if len(self._bytes) < end:
                break
            frames.append(bytes(self._bytes[_LENGTH.size : end]))
            del self._bytes[:end]
        return frames


class Sender:
    """Sends frames without waiting; a thread sends what the socket does not accept at once.

    Attributes:
        dropped: Number of messages for which there was no room.
        broken: Whether the connection is gone.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.dropped = 0
        self.broken = False
        self._socket = connection
        self._backlog: deque[memoryview] = deque()
        self._waiting = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._held = b""
        self._due: threading.Event | None = None

    def send_soon(self, message: FromWorker | FromRun) -> None:
        """Send a message with the next one, or after `SOON_S`: each send wakes the receiver."""
        data = frame(message)
        with self._lock:
            self._held += data
            if self._due is None:
                self._due = threading.Event()
                threading.Thread(target=self._flush, name="nodescope-ray-soon", daemon=True).start()
        if not self._due.is_set():
            self._due.set()

    def _flush(self) -> None:
        due = self._due
        assert due is not None
        while not self.broken:
            due.wait()
            time.sleep(SOON_S)
            due.clear()
            if self._held:
                self._send(b"")

    def send(self, message: FromWorker | FromRun) -> bool:
        """Send a message; False if it could not be."""
        return self._send(frame(message))

    def _send(self, body: bytes) -> bool:
        with self._lock:
            if self.broken:
                return False
            data = memoryview(self._held + body)
            self._held = b""
            if not self._backlog:
                data = data[self._now(data) :]
            if not data or self.broken:
                return not self.broken
            if self._waiting + len(data) > BACKLOG and not self._is_begun(data):
                self.dropped += 1
                return False
            self._backlog.append(data)
            self._waiting += len(data)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="nodescope-ray-send", daemon=True
                )
                self._thread.start()
        return True

    @staticmethod
    def _is_begun(data: memoryview) -> bool:
        return isinstance(data.obj, bytes) and len(data) < len(data.obj)

    def _now(self, data: memoryview) -> int:
        try:
            return self._socket.send(data, socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            self.broken = True
            return 0

    def _work(self) -> None:
        import select

        while True:
            with self._lock:
                if not self._backlog or self.broken:
                    self._thread = None
                    return
                data = self._backlog[0]
                sent = self._now(data)
                self._waiting -= sent
                if sent == len(data):
                    self._backlog.popleft()
                    continue
                self._backlog[0] = data[sent:]
            try:
                select.select((), (self._socket,), (), 1.0)
            except (OSError, ValueError):
                self.broken = True


def machine() -> str:
    """The boot id of this machine; ``""`` if unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""
