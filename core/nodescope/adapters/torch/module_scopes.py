"""Module scopes: each call of a module is a scope, named by its path in the outermost module.

The path of a parameter or buffer is that of its module, with its name there.

Invariant: the hooks return None and keep no module alive.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from nodescope.adapters.torch.compat import autograd_node
from nodescope.adapters.torch.module_facts import settings_of, type_name
from nodescope.adapters.torch.places import Place, Quiet
from nodescope.adapters.torch.storages import Owner
from nodescope.emit.emitter import Emitter
from nodescope.emit.phases import phase
from nodescope.emit.state import current
from nodescope.ir.graph import ScopeDescribed

if TYPE_CHECKING:
    from nodescope.adapters.torch.operations import Operations


class ModuleScopes:
    """The modules of a run."""

    def __init__(self, emitter: Emitter, operations: Operations, resume: Any) -> None:
        self._emitter = emitter
        self._operations = operations
        self._resume = resume
        self._paths: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._roots: dict[str, weakref.ref[Any]] = {}
        self._calls: dict[tuple[str, str], int] = {}
        self._token: object = None

    @contextlib.contextmanager
    def hooked(self) -> Iterator[None]:
        """Follow the calls of all modules."""
        hooks = (
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        )
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            modules = self._operations.place.modules
            while modules:  # Ctrl-C in a module calls no hook
                modules.pop()[2].__exit__(None, None, None)

    def _enter(self, module: Any, args: Any) -> None:
        if torch.compiler.is_compiling():  # Dynamo traces the hooks of all modules
            return
        place = self._operations.place
        if place.quiet:
            return
        try:
            self._called(place, module)
        except Exception:  # the program's call continues
            return

    def _called(self, place: Place, module: Any) -> None:
        recomputing = autograd_node() is not None
        if not place.modules and not recomputing and not place.backward:
            self._emitter.root_called(whole=not torch.is_grad_enabled())
            self._resume(place)
        if self._operations.off:
            return
        state = current()
        if place.outer is not None:
            self._operations.restore(place, state)
        path = self.path(module, place)
        outer = place.modules[-1][1] if place.modules else ""
        inside = (
            path.removeprefix(outer + "/")
            if outer and path.startswith(outer + "/")
            else (path.rpartition("/")[2] if outer else path)
        )
        contexts = contextlib.ExitStack()
        if recomputing and len(place.modules) == place.depth:
            contexts.enter_context(self._emitter.phase("recompute", path=path.rpartition("/")[0]))
            inside = path.rpartition("/")[2]
        elif state.phase == "optimizer" and not place.modules:
            contexts.enter_context(phase(state, "forward", ""))
            state.scope = ""
        contexts.enter_context(self._emitter.scope(inside, self._call(state.scope, inside)))
        place.modules.append((module, path, contexts))

    def _leave(self, module: Any, args: Any, output: Any) -> None:
        if torch.compiler.is_compiling():
            return
        modules = self._operations.place.modules
        # A module that was entered while nothing was emitted has no scope.
        if any(entered is module for entered, _, _ in modules):
            while modules:
                entered, _, scope = modules.pop()
                scope.__exit__(None, None, None)
                if entered is module:
                    break

    def _call(self, scope: str, inside: str) -> int:
        """How many calls of a module there were at this place in this step."""
        state = current()
        token = self._emitter.token(state)
        if token is not self._token:
            self._token = token
            self._calls.clear()
        key = (scope, inside)
        count = self._calls.get(key, 0)
        self._calls[key] = count + 1
        return count

    # Names

    def name_model(self, module: Any, name: str) -> None:
        """Name an outermost module, in place of its class."""
        if isinstance(module, torch.nn.Module):
            self._name(module, name.strip("/").replace(".", "/") or type(module).__name__)

    def path(self, module: Any, place: Place) -> str:
        """The path of a module: the class of the outermost module, and the names inside."""
        path = self._paths.get(module)
        if path is None:
            if place.modules:
                outer, outer_path, _ = place.modules[-1]
                self._name(outer, outer_path)
                path = self._paths.get(module)
                if path is None:  # no child of the module that calls it
                    path = f"{outer_path}/{type(module).__name__}"
                    self._name(module, path)
            else:
                path = self._root_name(module)
                self._name(module, path)
        return path

    def _root_name(self, module: Any) -> str:
        class_name = name = type(module).__name__
        number = 1
        while (known := self._roots.get(name)) is not None and known() is not None:
            name, number = f"{class_name}_{number}", number + 1
        self._roots[name] = weakref.ref(module)
        return name

    def _name(self, module: Any, path: str) -> None:
        operations, emit = self._operations, self._emitter.bus.emit
        values = operations.values
        if operations.road is not None:
            operations.road.lose()  # whose a tensor is may change what it is
        with Quiet(operations.place):
            for name, child in module.named_modules():
                child_path = f"{path}/{name.replace('.', '/')}" if name else path
                if child not in self._paths:
                    self._paths[child] = child_path
                    emit(ScopeDescribed(child_path, type_name(child), settings_of(child)))
                for label, parameter in child.named_parameters(recurse=False):
                    values.own(parameter, Owner("parameter", child_path, label))
                for label, buffer in child.named_buffers(recurse=False):
                    values.own(buffer, Owner("buffer", child_path, label))
