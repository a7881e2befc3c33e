"""Coverage: ops by family, and NumPy's public functions, traced or not, and why.

    python -m tools.ops_table          # prints it; fails if the README's table is outdated
    python -m tools.ops_table --write  # brings the README's table up to date

Invariant: everything is read from the registry and the dispatch tables.
"""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np

from nodescope import ops
from nodescope.engine import dispatch
from nodescope.engine.numpy_functions import plain, refused
from nodescope.ops.op import Family
from tools.generated import ROOT, asked_to_write, update, with_section

README = ROOT / "README.md"


def functions(module: types.ModuleType) -> dict[str, Callable[..., Any]]:
    """The public functions and ufuncs of a namespace, by name."""
    exported = {}
    for name in dir(module):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated ones warn when accessed
            value = getattr(module, name, None)
        if name.startswith("_") or isinstance(value, type | types.ModuleType):
            continue
        if callable(value):
            exported[name] = value
    return exported


def classified(module: types.ModuleType) -> dict[str, list[str]]:
    """Names of functions by their treatment of tensors.

    Returns:
        ``op`` (one op), ``composed`` (of several ops), ``plain`` (the result is not a tensor),
        ``created`` (under the same name in nodescope), and each group of uncovered functions.
    """
    single = {function for op in ops.all_ops() for function in op.numpy}
    names_by_kind: dict[str, list[str]] = {}
    for name, function in functions(module).items():
        if function in plain.NUMPY:
            kind = "plain"
        elif function in dispatch.UFUNCS or function in single:
            kind = "op"
        elif function in dispatch.FUNCTIONS:
            kind = "composed"
        elif name in refused.KIND_OF:
            kind = refused.KIND_OF[name]
        elif hasattr(sys.modules["nodescope"], name):
            kind = "created"
        else:
            kind = "other"
        names_by_kind.setdefault(kind, []).append(name)
    return names_by_kind


def by_family() -> dict[str, list[str]]:
    """Names of ops by family, in the order of the families."""
    names_by_family: dict[str, list[str]] = {family: [] for family in get_args(Family)}
    for op in ops.all_ops():
        names_by_family.setdefault(op.family, []).append(op.name)
    return {family: sorted(names) for family, names in names_by_family.items() if names}


def table() -> str:
    """The README's table."""
    lines = ["| Family | Ops |", "|-|-|"]
    for family, names in by_family().items():
        lines.append(f"| {family} | {', '.join(f'`{name}`' for name in names)} |")
    missing = "; ".join(refused.KINDS)
    lines += ["", f"NumPy's functions of these kinds are not covered: {missing}."]
    return "\n".join(lines)


def report() -> str:
    """The text that `main` prints."""
    families = by_family()
    all_ops = list(ops.all_ops())
    smooth = sum(op.vjp is not None for op in all_ops)
    lines = [f"{len(all_ops)} ops, {smooth} of them with gradients"]
    lines += [f"  {family:12} {len(names):4}" for family, names in families.items()]
    missing: dict[str, list[str]] = {}
    for module in (np, np.linalg, np.fft):
        names_by_kind = classified(module)
        total = sum(map(len, names_by_kind.values()))
        kinds = {"op": "one op", "composed": "composed", "plain": "plain", "created": "created"}
        counts = ", ".join(
            f"{len(names_by_kind.get(kind, []))} {description}"
            for kind, description in kinds.items()
        )
        rest = sum(len(names) for kind, names in names_by_kind.items() if kind not in kinds)
        lines.append(f"{module.__name__}: {total} functions: {counts}, {rest} not covered")
        for kind, names in names_by_kind.items():
            if kind not in kinds:
                missing.setdefault(kind, []).extend(names)
    for group, names in sorted(missing.items()):
        known = refused.KINDS.get(group)
        reason = "no reason given: cover them" if known is None else known.reason
        lines.append(f"  {group} ({reason}):\n    {', '.join(sorted(set(names)))}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    write = asked_to_write("ops_table", arguments)
    print(report())
    text = with_section(README.read_text(encoding="utf-8"), "ops", table())
    return update(README, text, "ops_table", write=write)


if __name__ == "__main__":
    sys.exit(main())
