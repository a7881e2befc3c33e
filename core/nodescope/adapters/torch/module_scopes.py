"""Module scopes: each call of a module is a scope, named by its path in the outermost module.

What a module's own forward hooks compute belongs to its call.

The path of a parameter or buffer is that of its module, with its name there.

Invariant: the hooks return None and keep no module alive.
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.nn.parameter import is_lazy

from nodescope.adapters.torch.compat import (
    add_last_hook,
    autograd_node,
    has_last_hook,
    hidden_hooks,
    remove_last_hook,
)
from nodescope.adapters.torch.module_facts import settings_of, type_name
from nodescope.adapters.torch.places import FastPath, Place, Quiet
from nodescope.adapters.torch.storages import Owner
from nodescope.emit.emitter import Emitter
from nodescope.emit.phases import Scope, phase
from nodescope.emit.state import ThreadState, current
from nodescope.ir.graph import ScopeDescribed
from nodescope.ir.scopes import join

if TYPE_CHECKING:
    from nodescope.adapters.torch.operations import Operations


_MOST_PLACES = 64
"""At which a module is known to be called."""
_running: list[ModuleScopes] = []


def _leaves(module: Any, args: Any, output: Any) -> None:
    """The last forward hook of a module; a function of its own, so that the module can be copied
    and saved meanwhile.
    """
    remove_last_hook(module)
    for scopes in _running:
        scopes.left(module)


def _inside(outer: str, path: str) -> str:
    """The name of a module's scope within that of the module that calls it."""
    if not outer:
        return path
    if path.startswith(outer + "/"):
        return path.removeprefix(outer + "/")
    return path.rpartition("/")[2]


class _Known:
    """A module that was called.

    Attributes:
        reference, path: The module, and its path.
        calls: Its calls in the forward phase, by the scope around them and the path of the module
            that calls it.
    """

    __slots__ = ("calls", "path", "reference")

    def __init__(self, reference: weakref.ref[Any], path: str) -> None:
        self.reference, self.path = reference, path
        self.calls: dict[tuple[str, str], _Calls] = {}


class _Calls:
    """The calls of a module at one place.

    Attributes:
        inside: The name of its scope.
        outer: The mark of the scope around them, see `Place.mark`.
        scopes: By the number of the call: its scope, and the mark of that.
    """

    __slots__ = ("inside", "outer", "scopes")

    def __init__(self, inside: str, outer: int) -> None:
        self.inside, self.outer = inside, outer
        self.scopes: dict[int, tuple[str, int]] = {}


class _Entered(Scope):
    """The scope of a call that is one of `_Calls`.

    Attributes:
        outer: The mark of the scope around it.
    """

    __slots__ = ("outer",)

    def __init__(self, state: ThreadState, outer: int) -> None:
        self._state, self._saved, self.outer = state, (state.scope, state.cursor), outer

    def leave(self) -> bool:
        """Leave it, without a mark, if that is the mark of the scope around it; whether it is."""
        state = self._state
        if state.phase != "forward" or state.forward is not None:
            return False
        state.scope, state.cursor = self._saved
        return True


class ModuleScopes:
    """The modules of a run."""

    def __init__(self, emitter: Emitter, operations: Operations, resume: Any) -> None:
        self._emitter = emitter
        self._operations = operations
        self._resume = resume
        self._paths: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        # By identity, which is faster than by reference.
        self._known: dict[int, _Known] = {}
        self._roots: dict[str, weakref.ref[Any]] = {}
        self._described: dict[str, ScopeDescribed] = {}
        self._calls: dict[tuple[str, str], int] = {}
        self._token: object = None
        # Modules whose parameters are made when they are called first.
        self._lazy: weakref.WeakSet[Any] = weakref.WeakSet()
        self._any_lazy = False

    @contextlib.contextmanager
    def hooked(self) -> Iterator[None]:
        """Follow the calls of all modules."""
        hooks = (
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        )
        _running.append(self)
        try:
            with hidden_hooks(*hooks):
                yield
        finally:
            _running.remove(self)
            for hook in hooks:
                hook.remove()
            place = self._operations.place
            place.unobserved, modules = None, place.modules
            while modules:  # Ctrl-C in a module calls no hook
                module, _, scope = modules.pop()
                remove_last_hook(module)
                scope.__exit__(None, None, None)

    def _enter(self, module: Any, args: Any) -> None:
        if torch.compiler.is_compiling():  # Dynamo traces the hooks of all modules
            return
        place = self._operations.place
        if place.quiet:
            return
        try:
            if not self._called_again(place.__dict__, module):
                self._called(place, module)
        except Exception:  # the program's call continues
            return

    def _called_again(self, here: dict[str, Any], module: Any) -> bool:
        """Enter a module that was called at this place before; whether it was.

        Args:
            here: The thread's `Place`, as a dictionary: this runs at each call of a module.
            module: The module.
        """
        modules, fast_path = here["modules"], self._operations.fast_path
        if not modules or here["outer"] is not None or here["unobserved"] is not None:
            return False
        if fast_path is None or self._operations.off or autograd_node() is not None:
            return False
        known, state = self._known.get(id(module)), current()
        if known is None or state.phase != "forward" or state.forward is not None:
            return False
        scope, is_same = state.scope, known.reference() is module
        calls = known.calls.get((scope, modules[-1][1]))
        if calls is None or not is_same:
            return False
        number = self._call(state, calls.inside)
        inner = calls.scopes.get(number)
        if inner is None:
            inside = f"{calls.inside}_{number}" if number else calls.inside
            name = join(scope, inside)
            inner = calls.scopes[number] = name, fast_path.number(name, "forward", None)
        modules.append((module, known.path, _Entered(state, calls.outer)))
        state.scope, state.cursor = inner[0], None
        here["mark"] = inner[1]
        fast_path.tell_mark(inner[1])
        if module._forward_hooks:
            add_last_hook(module, _leaves)
        return True

    def _note(self, module: Any, state: ThreadState, outer: str, inside: str) -> None:
        """Note that a module is called at a place, for `_called_again`."""
        known, fast_path = self._known.get(id(module)), self._operations.fast_path
        if known is None or fast_path is None:
            return
        if state.phase != "forward" or state.forward is not None:
            return
        if len(known.calls) == _MOST_PLACES:
            known.calls.clear()
        number = fast_path.number(state.scope, "forward", None)
        known.calls[state.scope, outer] = _Calls(inside, number)

    def _called(self, place: Place, module: Any) -> None:
        recomputing = autograd_node() is not None
        if place.unobserved is not None and place.unobserved is not module:
            return  # unless that module was left without a word, by Ctrl-C
        if not place.modules and not recomputing and not place.backward:
            self._emitter.root_called(whole=not torch.is_grad_enabled())
            self._resume(place)
            place.unobserved = module if self._operations.off else None
        if self._operations.off:
            return
        state = current()
        if place.outer is not None:
            self._operations.restore(place, state)
        path = self.path(module, place)
        outer = place.modules[-1][1] if place.modules else ""
        again = recomputing and len(place.modules) == place.depth
        if again and place.recomputed is not None:
            outer = place.recomputed.module
        inside = _inside(outer, path)
        around: AbstractContextManager[None] | None = None
        if again and place.recomputed is None:
            above, _, inside = path.rpartition("/")
            around = self._emitter.phase("recompute", path=above)
        elif state.phase == "optimizer" and not place.modules:
            around = phase(state, "forward", "")
        contexts: AbstractContextManager[Any]
        if around is None:
            if place.modules and not recomputing:
                self._note(module, state, place.modules[-1][1], inside)
            contexts = self._emitter.scope(inside, self._call(state, inside))
            contexts.__enter__()
        else:
            contexts = stack = contextlib.ExitStack()
            stack.enter_context(around)
            if state.phase == "forward":
                state.scope = ""
            stack.enter_context(self._emitter.scope(inside, self._call(state, inside)))
        place.modules.append((module, path, contexts))
        add_last_hook(module, _leaves)

    def _leave(self, module: Any, args: Any, output: Any) -> None:
        if torch.compiler.is_compiling() or (module._forward_hooks and has_last_hook(module)):
            return
        here = self._operations.place.__dict__
        modules = here["modules"]
        if modules and modules[-1][0] is module and not self._any_lazy:
            scope, fast_path = modules[-1][2], self._operations.fast_path
            if scope.__class__ is _Entered and fast_path is not None and scope.leave():
                modules.pop()
                here["mark"] = scope.outer
                fast_path.tell_mark(scope.outer)
                return
        self.left(module)

    def left(self, module: Any) -> None:
        """Leave the scope of a module's call."""
        place = self._operations.place
        if self._any_lazy and module in self._lazy:
            self._lazy.discard(module)
            with Quiet(place):
                self._own(module, self._paths.get(module, ""))
        if place.unobserved is module:
            place.unobserved = None
        modules = place.modules
        if modules and modules[-1][0] is module:
            modules.pop()[2].__exit__(None, None, None)
            return
        # A module that was entered while nothing was emitted has no scope.
        if any(entered is module for entered, _, _ in modules):
            while modules:
                entered, _, scope = modules.pop()
                scope.__exit__(None, None, None)
                if entered is module:
                    break

    def _call(self, state: ThreadState, inside: str) -> int:
        """How many calls of a module there were at this place in this step."""
        token = self._emitter.token(state)
        if token is not self._token:
            self._token = token
            self._calls.clear()
        key = (state.scope, inside)
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
        known = self._known.get(id(module))
        if known is not None and known.reference() is module:
            return known.path
        path = self._paths.get(module)
        if path is None:
            if place.modules:
                outer, outer_path, _ = place.modules[-1]
                if any(child is module for child in outer.modules()):
                    self._name(outer, outer_path)
                    path = self._paths.get(module)
                if path is None:  # no child of the module that calls it
                    path = f"{outer_path}/{type(module).__name__}"
                    self._name(module, path)
            else:
                path = self._root_name(module)
                self._name(module, path)
        called, key = self._known, id(module)
        called[key] = _Known(weakref.ref(module, lambda _: called.pop(key, None)), path)
        return path

    def _root_name(self, module: Any) -> str:
        class_name = name = type(module).__name__
        number = 1
        while (known := self._roots.get(name)) is not None and known() is not None:
            name, number = f"{class_name}_{number}", number + 1
        self._roots[name] = weakref.ref(module)
        return name

    def _name(self, module: Any, path: str) -> None:
        operations = self._operations
        with Quiet(operations.place):
            fast_path = operations.fast_path
            owned = fast_path is not None and self._is_owned(fast_path, module, path)
            if fast_path is not None and not owned:
                fast_path.lose()  # whose a tensor is may change what it is
            for name, child in module.named_modules():
                child_path = f"{path}/{name.replace('.', '/')}" if name else path
                if child not in self._paths:
                    self._paths[child] = child_path
                    self._describe(child_path, type_name(child), settings_of(child))
                if any(map(is_lazy, child.parameters(recurse=False))):
                    self._any_lazy = True
                    self._lazy.add(child)
                elif not owned:
                    self._own(child, child_path)

    def _describe(self, *described: Any) -> None:
        """Emit what a scope is, once of modules that are made anew for each call."""
        scope = ScopeDescribed(*described)
        if self._described.get(scope.scope) != scope:
            self._described[scope.scope] = scope
            self._emitter.bus.emit(scope)

    def _is_owned(self, fast_path: FastPath, module: Any, path: str) -> bool:
        """Whether it is known whose all tensors of a module are."""
        for name, child in module.named_modules():
            if any(map(is_lazy, child.parameters(recurse=False))):
                return False
            child_path = f"{path}/{name.replace('.', '/')}" if name else path
            if not all(itertools.starmap(fast_path.owns, _tensors(child, child_path))):
                return False
        return True

    def _own(self, module: Any, path: str) -> None:
        """Note whose the parameters and buffers of a module are."""
        for tensor, owner in _tensors(module, path):
            self._operations.values.own(tensor, owner)


def _tensors(module: Any, path: str) -> Iterator[tuple[Any, Owner]]:
    """Parameters and buffers of a module, and as what it owns them."""
    for label, parameter in module.named_parameters(recurse=False):
        yield parameter, Owner("parameter", path, label)
    for label, buffer in module.named_buffers(recurse=False):
        yield buffer, Owner("buffer", path, label)
