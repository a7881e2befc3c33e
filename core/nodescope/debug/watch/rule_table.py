"""The table of all rules in `docs/watches.md`, generated from the registry.

``python -m nodescope.debug.watch.rule_table docs/watches.md`` rewrites it; a test compares.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from nodescope.debug.watch import all_rules
from nodescope.debug.watch.rule import ORIGINS, Parameter, Rule

BEGIN: Final = "<!-- rules: begin -->"
END: Final = "<!-- rules: end -->"


def rule_table() -> str:
    """Markdown: one table for each origin, with every rule."""
    parts: list[str] = []
    for origin in ORIGINS:
        rules = [rule for rule in all_rules() if rule.origin == origin]
        parts += [f"### {origin}", "", "| Rule | Hit if | Applies to | Settings |", "|-|-|-|-|"]
        parts += [_row(rule) for rule in rules]
        parts.append("")
    return "\n".join(parts)


def documented(text: str) -> str:
    """The document with its table as the registry has it now."""
    head, _, remainder = text.partition(BEGIN)
    _, _, tail = remainder.partition(END)
    return f"{head}{BEGIN}\n\n{rule_table()}\n{END}{tail}"


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


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(documented(path.read_text()))
