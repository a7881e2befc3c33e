"""The op registry: one file per family, loaded on first lookup.

A new op is one entry in one file: `register(Op(...))`. Other packages add ops by the entry point
group ``nodescope.op``; each entry point names an `Op`, or a module that registers some.

Invariant: ops are found here and nowhere else; an op, once registered, never changes.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

from nodescope.ops.lowprecision import admitting
from nodescope.ops.op import Op, Sample
from nodescope.plugins import plugins
from nodescope.registry import Once, Registry

__all__ = ["RAW", "Op", "Sample", "all_ops", "get", "is_registered", "register"]

_registry: Registry[Op] = Registry("op")
_SHARED = {
    "op", "shapes", "rules", "ufunc", "lowprecision", "checking", "calls", "dtypes", "dependence",
    "plan", "reading", "traits",
}  # fmt: skip


def register(op: Op) -> Op:
    """Add an op. Raises `RegistryError` if its name is taken."""
    return _registry.add(op.name, admitting(op))


def get(name: str) -> Op:
    """The op with a name. Raises `RegistryError` with similar names."""
    if not _load.done:
        _load()
    return _registry.get(name)


def is_registered(op: Op) -> bool:
    """Whether an op is the one of its name, and so stays until the program ends."""
    return op.name in _registry and _registry.get(op.name) is op


def all_ops() -> Iterator[Op]:
    """Every op, in order of registration."""
    _load()
    return iter([op for _, op in _registry.items()])


@Once
def _load() -> None:
    for module in pkgutil.iter_modules(__path__):
        if module.name not in _SHARED:
            importlib.import_module(f"{__name__}.{module.name}")
    for entry in plugins("nodescope.op"):
        op = entry.load()
        if isinstance(op, Op) and op.name not in _registry:
            register(op)


class _Raw:
    """Every op's ``impl`` as an attribute: the ``F`` of rules that run on plain arrays."""

    def __getattr__(self, name: str) -> Any:
        impl = get(name).impl
        setattr(self, name, impl)
        return impl


RAW = _Raw()
