"""Module facts: the settings of a module or an optimizer, such as ``kernel_size``, as text.

Invariant: no code of the program runs: only the object's own attributes are read, and only the
``extra_repr`` methods of PyTorch's own modules are called.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from nodescope.console_output import printable

_MOST: Final = 40
_LONGEST: Final = 120
_DEEPEST: Final = 2


def settings_of(module: Any) -> dict[str, str]:
    """The plain attributes of a module: numbers, texts, and tuples of them, by name."""
    settings: dict[str, str] = {}
    for name, value in vars(module).items():
        if name.startswith("_") or (name == "training" and value is True):
            continue
        text = _text(value)
        if text:
            settings[name] = text
    for name, text in _represented(module).items():
        settings.setdefault(name, text)
    return {
        printable(name)[:_LONGEST]: printable(text)[:_LONGEST]
        for name, text in list(settings.items())[:_MOST]
    }


def defaults_of(optimizer: Any) -> dict[str, str]:
    """The settings that an optimizer was created with, such as ``lr``."""
    defaults = getattr(optimizer, "defaults", None)
    if not isinstance(defaults, dict):
        return {}
    texts = {str(name): _text(value) for name, value in defaults.items()}
    return {name: text for name, text in texts.items() if text}


def type_name(item: Any) -> str:
    """The name of an object's class."""
    return printable(type(item).__qualname__)


def _text(value: Any, depth: int = 0) -> str:
    """A plain value as text; ``""`` for anything else, and for None."""
    kind = type(value)
    if kind in (bool, int, float, complex):
        return repr(value)
    if kind is str:
        return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
    if kind in (tuple, list, torch.Size) and depth < _DEEPEST and len(value) <= 8:
        parts = [_text(item, depth + 1) for item in value]
        return f"({', '.join(parts)})" if all(parts) else ""
    if isinstance(value, torch.dtype | torch.device):
        return str(value).removeprefix("torch.")
    return ""


def _represented(module: Any) -> dict[str, str]:
    """The settings in ``extra_repr`` of a module of PyTorch's, such as ``bias=True``."""
    method: Any = getattr(type(module), "extra_repr", None)
    if not str(getattr(method, "__module__", "")).startswith("torch.nn."):
        return {}
    try:
        text = str(method(module))
    except Exception:
        return {}
    facts: dict[str, str] = {}
    for part in _parts(text):
        name, sign, value = part.partition("=")
        if sign and name.strip().isidentifier():
            facts[name.strip()] = value.strip()
    return facts


def _parts(text: str) -> list[str]:
    """The parts of a text between its commas; commas within brackets do not split."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return [part for part in parts if part.strip()]
