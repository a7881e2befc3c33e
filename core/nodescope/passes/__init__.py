"""The pass registry: one file per pass, loaded on first lookup.

A new pass is a function of a `Draft` decorated with `graph_pass`, in a file of this folder or of a
package with the entry point group ``nodescope.pass``.

Invariant: all passes are found here; they know graphs and ops, never the engine.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from nodescope.passes.draft import Draft
from nodescope.plugins import plugins
from nodescope.registry import Once, Registry

__all__ = ["Draft", "GraphPass", "Rule", "all_passes", "get", "graph_pass"]

_registry: Registry[GraphPass] = Registry("pass")


@dataclass(frozen=True, slots=True)
class Rule:
    """One transformation of a pass, named by `Rewrite.rule`.

    Attributes:
        name: As in ``unsafe=`` of `nodescope.compile`, if it has to be requested.
        help: The transformation, in one line.
        exact: Whether results stay bit-equal; if not, it is used only on request.
    """

    name: str
    help: str
    exact: bool = True


@dataclass(frozen=True, slots=True)
class GraphPass:
    """A registered pass.

    Attributes:
        name: As in ``passes=`` of `nodescope.compile` and in `explain`.
        stage: Its place in the default order: 10 to 39 clean up, 40 to 59 simplify, 60 to 79 find
            patterns and fuse, 80 to 99 place in time and memory.
        help: A description in one line.
        run: The function that changes a draft.
        default: Whether it runs by default.
        exact: Whether results stay bit-equal.
        again: Whether it runs again after the other simplifying passes changed something.
        rules: Its rules, if it lists them.
    """

    name: str
    stage: int
    help: str
    run: Callable[[Draft], None]
    default: bool = True
    exact: bool = True
    again: bool = False
    rules: tuple[Rule, ...] = ()


def graph_pass(
    name: str,
    *,
    stage: int,
    help: str,
    default: bool = True,
    exact: bool = True,
    again: bool = False,
    rules: tuple[Rule, ...] = (),
) -> Callable[[Callable[[Draft], None]], Callable[[Draft], None]]:
    """Register a pass. Raises `RegistryError` if its name is taken."""

    def registered(run: Callable[[Draft], None]) -> Callable[[Draft], None]:
        _registry.add(name, GraphPass(name, stage, help, run, default, exact, again, rules))
        return run

    return registered


def get(name: str) -> GraphPass:
    """The pass with a name. Raises `RegistryError` with similar names."""
    _load()
    return _registry.get(name)


def all_passes() -> tuple[GraphPass, ...]:
    """Every pass, in the default order."""
    _load()
    return tuple(sorted((item for _, item in _registry.items()), key=lambda p: (p.stage, p.name)))


@Once
def _load() -> None:
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    for entry in plugins("nodescope.pass"):
        entry.load()
