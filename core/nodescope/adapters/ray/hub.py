"""Hub: the run's end of the connections to workers.

One thread reads all connections, and passes each message on at once. A worker with a waiting task
has a thread of its own here, which blocks in the task's place while the program is stopped.

Invariant: nothing here waits for a worker, except a fetch at a stop, for `FETCH_S`.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from nodescope.adapters.ray import wire
from nodescope.emit.tasks import Remote
from nodescope.events import Gone

FETCH_S: Final = 5.0
ALIVE_S: Final = 2.0
"""How often workers with waiting tasks get a sign of life, in seconds."""
PROVE_S: Final = 10.0
"""How long a connection may take to prove that it is a worker's, in seconds."""
_GRACE_S: Final = 0.05
_now = time.perf_counter_ns


class Connection:
    """The connection to one worker.

    Attributes:
        remote: The worker, as the run sees it.
        hello: What it said of itself; None until it has proved itself.
        offset_ns: The worker's clock minus this process's.
        waiting: The number of its waiting tasks.
        configured: The number of its current configuration.
    """

    def __init__(self, connection: socket.socket, number: int) -> None:
        self.socket = connection
        self.remote = Remote(number)
        self.sender = wire.Sender(connection)
        self.frames = wire.Frames()
        self.hello: wire.Hello | None = None
        self.nonce = secrets.token_bytes(16)
        self.asked_ns = _now()
        self.offset_ns = 0
        self.waiting = 0
        self.configured = 0
        self.gone = False
        self._fetches = itertools.count(1)
        self._fetched: dict[int, queue.Queue[wire.Fetched]] = {}
        self._work: queue.SimpleQueue[Callable[[], None]] | None = None

    def here_ns(self, there_ns: int) -> int:
        """Convert a worker's time to this process's clock."""
        return there_ns - self.offset_ns

    def stand_in(self, work: Callable[[], None]) -> None:
        """Run ``work``, which may block, on the thread that stands in for the worker."""
        if self._work is None:
            self._work = queue.SimpleQueue()
            name = f"nodescope-ray-{self.remote.number}"
            threading.Thread(target=self._run, args=(self._work,), name=name, daemon=True).start()
        self._work.put(work)

    def _run(self, work: queue.SimpleQueue[Callable[[], None]]) -> None:
        while True:
            with contextlib.suppress(Exception, Gone):
                work.get()()

    def fetch(
        self, question: int, slot: str, window: tuple[tuple[int, int], ...] | None
    ) -> wire.Fetched:
        """Fetch elements of a waiting task's value."""
        number = next(self._fetches)
        answer: queue.Queue[wire.Fetched] = queue.Queue()
        self._fetched[number] = answer
        try:
            if self.gone or not self.sender.send(wire.Fetch(number, question, slot, window)):
                return wire.Fetched(number, error="the worker is gone")
            return answer.get(timeout=FETCH_S)
        except queue.Empty:
            return wire.Fetched(number, error=f"the worker has not answered for {FETCH_S:g} s")
        finally:
            del self._fetched[number]

    def answer(self, fetched: wire.Fetched) -> None:
        """Take a fetch's answer."""
        if (waits := self._fetched.get(fetched.number)) is not None:
            waits.put(fetched)

    def end(self) -> None:
        """Note that the worker is gone, and end all waiting fetches."""
        self.gone = self.sender.broken = True
        for number, waits in list(self._fetched.items()):
            waits.put(wire.Fetched(number, error="the worker is gone"))


class Receiver(Protocol):
    """Turns messages into nodes; `Book` is one."""

    def joined(self, worker: Connection) -> None:
        """A worker has connected."""

    def take(self, worker: Connection, message: wire.FromWorker) -> None:
        """A worker has sent a message."""

    def left(self, worker: Connection) -> None:
        """A worker is gone."""

    def look(self) -> None:
        """Called a few times a second."""


class Hub:
    """Listens for workers.

    Args:
        receiver: Takes the workers' messages.
        config: The first configuration.
        numbers: Gives each worker its number.
        host: The address to listen at.
    """

    def __init__(
        self, receiver: Receiver, config: wire.Config, numbers: Iterator[int],
        host: str = "127.0.0.1",
    ) -> None:  # fmt: skip
        self.token = secrets.token_bytes(32)
        self._receiver = receiver
        self._config = config
        self._listener = socket.create_server((host, 0), backlog=128)
        self._listener.setblocking(False)
        self.host, self.port = self._listener.getsockname()[:2]
        self.workers: list[Connection] = []
        self._numbers = numbers
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._wake, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._drains: list[threading.Event] = []
        self._settled = threading.Condition()
        self._ends = False
        self._thread = threading.Thread(target=self._run, name="nodescope-ray", daemon=True)
        self._thread.start()

    def configure(self, config: wire.Config) -> None:
        """Send every worker a new configuration."""
        self._config = config
        for worker in tuple(self.workers):
            worker.sender.send(config)

    def settle(self, timeout_s: float) -> None:
        """Wait until every worker has the newest configuration; at most ``timeout_s``."""
        number = self._config.number

        def has_it() -> bool:
            return all(worker.gone or worker.configured >= number for worker in self.workers)

        if not has_it():
            with self._settled:
                self._settled.wait_for(has_it, timeout_s)

    def drain(self, timeout_s: float) -> None:
        """Wait until all messages that have arrived are processed; at most ``timeout_s``."""
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            done = threading.Event()
            self._drains.append(done)
            self._interrupt()
            done.wait(timeout_s)

    def close(self) -> None:
        """End all connections."""
        self._ends = True
        self._interrupt()
        self._thread.join(1.0)

    def _interrupt(self) -> None:
        with contextlib.suppress(OSError):
            self._wake.send(b"x")

    # The thread

    def _run(self) -> None:
        alive_s = looked_s = time.monotonic()
        quiet_since = alive_s
        while not self._ends:
            draining = bool(self._drains)
            ready = self._selector.select(0.01 if draining else 0.2)
            now = time.monotonic()
            for key, _ in ready:
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is self._woken:
                    with contextlib.suppress(OSError):
                        self._woken.recv(64)
                    quiet_since = now
                else:
                    quiet_since = now
                    self._read(key.data)
            if draining and now - quiet_since > _GRACE_S:
                drains, self._drains = self._drains, []
                for done in drains:
                    done.set()
            if now - alive_s > ALIVE_S:
                alive_s = now
                self._beat()
                self._drop_strangers()
            if now - looked_s > 0.2:
                looked_s = now
                with contextlib.suppress(Exception):
                    self._receiver.look()
        for worker in tuple(self.workers):
            self._drop(worker)
        for key in list(self._selector.get_map().values()):
            self._selector.unregister(key.fileobj)
            key.fileobj.close()  # type: ignore[union-attr]
        self._wake.close()
        self._selector.close()
        for done in self._drains:
            done.set()

    def _beat(self) -> None:
        for worker in tuple(self.workers):
            if worker.waiting:
                worker.sender.send(wire.Alive())

    def _drop_strangers(self) -> None:
        """Drop connections that have not proved themselves in time."""
        for key in tuple(self._selector.get_map().values()):
            strange = isinstance(key.data, Connection) and key.data.hello is None
            if strange and _now() - key.data.asked_ns > PROVE_S * 1e9:
                self._drop(key.data)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        worker = Connection(connection, 0)
        self._selector.register(connection, selectors.EVENT_READ, worker)
        worker.sender.send(wire.Challenge(worker.nonce))

    def _read(self, worker: Connection) -> None:
        try:
            data = worker.socket.recv(1 << 20)
            messages = [wire.from_worker.decode(body) for body in worker.frames.take(data)]
        except (BlockingIOError, InterruptedError):
            return
        except Exception:  # reset, or not one of our workers
            self._drop(worker)
            return
        if not data:
            self._drop(worker)
            return
        for message in messages:
            if worker.hello is None:
                if not self._admit(worker, message):
                    self._drop(worker)
                    return
            elif isinstance(message, wire.Fetched):
                worker.answer(message)
            elif isinstance(message, wire.Configured):
                worker.configured = message.number
                with self._settled:
                    self._settled.notify_all()
            else:
                with contextlib.suppress(Exception):
                    self._receiver.take(worker, message)

    def _admit(self, worker: Connection, message: wire.FromWorker) -> bool:
        """Admit a worker if its first message proves that it is one; False otherwise."""
        if not isinstance(message, wire.Hello):
            return False
        if not secrets.compare_digest(
            message.proof, wire.proof(self.token, worker.nonce, b"worker")
        ):
            return False
        worker.hello = message
        worker.frames.most = wire.MAX_FRAME
        worker.remote = Remote(next(self._numbers))
        if not message.boot or message.boot != wire.machine():
            worker.offset_ns = message.clock_ns - (worker.asked_ns + _now()) // 2
        worker.configured = self._config.number
        proof = wire.proof(self.token, message.nonce, b"run")
        self.workers.append(worker)
        self._receiver.joined(worker)
        worker.sender.send(wire.Welcome(proof, self._config))
        return True

    def _drop(self, worker: Connection) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(worker.socket)
        with contextlib.suppress(OSError):
            worker.socket.close()
        if worker.gone:
            return
        worker.end()
        if worker in self.workers:
            self.workers.remove(worker)
            with contextlib.suppress(Exception):
                self._receiver.left(worker)
        with self._settled:
            self._settled.notify_all()
