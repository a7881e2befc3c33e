"""In the program: observes what a data loader without workers computes, in the scope ``data``.

Data loading runs between the operations of the program's steps, also in the middle of steps that
follow a script. Its operations are therefore kept apart from the steps: they have their own value
ids and call counts, as in a worker. Each sample executes the nodes of the previous sample.

Invariant: steps begin, end and are followed as if data loading were not observed. A batch is made
once, by the program's own data set.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

from nodescope.adapters.torch.follower.follower import Follower
from nodescope.adapters.torch.loading.pacing import Pacing
from nodescope.adapters.torch.native_tap.fast_path import StepFastPath
from nodescope.adapters.torch.operations import Operations
from nodescope.adapters.torch.tap import Tap
from nodescope.console_output import say
from nodescope.emit import state as states
from nodescope.emit.emitter import Emitter
from nodescope.emit.frames import user_source
from nodescope.emit.state import ThreadState, current
from nodescope.ir.graph import SourceLocation
from nodescope.ir.scopes import join

_HERE: Final = -1  # for the native tap: observe operations at the thread's present quiet level


class _Counts(Emitter):
    """Counts calls per sample; shares the bus and the graph of the run's emitter."""

    def __init__(self, emitter: Emitter) -> None:
        told = emitter.bus.tell_steps
        super().__init__(emitter.bus)
        emitter.bus.tell_steps = told
        self.identity, self.base, self.lock = emitter.identity, emitter.base, emitter.lock
        self.stepped = self.marked = self.step_open = True

    def begin_sample(self) -> None:
        """Restart the call counts."""
        self.epoch = self.steady = object()


class _Thread(threading.local):
    """Observes the data loading of one thread.

    Attributes:
        state: The thread's state during data loading.
        operations: The operations of data loading.
    """

    def __init__(self, emitter: Emitter, all_of_run: list[Operations]) -> None:
        self.state = ThreadState()
        self.emitter = _Counts(emitter)
        self.operations = Operations(self.emitter, say)
        self.operations.off, self.operations.gradients.off = False, True
        all_of_run.append(self.operations)
        self._follower = Follower(self.operations.place, self.operations.state_before)
        self.operations.values.storages.use(self._follower)
        self._fast_path = StepFastPath(self._follower, self.operations)  # it follows no steps

    def tap(self) -> Tap:
        """A new dispatch mode that observes the thread's data loading."""
        return Tap(self.operations, self._fast_path, self._follower)


class InProgram:
    """The data loaders of a run that have no workers.

    Args:
        emitter, operations: The run's emitter and operations.
        native: The native tap's library; None if the run uses the Python tap.
    """

    def __init__(self, emitter: Emitter, operations: Operations, native: Any) -> None:
        self._emitter, self._operations, self._native = emitter, operations, native
        self._all: list[Operations] = []
        self._thread = _Thread(emitter, self._all)
        self._loaders: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._iterators: weakref.WeakKeyDictionary[Any, _Batches] = weakref.WeakKeyDictionary()
        self._pacing = Pacing()
        self._lock = threading.RLock()

    def end(self) -> None:
        """End the run: observe nothing from now on."""
        for operations in self._all:
            operations.off = True
            operations.devices.end()

    def began(self, loader: Any, iterator: Any) -> None:
        """Register an iterator of a loader; one with workers is ignored."""
        if getattr(iterator, "_dataset_fetcher", None) is None:
            return
        with self._lock:
            number = self._loaders.get(loader)
            if number is None:
                taken = {*self._loaders.values(), *(one.number for one in self._iterators.values())}
                number = next(number for number in itertools.count() if number not in taken)
                self._loaders[loader] = number
            self._iterators[iterator] = _Batches(self, number, user_source())

    @contextlib.contextmanager
    def fetching(self, iterator: Any) -> Iterator[None]:
        """Observe the batch made inside, if the loader has no workers and `Pacing` allows it."""
        batches = self._iterators.get(iterator)
        if batches is None or not self._may():
            yield
            return
        bus = self._emitter.bus
        paced = bus.leaves_out is not None and not bus.demand.seen_whole
        observed = not paced or self._pacing.observes()
        start = time.perf_counter_ns()
        try:
            with batches.seen(iterator._dataset_fetcher) if observed else contextlib.nullcontext():
                yield
        finally:
            if paced:
                self._pacing.took(time.perf_counter_ns() - start, observed=observed)

    def _may(self) -> bool:
        operations = self._operations
        if operations.off or operations.place.data is not None or current().builder is not None:
            return False
        return self._native is not None or operations.place.mode is not None

    def begin_batch(self) -> None:
        """Begin an observed batch; tensors seen earlier may have changed unobserved since then."""
        own = self._thread.operations
        own.values.gap += 1
        own.begin_step()
        catch_up = self._emitter.bus.catch_up
        if catch_up is not None:
            catch_up()

    @contextlib.contextmanager
    def seen(
        self, scope: str, source: SourceLocation | None = None, *, sample: bool = False
    ) -> Iterator[None]:
        """Observe what the thread computes inside the context, in a scope.

        Args:
            scope: The path of the scope.
            source: The source line of all nodes; None to look up the line of each.
            sample: Whether this begins a new sample.
        """
        operations, thread = self._operations, self._thread
        if operations.off:
            yield
            return
        place, outer, emitter, state = operations.place, current(), thread.emitter, thread.state
        if sample:
            emitter.begin_sample()
        emitter.step = self._emitter.step
        state.scope, state.phase, state.cursor, state.source = scope, "forward", None, source
        version, journal = emitter.identity.version, operations.values.journal
        mode: Any = contextlib.nullcontext() if self._native is not None else thread.tap()
        states.local.place, place.data = state, thread.operations
        before = None if self._native is None else self._native.loud(_HERE)
        try:
            with mode:
                yield
        finally:
            if before is not None:
                self._native.loud(before)
            states.local.place, place.data = outer, None
            if journal is not None:  # nodes defined for data do not count as new nodes of the step
                journal.version += emitter.identity.version - version


class _Batches:
    """An iterator over the batches of a loader.

    Args:
        program: The observer.
        number: The number of the loader.
        source: The program's line that iterates over the loader.
    """

    def __init__(self, program: InProgram, number: int, source: SourceLocation | None) -> None:
        self._program, self.number, self._source = program, number, source
        self._scope = f"data_{number}" if number else "data"

    @contextlib.contextmanager
    def seen(self, fetcher: Any) -> Iterator[None]:
        """Observe the data set and the collate function that a fetcher calls inside the context."""
        data = "dataset_iter" if hasattr(fetcher, "dataset_iter") else "dataset"
        before = {name: getattr(fetcher, name) for name in (data, "collate_fn")}
        around = _Items if data == "dataset_iter" else _Samples
        self._program.begin_batch()
        setattr(fetcher, data, around(before[data], self._sample))
        fetcher.collate_fn = self._collated(before["collate_fn"])
        try:
            yield
        finally:
            for name, own in before.items():
                setattr(fetcher, name, own)

    def _sample(self, make: Callable[..., Any], *given: Any) -> Any:
        with self._program.seen(self._scope, sample=True):
            return make(*given)

    def _collated(self, collate: Callable[[Any], Any]) -> Callable[[Any], Any]:
        # Nodes of PyTorch's own functions have the line that iterates over the loader.
        own = str(getattr(collate, "__module__", "")).startswith("torch.")

        def collated(samples: Any) -> Any:
            scope = join(self._scope, "collate")
            with self._program.seen(scope, self._source if own else None):
                return collate(samples)

        return collated


class _Samples:
    """Wraps a data set: each access to its samples goes through a function."""

    def __init__(self, dataset: Any, sample: Callable[..., Any]) -> None:
        self._dataset, self._sample = dataset, sample
        if getattr(dataset, "__getitems__", None):
            self.__getitems__ = self._several

    def __getitem__(self, index: Any) -> Any:
        return self._sample(operator.getitem, self._dataset, index)

    def _several(self, indices: Any) -> Any:
        return self._sample(self._dataset.__getitems__, indices)


class _Items:
    """Wraps the iterator of an iterable data set: each sample is made through a function."""

    def __init__(self, items: Any, sample: Callable[..., Any]) -> None:
        self._items, self._sample = items, sample

    def __iter__(self) -> _Items:
        return self

    def __next__(self) -> Any:
        return self._sample(next, self._items)
