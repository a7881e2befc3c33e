"""Attached adapters: which libraries a run observes, and since when.

Adapters are known by name and loaded when they are needed: nodescope's own by their module, others
by the entry point ``nodescope.adapter``. An adapter is attached when the run begins, or as soon as
its library has been imported.

Invariant: a failing adapter is reported in one line and left out; the program continues.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from nodescope import arrays
from nodescope.adapters.protocol import Adapter
from nodescope.console_output import last_line, printable, say
from nodescope.emit.emitter import Attachment, Emitter
from nodescope.errors import UsageError
from nodescope.ir.capabilities import Framework
from nodescope.origins import add_internal_package
from nodescope.plugins import plugins

GROUP: Final = "nodescope.adapter"
# The adapters that come with nodescope: the module of each, which defines `ADAPTER`.
_OWN: Final = (
    "nodescope.adapters.numpy_engine",
    "nodescope.adapters.torch",
    "nodescope.adapters.ray",
)


def known_adapters(complain: Callable[[str], None] = lambda text: None) -> tuple[Adapter, ...]:
    """All installed adapters; ``complain`` takes a line for each that cannot be loaded."""
    adapters: list[Adapter] = [import_module(name).ADAPTER for name in _OWN]
    for entry in plugins(GROUP):
        try:
            adapter = entry.load()
            adapters.append(adapter() if isinstance(adapter, type) else adapter)
        except Exception as error:
            complain(f"the adapter {entry.name!r} cannot be loaded ({last_line(error)})")
    return tuple(adapters)


def framework_of(adapter: Adapter) -> Framework:
    """The framework that an adapter observes, as a run reports it."""
    threads = getattr(adapter, "threads", None)
    return Framework(
        printable(adapter.name), printable(adapter.version()), adapter.capabilities(),
        0 if threads is None else threads(),
    )  # fmt: skip


class Attached:
    """The adapters of a run.

    Args:
        adapters: The adapters that may be attached.
        complain: Prints each message to the user.
        on_framework: Called with each framework once it is observed.
    """

    def __init__(
        self,
        adapters: Sequence[Adapter],
        complain: Callable[[str], None],
        on_framework: Callable[[Framework], None] = lambda framework: None,
    ) -> None:
        self._adapters = tuple(adapters)
        self._complain = complain
        self._on_framework = on_framework
        self._attached: dict[str, Adapter] = {}
        self._stack = ExitStack()
        self._emitter: Emitter | None = None
        self._finder: _Finder | None = None
        self._lock = threading.RLock()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attached adapters."""
        return tuple(self._attached)

    @property
    def first(self) -> Adapter:
        """The adapter whose capabilities are the run's: the first attached, or the first known."""
        return next(iter(self._attached.values()), self._adapters[0])

    def begin(self, emitter: Emitter) -> None:
        """Attach adapters whose libraries have been imported; wait for the others' imports.

        Raises:
            UsageError: A library is already observed.
        """
        self._emitter = emitter
        waiting: dict[str, Adapter] = {}
        for adapter in self._adapters:
            if adapter.module in sys.modules:
                self._attach(adapter)
            else:
                waiting[adapter.module] = adapter
        if waiting:
            self._finder = _Finder(waiting, self._attach)
            sys.meta_path.insert(0, self._finder)

    def end(self) -> None:
        """Detach all adapters."""
        if self._finder is not None and self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        self._emitter = None
        self._stack.close()

    def forked(self) -> None:
        """Handle a fork in the child: emit nothing any more."""
        if self._finder is not None and self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        emitter, self._emitter = self._emitter, None
        for attachment in emitter.attachments if emitter is not None else ():
            attachment.forked()

    def _attach(self, adapter: Adapter) -> None:
        with self._lock:
            emitter = self._emitter
            if emitter is None or adapter.name in self._attached:
                return
            why = adapter.missing()
            if why:
                self._complain(f"{adapter.name} is not observed: {why}")
                return
            for name in (adapter.module, type(adapter).__module__):
                file = getattr(sys.modules.get(name), "__file__", None)
                if file:  # frames in the library and in the adapter are not the user's
                    add_internal_package(file)
            arrays.register(adapter.arrays())
            try:
                attachment: Attachment = self._stack.enter_context(adapter.attach(emitter))
            except UsageError:
                raise
            except Exception as error:  # the program runs without it
                self._complain(f"{adapter.name} is not observed: {last_line(error)}")
                return
            self._attached[adapter.name] = adapter
            emitter.attachments = (*emitter.attachments, attachment)
            if emitter.resting:
                attachment.rest()
            self._on_framework(framework_of(adapter))


class _Finder(MetaPathFinder):
    """A finder that calls the other finders, and attaches an adapter once its library is loaded."""

    def __init__(self, waiting: dict[str, Adapter], attach: Callable[[Adapter], None]) -> None:
        self._waiting, self._attach = waiting, attach

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec found by another finder, with a loader that reports completion."""
        adapter = self._waiting.get(name)
        if adapter is None:
            return None
        for finder in sys.meta_path:
            if finder is not self:
                spec = finder.find_spec(name, path, target)
                if spec is not None and spec.loader is not None:
                    # The caller may only inspect the spec, so wait until the module is loaded.
                    spec.loader = _Telling(spec.loader, lambda: self._loaded(name, adapter))
                    return spec
        return None

    def _loaded(self, name: str, adapter: Adapter) -> None:
        self._waiting.pop(name, None)
        self._attach(adapter)


class _Telling(Loader):
    """A loader that reports when its module has been loaded."""

    def __init__(self, loader: Any, callback: Callable[[], None]) -> None:
        self._loader, self._callback = loader, callback

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As in the wrapped loader."""
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, and report it."""
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        try:
            self._callback()
        except Exception as error:  # a failure here must not break the program's import
            say(f"not attached: {last_line(error)}")
