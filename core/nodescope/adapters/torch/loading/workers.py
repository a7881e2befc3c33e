"""Workers: the program's end of the connections to the workers of its data loaders.

Invariant: the program's own threads never wait for a worker here. Once a worker's connection has
ended, nothing waits for that worker.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import queue
import secrets
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, Final

import msgspec
import numpy as np
from torch.utils.data import DataLoader

from nodescope.adapters.torch import compat
from nodescope.adapters.torch.loading.loop import ObservedLoop
from nodescope.adapters.torch.loading.messages import (
    Configured,
    Defined,
    Fetch,
    Fetched,
    FromWorker,
    Go,
    Hello,
    Ran,
    Wanted,
    array_of,
    elements,
)
from nodescope.adapters.torch.loading.mirror import Mirror
from nodescope.console_output import last_line, say
from nodescope.emit.emitter import Emitter
from nodescope.emit.tasks import Remote
from nodescope.errors import ArrayError
from nodescope.events import Array, Gone, Logged
from nodescope.ir.device_times import DeviceRan
from nodescope.ir.graph import ScopeDescribed, SourceLocation
from nodescope.protocol import Frame

FETCH_S: Final = 5.0
_DRAIN_S: Final = 1.0
_SLICE_S: Final = 0.05
_PARTING: Final = (EOFError, OSError, pickle.UnpicklingError)


class Workers:
    """The workers of one run.

    Args:
        emitter: The run's emitter.
        attach: Makes the attachment that observes a worker; it is pickled or inherited by it.

    Attributes:
        wanted: What the workers have to report.
    """

    def __init__(self, emitter: Emitter, attach: Callable[[Emitter], Any]) -> None:
        self._emitter = emitter
        self._attach = attach
        self._loaders: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._remotes: dict[tuple[int, int], list[Remote]] = {}
        self._listener: Listener | None = None
        self._key = secrets.token_bytes(32)
        self._lock = threading.RLock()
        self._connected: set[_Worker] = set()
        self.wanted = Wanted()
        self._off = self._said = False
        self._asked = 0  # number of executions for which a worker waited
        self._starting = threading.RLock()

    @contextlib.contextmanager
    def observed(self) -> Iterator[None]:
        """Serve the workers that `start` has observed, until the context is left."""
        bus = self._emitter.bus
        before = bus.on_change

        def changed() -> None:
            if before is not None:
                before()
            self._change()

        bus.on_change = changed
        self._change()
        try:
            with compat.waiting_for_workers(self._waits):
                yield
        finally:
            if bus.on_change is changed:
                bus.on_change = before
            self._end()

    @contextlib.contextmanager
    def start(self, loader: Any, source: SourceLocation | None) -> Iterator[None]:
        """Observe the workers that a loader starts inside the context.

        Args:
            loader: The loader.
            source: The program's line that iterates over the loader.
        """
        if self._off or not isinstance(loader, DataLoader) or not loader.num_workers:
            yield
            return
        with self._starting, contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self._replaced(loader, source))
            except Exception as error:
                say(f"the workers of a data loader go unobserved: {last_line(error)}")
            yield

    @contextlib.contextmanager
    def _replaced(self, loader: Any, source: SourceLocation | None) -> Iterator[None]:
        number = self._loaders.get(loader)
        if number is None:
            taken = set(self._loaders.values())
            number = next(number for number in itertools.count() if number not in taken)
            self._loaders[loader] = number
        for worker in range(loader.num_workers):  # reserve their lanes in order
            if (number, worker) not in self._remotes:
                self._remote(number, worker)
        address, bus = self._listen(), self._emitter.bus

        def loop(inner: Callable[..., None]) -> ObservedLoop:
            return ObservedLoop(
                address, self._key, number, bus.origin_ns, bus.leaves_out is not None,
                source, self._attach, None if inner is compat.worker_loop else inner,
            )  # fmt: skip

        with compat.other_worker_loop(loop):
            yield

    def _waits(self, original: Callable[[float], tuple[bool, Any]], timeout_s: float) -> Any:
        """Wait for a batch; the time during which a worker is stopped does not count."""
        while True:
            asked = self._asked
            success, data = original(timeout_s)
            held = any(worker.asks for worker in tuple(self._connected))
            if success or not (held or asked != self._asked):
                return success, data
            if held and not self._said and timeout_s != compat.LOADERS_OWN_WAIT_S:
                self._said = True
                say(
                    f"a worker of a data loader is stopped: its timeout of {timeout_s:g} s does "
                    "not count meanwhile"
                )

    def _asks(self) -> None:
        self._asked += 1

    def forked(self) -> None:
        """In a forked child, close the connections, which belong to the parent."""
        self._off = True
        for worker in self._connected:
            with contextlib.suppress(OSError):
                worker.connection.close()
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.close()

    # Connections

    def _listen(self) -> Any:
        with self._lock:
            if self._listener is None:
                self._listener = Listener(authkey=self._key, backlog=64)
                threading.Thread(
                    target=self._accept, args=(self._listener,), name="nodescope-loading",
                    daemon=True,
                ).start()  # fmt: skip
            return self._listener.address

    def _accept(self, listener: Listener) -> None:
        while not self._off:
            try:
                connection = listener.accept()
            except Exception:
                if self._off:
                    return
                continue
            name = "nodescope-loading-worker"
            threading.Thread(target=self._serve, args=(connection,), name=name, daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        worker: _Worker | None = None
        try:
            for message in pickle.loads(connection.recv_bytes()):
                if worker is None and isinstance(message, Hello):
                    worker = self._join(connection, message)
            while worker is not None:
                worker.take(pickle.loads(connection.recv_bytes()))
        except _PARTING:
            pass
        except Exception as error:
            if not self._off:
                say(f"a worker of a data loader goes unobserved: {last_line(error)}")
        finally:
            if worker is not None:
                self._left(worker)
            _close(connection)

    def _join(self, connection: Connection, hello: Hello) -> _Worker:
        loader, number = hello.loader, hello.worker
        with self._lock:
            known = self._remotes.get((loader, number), [])
            busy = {worker.remote for worker in self._connected}
            remote = next((remote for remote in known if remote not in busy), None)
        if remote is None:  # a second iterator of the same loader runs at the same time
            remote = self._remote(loader, number)
        with self._lock:
            self._emitter.bus.gone.discard(remote.state.thread)
            scope = f"data_{loader}" if loader else "data"
            worker = _Worker(
                connection, self._emitter, remote, f"{scope}/worker_{number}", self._asks
            )
            self._connected.add(worker)
            worker.want(self.wanted)
        return worker

    def _remote(self, loader: int, number: int) -> Remote:
        """Add a worker to the run, with a lane of its own."""
        remote = Remote(next(self._emitter.lanes))
        with self._lock:
            self._remotes.setdefault((loader, number), []).append(remote)
        name = f"worker {number} of {loader}" if loader else f"worker {number}"
        self._emitter.bus.emit(DeviceRan(remote.number, name, np.empty((0, 4), np.int64)))
        return remote

    def _left(self, worker: _Worker) -> None:
        self._emitter.bus.gone.add(worker.remote.state.thread)
        worker.end()
        with self._lock:
            self._connected.discard(worker)

    def _change(self) -> None:
        """Send the workers the new `Wanted` if the probes' demand has changed."""
        bus = self._emitter.bus
        demand = bus.demand
        with self._lock:
            before = self.wanted
            now = Wanted(
                before.number, demand.stops_at, bool(demand.arrays),
                demand.values and bus.leaves_out is None, bool(demand.seen_whole),
                any(hasattr(probe, "break_here") for probe in bus.probes),
            )  # fmt: skip
            if now == before:
                return
            self.wanted = msgspec.structs.replace(now, number=before.number + 1)
            for worker in tuple(self._connected):
                worker.want(self.wanted)

    def _end(self) -> None:
        """Process the messages that have arrived, and close the connections."""
        self._off = True
        for worker in tuple(self._connected):
            worker.drain(_DRAIN_S)
        with self._lock:
            listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(Exception):
                Client(listener.address).close()  # wakes the accepting thread, which then ends
            listener.close()
        for worker in tuple(self._connected):
            worker.close()


class _Worker:
    """The connection to one worker.

    Attributes:
        remote: The worker, as the run sees it.
        asks: Whether the worker waits for an answer.
    """

    def __init__(
        self, connection: Connection, emitter: Emitter, remote: Remote, scope: str,
        asked: Callable[[], None],
    ) -> None:  # fmt: skip
        self.connection, self.remote = connection, remote
        self._asked = asked
        self.asks = False
        self._bus = emitter.bus
        self._mirror = Mirror(emitter, remote, scope)
        self._sending = threading.RLock()
        self._wanted: Wanted | None = None  # waits until the worker confirms the previous one
        self._pending = False
        self._gone = False
        self._taken = threading.Event()
        self._fetched: queue.SimpleQueue[Fetched] = queue.SimpleQueue()
        self._work: queue.SimpleQueue[Ran | None] | None = None

    def take(self, messages: Sequence[FromWorker]) -> None:
        """Process messages of the worker."""
        for message in messages:
            self._take(message)
        self._taken.set()

    def _take(self, message: FromWorker) -> None:
        if isinstance(message, Ran):
            if not message.asks:
                self._mirror.ran(message, None)
                return
            self.asks = True
            self._asked()
            if self._work is None:
                self._work = queue.SimpleQueue()
                name = f"nodescope-loading-{self.remote.number}"
                threading.Thread(
                    target=self._stand_in, args=(self._work,), name=name, daemon=True
                ).start()
            self._work.put(message)
        elif isinstance(message, Defined):
            self._mirror.define(message)
        elif isinstance(message, ScopeDescribed):
            self._mirror.describe(message)
        elif isinstance(message, Fetched):
            self._fetched.put(message)
        elif isinstance(message, Logged):
            self._bus.emit(message)
        elif isinstance(message, Configured):
            with self._sending:
                self._pending = False
                wanted, self._wanted = self._wanted, None
                if wanted is not None:
                    self.want(wanted)

    def want(self, wanted: Wanted) -> None:
        """Send `Wanted`, once the worker has confirmed the previous one."""
        with self._sending:
            if self._pending:
                self._wanted = wanted
            else:
                self._pending = True
                self._send(wanted)

    def fetch(self, port: int, window: tuple[tuple[int, int], ...] | None) -> Array:
        """Fetch the elements of a value at the node where the worker waits.

        Raises:
            ArrayError: The value has no elements, or the worker does not answer or has continued.
        """
        if self._gone or not self.asks:
            raise ArrayError("the worker that had it has gone on")
        while not self._fetched.empty():
            self._fetched.get()
        self._send(Fetch(port, window))
        try:
            fetched = self._fetched.get(timeout=FETCH_S)
        except queue.Empty:
            fetched = Fetched(None, f"the worker has not answered for {FETCH_S:g} s")
        array = None if fetched.data is None else array_of(fetched.data)
        if array is None:
            raise ArrayError(fetched.error or "the worker is gone")
        return array

    def _stand_in(self, work: queue.SimpleQueue[Ran | None]) -> None:
        """Emit executions for which the worker waits, on a thread that the debugger may stop."""
        thread = self.remote.state.thread
        while (message := work.get()) is not None:
            edits: dict[int, Any] = {}
            try:
                self._bus.stacks[thread] = tuple[Frame, ...](message.stack)
                if message.stop_text:
                    self._break_here(message.stop_text)
                edits = self._mirror.ports(message, self._mirror.ran(message, self))
            except Gone:
                pass
            except Exception as error:
                say(f"a worker of a data loader goes unobserved: {last_line(error)}")
            finally:
                self._bus.stacks.pop(thread, None)
                self.asks = False
                self._send(Go({port: elements(array) for port, array in edits.items()}))

    def _break_here(self, text: str) -> None:
        """Have the program stop at its next node, which is the worker's."""
        for probe in self._bus.probes:
            if hasattr(probe, "break_here"):
                probe.break_here(text)

    def _send(self, message: Any) -> None:
        with self._sending, contextlib.suppress(OSError, ValueError):
            if not self._gone:
                self.connection.send_bytes(pickle.dumps(message))

    def end(self) -> None:
        """Note that the worker is gone."""
        self._gone, self.asks = True, False
        self._fetched.put(Fetched(None, "the worker is gone"))
        if self._work is not None:
            self._work.put(None)

    def drain(self, patience_s: float) -> None:
        """Wait until the messages that have arrived are processed."""
        until = time.monotonic() + patience_s
        with contextlib.suppress(OSError, ValueError):
            while not self._gone and self.connection.poll(0) and time.monotonic() < until:
                self._taken.wait(_SLICE_S)
                self._taken.clear()

    def close(self) -> None:
        """Close the connection; the worker continues unobserved."""
        _close(self.connection)


def _close(connection: Connection) -> None:
    """Close a connection, and wake the thread that reads from it."""
    with contextlib.suppress(OSError, ValueError):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)
        connection.close()
