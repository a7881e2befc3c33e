"""Attachment: puts the parts of the adapter together for one run.

Invariant: once detached, Ray's functions are the original ones, and no worker is connected.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any, Final

import ray

from nodescope.adapters.ray import compat, wire
from nodescope.adapters.ray.book import Book
from nodescope.adapters.ray.bound import BoundGraphs
from nodescope.adapters.ray.hub import Hub
from nodescope.adapters.ray.submitting import Submissions
from nodescope.adapters.ray.wire import Submitted
from nodescope.adapters.ray.worker import hook
from nodescope.console_output import last_line, say
from nodescope.emit.emitter import Emitter
from nodescope.errors import UsageError
from nodescope.events import Logged

INLINE: Final = 1 << 16
WHOLE: Final = 1 << 26
"""The largest array sent whole, in bytes: `INLINE` by default, `WHOLE` if all values are kept."""
_SETTLE_S: Final = 0.05
_DRAIN_S: Final = 2.0
_HOOK: Final = "worker_process_setup_hook"
_TIME_OUT_S: Final = 10.0  # Ray's default time-out for compiled graphs
_JOB: Final = "RAY_JOB_CONFIG_JSON_ENV_VAR"


class RayAttachment:
    """See `Attachment`."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._book = Book(emitter, _has_several_nodes, compat.failures)
        self._hub: Hub | None = None
        self._config = wire.Config(0)
        self._number = 0
        self._numbers = emitter.lanes  # workers' numbers; they go on from one cluster to the next
        self._before: Callable[[], None] | None = None
        self._graphs = BoundGraphs(
            self._submitted, lambda: self._inline, self._tell,
            lambda: self._book.held(_TIME_OUT_S), self._may_stop,
        )  # fmt: skip
        self.submissions = Submissions(
            self._graphs.submit, lambda: ("", 0), lambda: self._inline, self._ready,
            lambda: self._graphs.place,
        )  # fmt: skip

    @contextlib.contextmanager
    def attached(self) -> Iterator[None]:
        """Observe Ray until the context is left."""
        bus = self._emitter.bus
        self._before, bus.on_change = bus.on_change, self._changed
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.submissions.seen())
            stack.enter_context(self._graphs.seen())
            stack.enter_context(compat.replaced("init", self._init))
            stack.enter_context(compat.replaced("shutdown", self._shutdown))
            if ray.is_initialized():
                say(
                    "Ray was started before nodescope: only what this process submits is seen; "
                    "start nodescope first, or use nodescope run"
                )
            try:
                yield
            finally:
                self.submissions.off = True
                if bus.on_change == self._changed:
                    bus.on_change = self._before
                self._close()

    # Ray's own functions

    def _init(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def init(address: Any = None, *args: Any, **kwargs: Any) -> Any:
            if self.submissions.off or ray.is_initialized():
                return original(address, *args, **kwargs)
            try:
                options = {**kwargs, "runtime_env": self._hooked(address, kwargs)}
            except Exception as error:  # the program runs unobserved
                say(f"Ray's workers are not observed: {last_line(error)}")
                options = kwargs
            return original(address, *args, **options)

        return init

    def _hooked(self, address: Any, kwargs: dict[str, Any]) -> Any:
        """The program's runtime environment, with a set-up hook that runs before the program's own.

        Raises:
            UsageError: The Ray job of the program has a hook, which nodescope's would replace.
        """
        if _HOOK in os.environ.get(_JOB, ""):
            raise UsageError(f"their set-up is the job's ({_HOOK})")
        self._close()
        self._book = Book(self._emitter, _has_several_nodes, compat.failures)
        self._changed()
        where = _listen_at(address or os.environ.get("RAY_ADDRESS"))
        self._hub = Hub(_Receiver(self._book), self._config, self._numbers, where)
        of_job = getattr(kwargs.get("job_config"), "runtime_env", None)
        environment = dict(kwargs.get("runtime_env") or of_job or {})
        then = environment.get(_HOOK)
        environment[_HOOK] = hook(self._hub.host, self._hub.port, self._hub.token, then)
        return environment

    def _shutdown(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def shutdown(*args: Any, **kwargs: Any) -> Any:
            with contextlib.suppress(Exception):
                self._close()
            return original(*args, **kwargs)

        return shutdown

    def _close(self) -> None:
        """Process what workers have sent, and end the connections."""
        hub, self._hub = self._hub, None
        if hub is not None:
            hub.drain(_DRAIN_S)
            self._book.end()
            hub.close()

    def _submitted(self, message: Submitted) -> tuple[int, ...]:
        return self._book.submitted(message)

    def _tell(self, text: str) -> None:
        bus = self._emitter.bus
        bus.emit(Logged("nodescope", text, self._emitter.step, bus.now_ns()))

    # What is wanted

    @property
    def _inline(self) -> int:
        return self._config.inline if self._config.arrays else -1

    def _changed(self) -> None:
        """Send workers what the run's probes demand now."""
        if self._before is not None:
            self._before()
        demand = self._emitter.bus.demand
        at = demand.stops_at
        config = wire.Config(
            self._config.number,
            None if at.starts is None else tuple(sorted(at.starts)),
            None if at.ends is None else tuple(sorted(at.ends)),
            at.errors,
            bool(demand.arrays),
            WHOLE if demand.values else INLINE,
        )
        if config != self._config:
            self._number += 1
            self._config = config = _numbered(config, self._number)
            if self._hub is not None:
                self._hub.configure(config)

    def _may_stop(self) -> bool:
        """Whether a task may be asked to wait."""
        config = self._config
        return config.starts != () or config.ends != () or config.errors

    def _ready(self) -> None:
        """Before a submission, wait until workers know where to ask; at most `_SETTLE_S`."""
        if self._hub is not None:
            self._hub.settle(_SETTLE_S)

    # Attachment

    def rest(self) -> None:
        """Do nothing: observing a task costs little beside Ray's own work."""

    def wake(self) -> None:
        """Do nothing; see `rest`."""

    def step_begins(self) -> None:
        """Do nothing: the adapter counts nothing by step."""

    def steps_end(self) -> None:
        """Do nothing; see `step_begins`."""

    def forked(self) -> None:
        """Emit nothing in a forked child."""
        self.submissions.off = True
        self._book.off = True
        self._hub = None


class _Receiver:
    """The `Receiver` of one hub: the methods of one book."""

    def __init__(self, book: Book) -> None:
        self.joined, self.take, self.left, self.look = book.joined, book.take, book.left, book.look


def _numbered(config: wire.Config, number: int) -> wire.Config:
    import msgspec

    return msgspec.structs.replace(config, number=number)


def _has_several_nodes() -> bool:
    with contextlib.suppress(Exception):
        return sum(bool(node["Alive"]) for node in ray.nodes()) > 1
    return False


def _listen_at(address: str | None) -> str:
    """The address at which workers reach this process: loopback for a cluster on this machine."""
    if address in (None, "", "local"):
        return "127.0.0.1"
    host = "" if address == "auto" else str(address).rpartition("://")[2].rpartition(":")[0]
    if not host:
        return str(ray.util.get_node_ip_address())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))
        return str(probe.getsockname()[0])
