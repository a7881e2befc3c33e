"""Attribute bases: the object from which a function's code reads each attribute, if it is certain.

``self.optimizer.step`` reads ``step`` from an optimizer, not from ``self``. So does
``optimizer.step`` after ``optimizer = self.optimizer``.

Invariant: an attribute is left out unless all its bases are certain.
"""

from __future__ import annotations

import dis
import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, Final, NamedTuple

Base = tuple[str, ...]
"""A kind of variable (``global``, ``cell`` or ``local``), its name, and the attributes read from
it.
"""

_ROOTS: Final = {
    "LOAD_GLOBAL": "global", "LOAD_DEREF": "cell", "LOAD_FAST": "local",
    "LOAD_FAST_BORROW": "local", "LOAD_FAST_CHECK": "local",
}  # fmt: skip
_READS: Final = ("LOAD_ATTR", "LOAD_METHOD")
_ALIASES: Final = ("STORE_FAST", "STORE_FAST_LOAD_FAST", "STORE_DEREF")
_SILENT: Final = ("CACHE", "EXTENDED_ARG", "PUSH_NULL", "NOP", "RESUME", "PRECALL")
_MISSING: Final = object()


class _Bases(NamedTuple):
    """The attribute reads and the assignments in a function's code.

    Attributes:
        read: The bases of each attribute; None stands for an unknown base.
        aliases: For each variable that is assigned once, from a known base: that base.
        assigned: All other variables that are assigned or deleted.
    """

    read: dict[str, frozenset[Base | None]]
    aliases: dict[str, Base]
    assigned: frozenset[str]


@functools.lru_cache(maxsize=256)
def _bases(code: types.CodeType) -> _Bases:
    bases_of: dict[str, set[Base | None]] = {}
    stored: dict[str, list[Base | None]] = {}
    base: Base | None = None
    for step in dis.get_instructions(code):
        name = step.opname
        if name in _SILENT:
            continue
        if name in _ROOTS:
            base = (_ROOTS[name], step.argval)
        elif name in _READS:
            bases_of.setdefault(step.argval, set()).add(base)
            base = (*base, step.argval) if base is not None else None
        else:
            # Later Pythons store and load two variables in one instruction.
            two = "_FAST_" in name and isinstance(step.argval, tuple)
            first, second = step.argval if two else (step.argval, None)
            if "ATTR" in name or name == "IMPORT_FROM":
                bases_of.setdefault(str(first), set()).add(None)
            elif name.startswith(("STORE_", "DELETE_")):
                stored.setdefault(first, []).append(base if name in _ALIASES else None)
                if name == "STORE_FAST_STORE_FAST":
                    stored.setdefault(str(second), []).append(None)
            base = ("local", str(second)) if name.endswith("_LOAD_FAST") else None
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    arguments = code.co_varnames[:count]
    aliases = {
        variable: bases[0]
        for variable, bases in stored.items()
        if len(bases) == 1 and bases[0] is not None and variable not in arguments
    }
    return _Bases(
        {name: frozenset(bases) for name, bases in bases_of.items()},
        aliases,
        frozenset(stored) - frozenset(aliases),
    )


def names_read_of(
    function: types.FunctionType, owner: Any, chosen: Callable[[Any], bool]
) -> frozenset[str]:
    """Names of the attributes that a function's code reads only from objects of one kind.

    Args:
        function: The function.
        owner: Its first argument if it is a method, else None.
        chosen: Returns whether an object is of that kind.
    """
    code = function.__code__
    if any(isinstance(const, types.CodeType) for const in code.co_consts):
        return frozenset()  # code defined inside may read any attribute
    bases, aliases, assigned = _bases(code)

    def known(base: Base | None, depth: int = 0) -> Any:
        if base is None or base[1] in assigned or depth > len(aliases):
            return _MISSING
        kind, root, *path = base
        if kind != "global" and root in aliases:
            item = known(aliases[root], depth + 1)
        elif kind == "global":
            item = function.__globals__.get(root, _MISSING)
        elif kind == "cell" and root in code.co_freevars:
            cell = (function.__closure__ or ())[code.co_freevars.index(root)]
            item = _content(cell)
        elif kind == "local" and owner is not None and code.co_varnames[:1] == (root,):
            item = owner
        else:
            return _MISSING
        for name in path:
            space = getattr(item, "__dict__", None)
            item = space.get(name, _MISSING) if isinstance(space, dict) else _MISSING
        return item

    def of_kind(base: Base | None) -> bool:
        item = known(base)
        return item is not _MISSING and chosen(item)

    return frozenset(name for name, kinds in bases.items() if all(map(of_kind, kinds)))


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return _MISSING
