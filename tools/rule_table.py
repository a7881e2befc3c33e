"""The table of all rules in `docs/watches.md`, generated from the registry.

    python -m tools.rule_table          # fails if the table is outdated
    python -m tools.rule_table --write  # brings it up to date

Invariant: everything is read from the registry.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from nodescope.debug.watch import all_rules
from nodescope.debug.watch.rule import ORIGINS, Parameter, Rule
from tools.generated import ROOT, asked_to_write, update, with_section

DOCUMENT: Final = ROOT / "docs" / "watches.md"


def rule_table() -> str:
    """Markdown: one table for each origin, with every rule."""
    parts: list[str] = []
    for origin in ORIGINS:
        rules = [rule for rule in all_rules() if rule.origin == origin]
        parts += [f"### {origin}", "", "| Rule | Hit if | Applies to | Settings |", "|-|-|-|-|"]
        parts += [_row(rule) for rule in rules]
        parts.append("")
    return "\n".join(parts)


def _row(rule: Rule) -> str:
    names = f"`{rule.name}`" + "".join(f" {alias}" for alias in rule.aliases)
    applies_to = (
        ", ".join(target.replace("_", " ") for target in rule.applies)
        or "the nodes in its settings"
    )
    if rule.ops:
        applies_to += f" of {', '.join(sorted(rule.ops))}"
    settings = "; ".join(map(_setting, rule.parameters)) or "–"
    if rule.any_of and not any(rule.parameter(name).default for name in rule.any_of):
        settings += " (at least one)"
    return f"| {names} | {rule.about} | {applies_to} | {settings} |"


def _setting(parameter: Parameter) -> str:
    default = parameter.default
    if default is None:
        return f"`{parameter.name}`{' (required)' if parameter.required else ''}"
    unit = f" {parameter.unit}" if parameter.unit else ""
    if isinstance(default, bool):
        default = str(default).lower()
    elif isinstance(default, str):
        default = f"`{default}`"
    else:
        default = f"{default:g}"
    return f"`{parameter.name}` {default}{unit}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    write = asked_to_write("rule_table", arguments)
    text = with_section(DOCUMENT.read_text(encoding="utf-8"), "rules", rule_table())
    return update(DOCUMENT, text, "rule_table", write=write)


if __name__ == "__main__":
    sys.exit(main())
