"""Pieces: the statements for one element, cut into several loops over a block of elements.

A processor works on as many elements at once as fit into its instruction window. A long chain of
dependent instructions fills that window by itself. Cut in two, with the intermediate results in a
block of memory that stays in the nearest cache, each half runs on several elements at once.

Invariant: each statement is computed once, in its order; only the last loop writes to memory.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

BLOCK = 1024  # elements
_ENOUGH, _WORTH = 14, 8  # minimum instructions of the loop cut off, and of the rest

_STATEMENT = re.compile(r"const (\w+) ([vl]\d+) = (.*);")
_NAME = re.compile(r"\b[vl]\d+\b")
_CALL = re.compile(r"ns_(\w+)_f(?:32|64)\(|( / )")
_INSTRUCTIONS: dict[str, int] = {
    "tanh": 24, "exp": 20, "exp2": 20, "expm1": 24, "log": 26, "log1p": 32, "erf": 50,
    "sigmoid": 26, "logaddexp": 60, "logaddexp2": 60, "elu": 26, "gelu_none": 54, "gelu_tanh": 30,
    "gelu_grad_none": 76, "gelu_grad_tanh": 40, "sqrt": 5, "maximum": 4, "minimum": 4, "clip": 4,
    "where": 2, "keep": 2, "abs": 1, "fabs": 1,
}  # fmt: skip
_CALLED = 60  # calls of the C library
_DIVISION = 5


def weight(line: str) -> int:
    """About how many instructions a statement takes."""
    return 1 + sum(
        _DIVISION if slash else _INSTRUCTIONS.get(name, _CALLED)
        for name, slash in _CALL.findall(line)
    )


def cut(lines: Sequence[str]) -> list[list[str]]:
    """Statements grouped into one run per loop; none if a single loop is as good."""
    if not all(_STATEMENT.fullmatch(line) for line in lines):
        return []
    weights = [weight(line) for line in lines]
    runs: list[list[str]] = [[]]
    done, left = 0, sum(weights)
    for line, weight_ in zip(lines, weights, strict=True):
        runs[-1].append(line)
        done, left = done + weight_, left - weight_
        if done >= _ENOUGH and left >= _WORTH:
            runs.append([])
            done = 0
    return runs if len(runs) > 1 else []


def staged(runs: Sequence[Sequence[str]], low: str, high: str) -> list[str]:
    """The loops over ``j`` from ``low`` to ``high``, block by block."""
    definitions: dict[str, tuple[int, str, str]] = {}  # by name: its run, C type, statement
    for i, run in enumerate(runs):
        for line in run:
            definition = _STATEMENT.fullmatch(line)
            if definition is not None:
                definitions[definition[2]] = i, definition[1], line
    bodies: list[list[str]] = []
    kept: dict[str, str] = {}
    for i, run in enumerate(runs):
        head: dict[str, None] = {}
        for name in dict.fromkeys(_NAME.findall("\n".join(run))):
            home, kind, line = definitions.get(name, (i, "", ""))
            if home == i:
                continue
            if name[0] == "l":
                head[line] = None  # loaded again: it is in the cache, and unchanged
                continue
            kept[name] = "u8" if kind == "b8" else kind
            test = " != 0" if kind == "b8" else ""
            head[f"const {kind} {name} = k{name}[j - j0]{test};"] = None
        bodies.append([*head, *run])
    for name in kept:
        bodies[definitions[name][0]].append(f"k{name}[j - j0] = {name};")
    lines = ["{", *(f"{kind} k{name}[{BLOCK}];" for name, kind in kept.items())]
    lines.append(f"for (i64 j0 = {low}; j0 < {high}; j0 += {BLOCK}) {{")
    lines.append(f"const i64 j1 = j0 + {BLOCK} < {high} ? j0 + {BLOCK} : {high};")
    for body in bodies:
        lines += ["#pragma omp simd", "for (i64 j = j0; j < j1; j++) {", *body, "}"]
    return [*lines, "}", "}"]
