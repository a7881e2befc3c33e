"""Names in graphs built by hand: of operations and variables.

Invariant: pure; nothing here knows a graph.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor
from nodescope.errors import UsageError
from nodescope.ir.graph import TensorSpec
from nodescope.ir.scopes import join


@dataclass(frozen=True, eq=False)
class Variable:
    """A variable, whose value a session keeps.

    Attributes:
        value: Value id of its value at the start of a run.
        name: Its node's name.
        spec: Shape and dtype.
        trainable: Whether optimizers change it.
        initializer: Id of the node with its initial value; 0 for an ``outside`` variable.
        outside: The program's own parameter, which sessions share with the program.
        chained: Whether each draw or update continues from the previous one, like a random
            generator's state.
    """

    value: int
    name: str
    spec: TensorSpec
    trainable: bool = True
    initializer: int = 0
    outside: Tensor | None = None
    chained: bool = False


def split_name(name: str, scope: str) -> tuple[str, str]:
    """The last part of a name, and its scope.

    Raises:
        UsageError: The text is not a name.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9.][\w.\-]*(/[\w.\-]+)*", name):
        raise UsageError(
            f"{name!r} is not a name for an operation", source=where(),
            hint="use letters, digits, '_', '.', '-', and '/' between scopes",
        )  # fmt: skip
    before, _, label = name.rpartition("/")
    return label, join(scope, before) if before else scope
