"""Watch rules, which look for problems in every value of a run, live or recorded.

To add a rule, register a `Rule` in a file of `rules/`, or of a package with the entry point group
``nodescope.watch``.

Invariant: all rules are found here; a rule never changes a value, and a failing rule disables its
watch and nothing else.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Final

from nodescope.debug.watch.rule import Rule, WatchError
from nodescope.errors import RegistryError
from nodescope.plugins import plugins
from nodescope.registry import Once, Registry, did_you_mean

__all__ = ["Rule", "WatchError", "all_rules", "get", "register"]

_registry: Registry[Rule] = Registry("watch rule")
_aliases: Final[dict[str, str]] = {}


def register(*rules: Rule) -> None:
    """Add rules. Raises `RegistryError` if a name or an alias is taken."""
    for rule in rules:
        known_names = [name for name in (rule.name, *rule.aliases) if name.lower() in _aliases]
        if known_names:
            raise RegistryError(
                f"watch rule {known_names[0]!r} is registered twice", hint="choose another name"
            )
        _registry.add(rule.name, rule)
        for name in (rule.name, *rule.aliases):
            _aliases[name.lower()] = rule.name


def get(name: str) -> Rule:
    """The rule with a name or alias, in any case. Raises `RegistryError` with similar names."""
    _load()
    rule_name = _aliases.get(name.lower())
    if rule_name is None:
        near = did_you_mean(name.lower(), _aliases)
        near = near or (
            "a watch is a rule and a selection, such as 'nan on scope:loss'; for an expression, "
            "'condition(condition=\"max(value) > 3\") on loss/mean'"
        )
        raise RegistryError(f"no watch rule named {name!r}", hint=near)
    return _registry.get(rule_name)


def all_rules() -> tuple[Rule, ...]:
    """Every rule, by name."""
    _load()
    return tuple(sorted((rule for _, rule in _registry.items()), key=lambda rule: rule.name))


@Once
def _load() -> None:
    rules = importlib.import_module(f"{__name__}.rules")
    for module in pkgutil.iter_modules(rules.__path__, f"{rules.__name__}."):
        importlib.import_module(module.name)
    for entry in plugins("nodescope.watch"):
        plugin = entry.load()
        if isinstance(plugin, Rule) and plugin.name not in _registry:
            register(plugin)
