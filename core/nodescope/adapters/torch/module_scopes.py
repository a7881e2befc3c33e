"""Module scopes: each call of a module is a scope, named by its path in the outermost module.

Operations of a module's own forward hooks belong to the scope of its call.

The path of a parameter or buffer is its module's path, followed by its name in the module.

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
"""The most places of call that are remembered for one module."""
_running: list[ModuleScopes] = []


def _leaves(module: Any, args: Any, output: Any) -> None:
    """Leave a module's scope, as its last forward hook.

    This is a module-level function, so that a module that has this hook can be copied and pickled.
    """
    remove_last_hook(module)
    for scopes in _running:
        scopes.left(module)


def _inside(outer: str, path: str) -> str:
    """The name of a module's scope, relative to the scope of the module that calls it."""
    if not outer:
        return path
    if path.startswith(outer + "/"):
        return path.removeprefix(outer + "/")
    return path.rpartition("/")[2]


class _Known:
    """A module that was called.

    Attributes:
        reference, path: A weak reference to the module, and its path.
        calls: Its calls in the forward phase, by the enclosing scope and the path of the calling
            module.
    """

    __slots__ = ("calls", "path", "reference")

    def __init__(self, reference: weakref.ref[Any], path: str) -> None:
        self.reference, self.path = reference, path
        self.calls: dict[tuple[str, str], _Calls] = {}


class _Calls:
    """The calls of a module at one place.

    Attributes:
        inside: The name of the module's scope.
        outer: The mark of the enclosing scope, see `Place.mark`.
        scopes: The scope of a call and its mark, by the number of the call.
    """

    __slots__ = ("inside", "outer", "scopes")

    def __init__(self, inside: str, outer: int) -> None:
        self.inside, self.outer = inside, outer
        self.scopes: dict[int, tuple[str, int]] = {}


class _Entered(Scope):
    """The scope of a call that is known in `_Calls`.

    Attributes:
        outer: The mark of the enclosing scope.
    """

    __slots__ = ("outer",)

    def __init__(self, state: ThreadState, outer: int) -> None:
        self._state, self._saved, self.outer = state, (state.scope, state.cursor), outer

    def leave(self) -> bool:
        """Leave the scope if the thread's mark is then simply `outer`; return whether it was left.

        The caller sets the mark.
        """
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
        # By the module's `id`, which is faster than by weak reference.
        self._known: dict[int, _Known] = {}
        self._roots: dict[str, weakref.ref[Any]] = {}
        self._described: dict[str, ScopeDescribed] = {}
        self._calls: dict[tuple[str, str], int] = {}
        self._token: object = None
        # Modules whose parameters are created during their first call.
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
        """Enter the scope of a module by a fast way, if it was called at this place before.

        Args:
            here: The attributes of the thread's `Place`, as a dictionary, which is faster: this
                runs at each call of a module.
            module: The module.

        Returns:
            Whether the scope was entered.
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
        """Remember that a module is called at this place, for `_called_again`."""
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
            return  # if `unobserved` is this module, Ctrl-C ended its previous call without a hook
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
        # A module that was entered while observation was off has no scope.
        if any(entered is module for entered, _, _ in modules):
            while modules:
                entered, _, scope = modules.pop()
                scope.__exit__(None, None, None)
                if entered is module:
                    break

    def _call(self, state: ThreadState, inside: str) -> int:
        """Count a call of a module at this place; return how many preceded it in this step."""
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
        """Name an outermost module, which is otherwise named by its class."""
        if isinstance(module, torch.nn.Module):
            self._name(module, name.strip("/").replace(".", "/") or type(module).__name__)

    def path(self, module: Any, place: Place) -> str:
        """The path of a module: the outermost module's name, followed by attribute names."""
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
                if path is None:  # not a submodule of the module that calls it
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
                fast_path.lose()  # a tensor that gets an owner may become another node
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
        """Emit the description of a scope, unless the same one was emitted before.

        Modules that are created anew for each call have the same scope and description.
        """
        scope = ScopeDescribed(*described)
        if self._described.get(scope.scope) != scope:
            self._described[scope.scope] = scope
            self._emitter.bus.emit(scope)

    def _is_owned(self, fast_path: FastPath, module: Any, path: str) -> bool:
        """Whether all parameters and buffers of a module already have these owners."""
        for name, child in module.named_modules():
            if any(map(is_lazy, child.parameters(recurse=False))):
                return False
            child_path = f"{path}/{name.replace('.', '/')}" if name else path
            if not all(itertools.starmap(fast_path.owns, _tensors(child, child_path))):
                return False
        return True

    def _own(self, module: Any, path: str) -> None:
        """Register a module as the owner of its parameters and buffers."""
        for tensor, owner in _tensors(module, path):
            self._operations.values.own(tensor, owner)


def _tensors(module: Any, path: str) -> Iterator[tuple[Any, Owner]]:
    """The parameters and buffers of a module itself, each with its `Owner`."""
    for label, parameter in module.named_parameters(recurse=False):
        yield parameter, Owner("parameter", path, label)
    for label, buffer in module.named_buffers(recurse=False):
        yield buffer, Owner("buffer", path, label)
