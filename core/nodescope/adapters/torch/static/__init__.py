"""``ns.torch``: exported programs of PyTorch as graphs that are drawn, run and stepped.

    program = ns.torch.graph(model, (x,))       # by torch.export
    program = ns.torch.joint(model, (x,), loss=lambda y: y.square().mean())
    program = ns.torch.load("model.pt2")
    with ns.record("run.nscope"):
        program.run(x)                          # node by node, observed

Invariant: importing this module imports PyTorch; nodescope imports it only on request.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from nodescope.console_output import last_line
from nodescope.errors import GraphError, UsageError

try:
    import torch as _torch
except ImportError:
    raise UsageError("PyTorch is not installed", hint="pip install 'nodescope[torch]'") from None

from nodescope.adapters.torch.static.archive import load_exported
from nodescope.adapters.torch.static.graph_places import WRAPPER
from nodescope.adapters.torch.static.program import JointResult as JointResult
from nodescope.adapters.torch.static.program import Program as Program
from nodescope.adapters.torch.static.program import unobserved

__all__ = ["JointResult", "Program", "graph", "joint", "load"]


def graph(
    model: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None, *,
    dynamic_shapes: Any = None,
) -> Program:  # fmt: skip
    """The graph of a model, made by ``torch.export``.

    Args:
        model: A module, or an exported program.
        args, kwargs: Example inputs.
        dynamic_shapes: As in `torch.export.export`.

    Raises:
        GraphError: PyTorch cannot export the model; the message says why.
    """
    if isinstance(model, _torch.export.ExportedProgram):
        return Program(model)
    return Program(_exported(model, args, kwargs, dynamic_shapes))


def joint(
    model: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None, *,
    loss: Callable[[Any], Any] | int = 0, dynamic_shapes: Any = None,
) -> Program:  # fmt: skip
    """The graph of a model's forward and backward pass.

    Args:
        model, args, kwargs, dynamic_shapes: As in `graph`.
        loss: A function that computes the loss from the model's return value; or the index of the
            output that is the loss. If that output is not a scalar, its sum is the loss.

    Raises:
        GraphError: As in `graph`; or there is nothing to differentiate.
    """
    if isinstance(model, _torch.export.ExportedProgram):
        if not isinstance(loss, int):
            raise UsageError("the loss of an exported program is one of its outputs: a number")
        return Program(model, loss)
    if isinstance(loss, int):
        return Program(_exported(model, args, kwargs, dynamic_shapes), loss)
    shapes = dynamic_shapes
    if isinstance(dynamic_shapes, tuple | list):
        shapes = {"args": tuple(dynamic_shapes)}
    return Program(_exported(_with_loss(model, loss), args, kwargs, shapes), 0)


def load(path: str | Path, *, trusted: bool = False, loss: int | None = None) -> Program:
    """Load a program that ``torch.export.save`` saved.

    Args:
        path: The ``.pt2`` file.
        trusted: Whether objects in the file may be unpickled, which can run code of its author.
        loss: The index of the output to differentiate, as in `joint`; None for no backward pass.

    Raises:
        GraphError: The file cannot be loaded, or only if it is trusted; the message says why.
    """
    with unobserved():
        return Program(load_exported(Path(path), trusted=trusted), loss)


def _exported(model: Any, args: Any, kwargs: Any, shapes: Any) -> Any:
    try:
        with unobserved():
            return _torch.export.export(model, tuple(args), kwargs, dynamic_shapes=shapes)
    except Exception as error:
        raise GraphError(f"torch.export refuses the model: {last_line(error)}") from error


def _with_loss(model: Any, loss: Callable[[Any], Any]) -> Any:
    class ModelWithLoss(_torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return loss(self.model(*args, **kwargs))

    assert ModelWithLoss.__name__ == WRAPPER
    return ModelWithLoss()
