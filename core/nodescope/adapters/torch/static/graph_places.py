"""Graph places: the scope, source line and module of a node of an exported graph.

Invariant: pure functions of the node's metadata, which may be missing or damaged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from nodescope.ir.graph import SourceLocation
from nodescope.ir.scopes import join
from nodescope.origins import is_internal

_FRAME: Final = re.compile(r'File "([^"\n]+)", line (\d{1,9}), in ([^\n]*)')
# The outermost module's name in a traced path such as ``L['self'].blocks``.
_ROOT: Final = re.compile(r"^(?:L\['\w+'\]|L__\w+?__|self)\.?")
_CALL: Final = re.compile(r"@(\d{1,9})$")
_NO_MODULE: Final = "_empty_nn_module_stack_from_metadata_hook"
WRAPPER: Final = "ModelWithLoss"
"""The class that puts a loss after a model; it has no scope."""


class GraphPlace(NamedTuple):
    """Where a node belongs.

    Attributes:
        scope: The path of its module, such as ``Net/blocks/0/norm``, as for the eager model.
        source: The innermost line outside of PyTorch; None if it is not known.
        module: The class of its module, with its package; ``""`` outside of modules.
    """

    scope: str
    source: SourceLocation | None
    module: str


def place_of(meta: Mapping[str, Any]) -> GraphPlace:
    """The place in a node's metadata."""
    stack = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack")
    scope, module = _scope_of(stack if isinstance(stack, Mapping) else {})
    return GraphPlace(scope, source_of(str(meta.get("stack_trace") or "")), module)


def _scope_of(stack: Mapping[str, Any]) -> tuple[str, str]:
    scope = outer = module = ""
    for key, entry in stack.items():
        if key == _NO_MODULE or not isinstance(entry, tuple) or len(entry) != 2:
            continue
        path = _ROOT.sub("", str(entry[0])).replace(".", "/").strip("/")
        kind = entry[1]
        module = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
        name = module.rpartition(".")[2]
        if name == WRAPPER:
            continue
        call = _CALL.search(str(key))
        if not scope:
            part = name
        elif path.startswith(f"{outer}/") if outer else path:
            part = path.removeprefix(outer).lstrip("/")
        else:
            part = path.rpartition("/")[2] or name
        scope, outer = join(scope, f"{part}_{call[1]}" if call else part), path
    return scope, module


def source_of(trace: str) -> SourceLocation | None:
    """The innermost line of a stack trace outside PyTorch's own code; else the innermost."""
    frames = [
        SourceLocation(file, int(line), function.strip())
        for file, line, function in _FRAME.findall(trace)
        if file.endswith(".py")  # source lines are shown of such files only
    ]
    return next(
        (frame for frame in reversed(frames) if not is_internal(frame.file)
         and "/torch/nn/" not in frame.file),
        frames[-1] if frames else None,
    )  # fmt: skip
