"""Guards: values that a traced function read besides its arguments, and whether they have changed.

Closure cells and globals are followed into containers, modules of a network, plain objects and the
user's own functions, as far as the code names them. A snapshot is taken before tracing, so that
changes made by the function itself are detected.

Invariant: checking reads only; a guard that fails says which variable changed and how.
"""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
import pickle
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from nodescope.engine.nn import Module
from nodescope.engine.optim import Optimizer
from nodescope.engine.random import Generator
from nodescope.engine.static.attribute_bases import names_read_of
from nodescope.engine.tensor import Tensor
from nodescope.origins import is_internal

_DEPTH = 12  # depth to which containers and functions are followed
_MOST = 8192  # limit of guards per function; beyond it, values are not followed
_SCALARS = (bool, int, float, complex, str, bytes, type(None))
_MISSING = object()
_SILENT = {"_path", "_scope"}  # attributes of modules that name nodes and change no number

Guard = tuple[int, Any, Any, Any, str]
"""How a value is looked up (`_CELL`, `_ITEM`, …), where, under which key, its value when the guard
was made, and its name in messages.
"""

_CELL, _ITEM, _ATTRIBUTE, _LENGTH, _MEMBERS = range(5)


class Guards:
    """The dependencies of a function at one moment.

    Args:
        function: The user's function.
        owner: The instance, if it is a method.
        static_values: Static arguments with their names, such as modules.
    """

    def __init__(
        self, function: Any, owner: Any = None, static_values: Iterable[tuple[str, Any]] = ()
    ) -> None:
        self._guards: list[Guard] = []
        self._seen: set[int] = set()
        self._generators: list[tuple[str, Any, bytes]] = []
        self._grown: frozenset[str] = frozenset()
        code = getattr(function, "__code__", None)
        names = _names(code) if code is not None else frozenset()
        if code is not None:
            self._grown = _appended(code)
        if owner is None and isinstance(function, types.MethodType):
            owner, function = function.__self__, function.__func__
        if isinstance(function, types.FunctionType):
            names -= _of_optimizers(function, owner)
        if owner is not None:
            self._inside("self", owner, names, 0)
        for path, value in static_values:
            self._inside(path, value, names, 0)
        if code is None:
            self._inside(getattr(function, "__name__", type(function).__name__), function, names, 0)
        else:
            self._function(function, 0)
        self._checks = tuple(self._guards)

    def hold(self) -> bool:
        """Whether everything is unchanged."""
        for how, place, key, was, _ in self._checks:
            if how == _ITEM:
                now = place.get(key, _MISSING) if place.__class__ is dict else _item(place, key)
            else:
                now = _look(how, place, key)
            if now is not was and not _equal(now, was):
                return False
        return True

    def changed(self) -> str:
        """What has changed, as text, or ``""``."""
        for how, place, key, was, called in self._checks:
            now = _look(how, place, key)
            if now is not was and not _equal(now, was):
                return _said(how, called, was, now)
        return ""

    def drawn(self) -> str:
        """Name of a captured NumPy generator used since the guards were made, or ``""``."""
        for called, generator, was in self._generators:
            if _random_state(generator) != was:
                return called
        return ""

    def __len__(self) -> int:
        return len(self._checks)

    def _add(self, how: int, place: Any, key: Any, value: Any, called: str, depth: int,
             names: frozenset[str]) -> None:  # fmt: skip
        if len(self._guards) >= _MOST:
            return
        self._guards.append((how, place, key, value, called))
        label = called.partition(" ")[2] or called
        if isinstance(value, list | set) and label.rpartition(".")[2] in self._grown:
            return
        self._inside(label, value, names, depth + 1)

    def _function(self, function: types.FunctionType, depth: int) -> None:
        """Guard the cells and globals that a function names, and follow its defaults."""
        if id(function) in self._seen or depth > _DEPTH:
            return
        self._seen.add(id(function))
        code = function.__code__
        names = _names(code) - _of_optimizers(function, None)
        around, self._grown = self._grown, _appended(code)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            value = _look(_CELL, cell, None)
            self._add(_CELL, cell, None, value, f"closure {name}", depth, names)
        space = function.__globals__
        for name in sorted(_globals(code)):
            if name in space:
                self._add(_ITEM, space, name, space[name], f"global {name}", depth, names)
        for i, value in enumerate(function.__defaults__ or ()):
            self._inside(f"default {i}", value, names, depth + 1)
        self._grown = around

    def _inside(self, label: str, value: Any, names: frozenset[str], depth: int) -> None:
        """Guard the relevant content of a value."""
        if depth > _DEPTH or isinstance(value, (*_SCALARS, Tensor, np.ndarray, np.generic)):
            return
        if isinstance(value, types.FunctionType):
            if not is_internal(value.__code__.co_filename):
                self._function(value, depth)
            return
        if isinstance(value, types.MethodType):
            self._inside(label, value.__self__, names, depth)
            if not is_internal(getattr(value.__func__, "__code__", _NO_CODE).co_filename):
                self._inside(label, value.__func__, names, depth)
            return
        wrapped = getattr(value, "__wrapped__", None)
        if isinstance(wrapped, types.FunctionType):
            self._inside(label, wrapped, names, depth)
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        if isinstance(value, np.random.Generator | np.random.RandomState):
            self._generators.append((label, value, _random_state(value)))
        if isinstance(value, dict | list | tuple):
            self._container(label, value, names, depth)
            if not _library(value):
                self._object(label, value, names, depth)
        elif isinstance(value, set):
            members = frozenset(value)
            self._guards.append((_MEMBERS, value, None, members, f"what {label} holds"))
        elif isinstance(value, functools.partial):
            for part in (value.func, value.args, value.keywords):
                self._inside(label, part, names, depth + 1)
        elif isinstance(value, Module):
            self._module(label, value, names, depth)
        elif not _library(value):
            self._object(label, value, names, depth)

    def _object(self, label: str, value: Any, names: frozenset[str], depth: int) -> None:
        """Guard the attributes of a user's object or class that the code names: settings, parts,
        methods.
        """
        names = self._methods(value, names, depth)
        space: Any = getattr(value, "__dict__", ())
        for name in sorted(names):
            called = f"attribute {label}.{name}"
            if name in space and isinstance(space, dict):
                if _counts(space[name]):
                    self._add(_ITEM, space, name, space[name], called, depth, names)
                continue
            attribute, place = inspect.getattr_static(value, name, _MISSING), value
            if isinstance(attribute, types.MemberDescriptorType):
                attribute = getattr(value, name, None)
            elif hasattr(type(attribute), "__get__"):
                continue  # a method or property: names in its code are followed
            elif attribute is not _MISSING and space.__class__ is dict:
                # The guard refers to the class, so that it does not keep the instance alive.
                self._guards.append((_ITEM, space, name, _MISSING, called))
                place = type(value)
            if attribute is not _MISSING and _counts(attribute):
                self._add(_ATTRIBUTE, place, name, attribute, called, depth, names)

    def _methods(self, value: Any, names: frozenset[str], depth: int) -> frozenset[str]:
        """The names, and those in the code of the methods of a user's class that they refer to.

        Special methods are called without a name in the code, so all of them are followed.
        """
        kind = value if isinstance(value, type) else type(value)
        names |= {
            name
            for base in kind.__mro__
            if not _library(base)
            for name, member in vars(base).items()
            if name[:2] == "__"
            and name not in _NOT_CALLED
            and isinstance(member, types.FunctionType)
        }
        done: set[str] = set()
        while todo := sorted(names - done):
            done.update(todo)
            for name in todo:
                attribute = inspect.getattr_static(kind, name, None)
                function = getattr(attribute, "fget", None) or getattr(
                    attribute, "__func__", attribute
                )
                function = getattr(function, "__wrapped__", function)
                code: Any = getattr(function, "__code__", None)
                if isinstance(function, types.FunctionType) and not is_internal(code.co_filename):
                    names |= _names(function.__code__)
                    self._function(function, depth + 1)
        return names

    def _container(self, label: str, value: Any, names: frozenset[str], depth: int) -> None:
        self._guards.append((_LENGTH, value, None, len(value), f"the length of {label}"))
        items = value.items() if isinstance(value, dict) else enumerate(value)
        if len(value) > _MOST:
            return
        for key, item in items:
            if _counts(item):
                self._add(_ITEM, value, key, item, f"item {label}[{key!r}]", depth, names)

    def _module(self, label: str, value: Module, names: frozenset[str], depth: int) -> None:
        """Guard all of a network's settings, parameters and parts, at any depth."""
        names = self._methods(value, names | {"forward"}, min(depth, _DEPTH - 2))
        space = vars(value)
        training = getattr(value, "training", None)
        called = f"attribute {label}.training"
        self._add(_ATTRIBUTE, value, "training", training, called, depth, names)
        for name, item in space.items():
            if name != "training" and name not in _SILENT and _counts(item):
                # Parts of a network are followed at any depth.
                called = f"attribute {label}.{name}"
                self._add(_ITEM, space, name, item, called, min(depth, _DEPTH - 2), names)


_NOT_CALLED = {
    "__init__", "__new__", "__init_subclass__", "__post_init__", "__repr__", "__str__", "__del__",
    "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__eq__", "__hash__", "__dict__",
}  # fmt: skip


def _appended(code: types.CodeType) -> frozenset[str]:
    """Names of containers that the code only adds to: their content does not affect its results."""
    uses: dict[str, bool] = {}
    if _GROWING.isdisjoint(_names(code)):
        return frozenset()  # true of nearly all functions; parsing takes milliseconds
    for code_ in _all(code):
        steps = [i for i in dis.get_instructions(code_) if i.opname not in ("CACHE", "PUSH_NULL")]
        for now, following in itertools.pairwise(steps):
            if now.opname in _LOADS:
                method = following.opname in ("LOAD_METHOD", "LOAD_ATTR")
                grows = method and following.argval in _GROWING
                uses[now.argval] = uses.get(now.argval, True) and grows
    return frozenset(name for name, only in uses.items() if only)


_GROWING = frozenset({"append", "extend", "add"})
_LOADS = {"LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME", "LOAD_CLASSDEREF", "LOAD_ATTR", "LOAD_METHOD"}


def _all(code: types.CodeType) -> Iterator[types.CodeType]:
    """A function's code, and that of the functions defined inside it."""
    yield code
    for co_const in code.co_consts:
        if isinstance(co_const, types.CodeType):
            yield from _all(co_const)


def _nothing() -> None:
    """A function without any user code."""


_NO_CODE = _nothing.__code__


_GLOBALS = {"LOAD_GLOBAL": 1, "LOAD_NAME": 0, "LOAD_FROM_DICT_OR_GLOBALS": 0,
            "STORE_GLOBAL": 0, "DELETE_GLOBAL": 0, "IMPORT_NAME": 0}  # fmt: skip
_ATTRIBUTES = {"LOAD_ATTR": int(sys.version_info >= (3, 12)), "LOAD_METHOD": 0,
               "LOAD_SUPER_ATTR": 2, "STORE_ATTR": 0, "DELETE_ATTR": 0,
               "IMPORT_FROM": 0}  # fmt: skip
"""Instructions that name globals and attributes, with the number of bits by which the name's index
is shifted.
"""


def _globals(code: types.CodeType) -> frozenset[str]:
    """Names of globals in a function and in those defined inside."""
    return _named(code)[0]


def _names(code: types.CodeType) -> frozenset[str]:
    """Names of attributes in a function and in those defined inside."""
    return _named(code)[1]


def _of_optimizers(function: types.FunctionType, owner: Any) -> frozenset[str]:
    """Names that a function reads only from optimizers; on other objects, they are not guarded.

    Otherwise a counter ``self.step`` beside ``self.optimizer.step()`` would cause a trace per step.
    """
    if _OPTIMIZERS.isdisjoint(_names(function.__code__)):
        return frozenset()
    return names_read_of(function, owner, lambda item: isinstance(item, Optimizer))


_OPTIMIZERS = frozenset(name for name in dir(Optimizer) if name[0] != "_") | {"lr", "steps"}


@functools.lru_cache(maxsize=1024)
def _named(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """Names of globals and of attributes: `types.CodeType.co_names` does not tell them apart."""
    spaces: tuple[set[str], set[str]] = (set(), set())
    for code_ in _all(code):
        steps, extended = code_.co_code, 0
        local: set[str] = set()  # in a class body, which looks in its own namespace first
        straight = True
        for at in range(0, len(steps), 2):
            step, argument = steps[at], steps[at + 1] | extended
            extended = argument << 8 if step == _EXTENDED else 0
            straight = straight and step not in _JUMPS
            if step == _STORE_NAME and straight:
                local.add(code_.co_names[argument])
            known = _NAMING.get(step)
            if known is not None:
                space, shift = known
                name = code_.co_names[argument >> shift]
                if step != _LOAD_NAME or name not in local:
                    spaces[space].add(name)
    return frozenset(spaces[0]), frozenset(spaces[1])


_NAMING = {
    dis.opmap[name]: (space, shift)
    for space, table in enumerate((_GLOBALS, _ATTRIBUTES))
    for name, shift in table.items()
    if name in dis.opmap
}
_EXTENDED, _LOAD_NAME, _STORE_NAME = map(dis.opmap.get, ("EXTENDED_ARG", "LOAD_NAME", "STORE_NAME"))
_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))


def _counts(value: Any) -> bool:
    """Whether a referenced value can change the trace: data, settings, parts, functions."""
    return isinstance(value, _COUNTED) or callable(value) or not _library(value)


_COUNTED = (
    *_SCALARS, Tensor, np.ndarray, np.generic, Module, Generator, dict, list, tuple, set,
    np.random.Generator, np.random.RandomState,
)  # fmt: skip


def _library(value: Any) -> bool:
    """Whether a value is a package such as numpy, or an object or class of nodescope or Python."""
    if isinstance(value, types.ModuleType):
        return is_internal(getattr(value, "__file__", None) or "")
    kind = value if isinstance(value, type) else type(value)
    name = kind.__module__.partition(".")[0]
    return name in {"nodescope", "numpy"} or name in sys.stdlib_module_names


def _random_state(generator: Any) -> bytes:
    """The state of a NumPy generator, for comparison."""
    of = getattr(generator, "bit_generator", None)
    return pickle.dumps(generator.get_state() if of is None else of.state)


def _look(how: int, place: Any, key: Any) -> Any:
    if how == _ITEM:
        return _item(place, key)
    if how == _LENGTH:
        return len(place)
    if how == _ATTRIBUTE:
        return getattr(place, key, None)
    if how == _MEMBERS:
        return frozenset(place)
    try:
        return place.cell_contents
    except ValueError:  # not assigned yet
        return _MISSING


def _item(place: Any, key: Any) -> Any:
    try:
        return place[key]
    except (KeyError, IndexError):
        return _MISSING


def _equal(now: Any, was: Any) -> bool:
    """Whether values are equal: for scalars, of the same class and value. Methods are new objects
    each time.
    """
    kind = was.__class__
    if now.__class__ is not kind:
        return False
    if kind is types.MethodType:
        return now.__self__ is was.__self__ and now.__func__ is was.__func__
    if kind is float:
        return repr(now) == repr(was)
    comparable = kind in _SCALARS or kind is frozenset or isinstance(was, np.generic)
    return comparable and bool(now == was)


def _said(how: int, called: str, was: Any, now: Any) -> str:
    if now is _MISSING:
        return f"{called} is gone"
    if was is _MISSING:
        return f"{called} is set"
    if how == _MEMBERS:
        return f"{called} has changed"
    if isinstance(now, _SCALARS) and isinstance(was, _SCALARS):
        return f"{called} changed {was!r} → {now!r}"
    if type(now) is type(was):
        noun = {Tensor: "tensor", np.ndarray: "array"}.get(type(now), type(now).__name__)
        return f"{called} is another {noun}"
    return f"{called} changed from {type(was).__name__} to {type(now).__name__}"
