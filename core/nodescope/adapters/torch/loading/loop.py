"""Loop: the function that a data loader worker runs in place of PyTorch's loop, which it calls.

Each sample is a step of the worker, so it executes the nodes of the previous sample again.

Invariant: PyTorch's loop runs once, on the program's own data set, even if observing fails.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Client, Connection
from typing import Any, Final

from nodescope.adapters.torch import compat
from nodescope.console_output import last_line, say
from nodescope.emit.state import current
from nodescope.ir.graph import SourceLocation

_PATIENCE_S: Final = 10.0


class ObservedLoop:
    """Replaces `compat.worker_loop` and takes its arguments; is sent to the worker.

    Args:
        address: The address where the program listens.
        key: The secret that both ends of the connection have to know.
        loader: The number of the data loader.
        origin_ns: The start of the run, by `time.perf_counter_ns`.
        paced: Whether the worker leaves batches unobserved to limit the slowdown.
        source: The program's line that iterates over the loader.
        attach: Makes the attachment that observes a process.
        inner: The loop that another tool had put in place of PyTorch's, or None.
    """

    def __init__(
        self, address: Any, key: bytes, loader: int, origin_ns: int, paced: bool,
        source: SourceLocation | None, attach: Callable[[Any], Any],
        inner: Callable[..., None] | None,
    ) -> None:  # fmt: skip
        self.address, self.key, self.loader = address, key, loader
        self.origin_ns, self.paced, self.source = origin_ns, paced, source
        self.attach, self.inner = attach, inner

    def __call__(self, *args: Any) -> None:
        """Run the loop, observed if possible."""
        inner = self.inner or compat.worker_loop
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self._observed(args[compat.WORKER_ID]))
            except Exception as error:
                say(f"a worker of a data loader goes unobserved: {last_line(error)}")
            inner(*args)

    @contextlib.contextmanager
    def _observed(self, worker: int) -> Iterator[None]:
        from nodescope.adapters.torch.loading.messages import Hello
        from nodescope.adapters.torch.loading.reporter import Reporter
        from nodescope.adapters.torch.places import Quiet
        from nodescope.emit import state
        from nodescope.emit.emitter import Emitter
        from nodescope.events import Bus
        from nodescope.origins import add_internal_package

        add_internal_package(str(sys.modules["torch"].__file__))
        state.local.place = state.ThreadState()  # a forked process still has the program's state
        bus = Bus()
        bus.origin_ns = self.origin_ns
        emitter = Emitter(bus)
        attachment = self.attach(emitter)
        place = attachment.operations.place
        connection: Connection = Client(self.address, authkey=self.key)
        reporter = Reporter(connection, emitter, lambda: Quiet(place), self.__call__.__code__)
        bus.add(reporter)
        reporter.greet(Hello(self.loader, worker, os.getpid()), _PATIENCE_S)
        with attachment.attached():
            emitter.attachments = (attachment,)
            attachment.rest()  # observe nothing between batches
            batches = _Batches(emitter, attachment, reporter, self.paced, self.source)
            state.worker = batches
            try:
                with batches.seen():
                    yield
            finally:
                state.worker = None
            reporter.flush()


class _Batches:
    """Observes what a worker computes for its batches.

    Attributes:
        bus, gate, refused, step: See `nodescope.emit.state.worker`.
    """

    def __init__(
        self, emitter: Any, attachment: Any, reporter: Any, paced: bool,
        source: SourceLocation | None,
    ) -> None:  # fmt: skip
        from nodescope.adapters.torch.loading.pacing import Pacing

        self._emitter, self._attachment, self._reporter = emitter, attachment, reporter
        self._pacing = Pacing() if paced else None
        self._fetches = self._observes = False
        self._source = source
        self.bus, self.gate = emitter.bus, self
        self.refused: set[str] = set()

    @property
    def step(self) -> int:
        """The number of the sample."""
        return int(self._emitter.step)

    def break_here(self, text: str) -> None:
        """Stop the worker at its next node; the rest of its batch is observed."""
        self._reporter.break_here(text)
        if self._reporter.stop_text and self._fetches and not self._observes:
            self._observes = True
            self._attachment.wake()
            self._emitter.begin_step()

    @contextlib.contextmanager
    def seen(self) -> Iterator[None]:
        """Observe the fetchers of this process inside the context."""
        originals = {kind: kind.fetch for kind in compat.fetchers}
        try:
            for kind, original in originals.items():
                kind.fetch = self._observing(original)
            yield
        finally:
            for kind, original in originals.items():
                kind.fetch = original

    def _observing(self, original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def fetch(fetcher: Any, index: Any) -> Any:
            reporter, pacing = self._reporter, self._pacing
            if not isinstance(fetcher.collate_fn, _Collated):
                self._prepare(fetcher)
            reporter.look()
            if reporter.broken:
                return original(fetcher, index)
            wanted = reporter.wanted.whole or bool(reporter.stop_text)
            observed = pacing is None or wanted or pacing.observes()
            self._fetches, self._observes = True, observed
            start = time.perf_counter_ns()
            if observed:
                self._attachment.wake()
            try:
                return original(fetcher, index)
            finally:
                observed = self._observes
                self._fetches = self._observes = False
                if observed:
                    self._attachment.rest()
                if pacing is not None and not reporter.wanted.whole:
                    pacing.took(time.perf_counter_ns() - start, observed=observed)
                reporter.flush()

        return fetch

    def _prepare(self, fetcher: Any) -> None:
        fetcher.collate_fn = _Collated(fetcher.collate_fn, self._emitter, self._source)
        if hasattr(fetcher, "dataset_iter"):
            fetcher.dataset_iter = _Items(fetcher.dataset_iter, self._begin_sample)
        else:
            fetcher.dataset = _Samples(fetcher.dataset, self._begin_sample)

    def _begin_sample(self) -> None:
        if self._observes:  # beginning a step would wake an attachment that rests
            self._emitter.begin_step()


class _Collated:
    """Wraps the function that makes a batch of samples: it runs in the scope ``collate``.

    For PyTorch's own functions, the source of the nodes is the line that iterates over the loader.
    """

    def __init__(
        self, collate: Callable[[Any], Any], emitter: Any, source: SourceLocation | None
    ) -> None:
        self._collate, self._emitter = collate, emitter
        own = str(getattr(collate, "__module__", "")).startswith("torch.")
        self._source = source if own else None

    def __call__(self, samples: Any) -> Any:
        state = current()
        before, state.source = state.source, self._source
        try:
            with self._emitter.scope("collate"):
                return self._collate(samples)
        finally:
            state.source = before


class _Samples:
    """Wraps a data set: calls a function before each access to its samples."""

    def __init__(self, dataset: Any, begin: Callable[[], None]) -> None:
        self._dataset, self._begin = dataset, begin
        if getattr(dataset, "__getitems__", None):
            self.__getitems__ = self._several

    def __getitem__(self, index: Any) -> Any:
        self._begin()
        return self._dataset[index]

    def _several(self, indices: Any) -> Any:
        self._begin()
        return self._dataset.__getitems__(indices)


class _Items:
    """Wraps the iterator of an iterable data set: calls a function before each sample."""

    def __init__(self, items: Any, begin: Callable[[], None]) -> None:
        self._items, self._begin = items, begin

    def __iter__(self) -> _Items:
        return self

    def __next__(self) -> Any:
        self._begin()
        return next(self._items)
