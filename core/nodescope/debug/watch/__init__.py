"""Watch rules: what is looked for in every value of a run, live or in a recording.

A new rule is a `Rule` under `register`, in a file of `rules/` or of a package that names it by the
entry point group ``nodescope.watch``.

Invariant: rules are found here and nowhere else; a rule never changes a value, and what fails in it
disables its watch and nothing else.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
from typing import Final

from nodescope.debug.watch.rule import Rule, WatchError
from nodescope.errors import RegistryError
from nodescope.registry import Once, Registry, did_you_mean

__all__ = ["Rule", "WatchError", "all_rules", "get", "register"]

_registry: Registry[Rule] = Registry("watch rule")
_aliases: Final[dict[str, str]] = {}


def register(*rules: Rule) -> None:
    """Add rules. Raises `RegistryError` if a name or an alias is taken."""
    for rule in rules:
        taken = [each for each in (rule.name, *rule.aliases) if each.lower() in _aliases]
        if taken:
            raise RegistryError(
                f"watch rule {taken[0]!r} is registered twice", hint="choose another name"
            )
        _registry.add(rule.name, rule)
        for each in (rule.name, *rule.aliases):
            _aliases[each.lower()] = rule.name


def get(name: str) -> Rule:
    """The rule of a name or alias, in whatever case. Raises `RegistryError`, with near names."""
    _load()
    found = _aliases.get(name.lower())
    if found is None:
        near = did_you_mean(name.lower(), _aliases)
        raise RegistryError(f"no watch rule named {name!r}", hint=near)
    return _registry.get(found)


def all_rules() -> tuple[Rule, ...]:
    """Every rule, by name."""
    _load()
    return tuple(sorted((rule for _, rule in _registry.items()), key=lambda rule: rule.name))


@Once
def _load() -> None:
    rules = importlib.import_module(f"{__name__}.rules")
    for module in pkgutil.iter_modules(rules.__path__, f"{rules.__name__}."):
        importlib.import_module(module.name)
    for entry in importlib.metadata.entry_points(group="nodescope.watch"):
        found = entry.load()
        if isinstance(found, Rule) and found.name not in _registry:
            register(found)
