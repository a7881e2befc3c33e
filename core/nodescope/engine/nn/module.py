"""Modules: parts of a network whose attributes name their parameters and scopes.

Invariant: a module holds parameters, buffers and other modules; what it computes is ordinary
tensor code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import numpy as np

from nodescope.emit.scopes import name_scope
from nodescope.engine import dispatch_mode
from nodescope.engine.autodiff.grad import assign
from nodescope.engine.source import where
from nodescope.engine.tensor import LEAF, Tensor, make
from nodescope.errors import ShapeError, UsageError
from nodescope.ir.scopes import join
from nodescope.registry import did_you_mean


def buffer(data: Any, dtype: Any = None, *, name: str) -> Tensor:
    """State of a module that no gradient flows into, such as running statistics.

    Like a parameter it is a leaf of the graph and is changed by `nodescope.assign`; optimizers
    leave it alone.
    """
    return make(np.array(data, dtype=dtype), kind="parameter", name=name)


class Module:
    """A part of a network: assign parameters and modules to attributes, and define ``forward``.

    An attribute may be a list, tuple or dict of them, nested to any depth; its items get names such
    as ``blocks_0`` and ``heads_left``. Calling a module runs ``forward`` in a name scope: the
    attribute under which its owner holds it. A parameter's name is its path:
    ``encoder/layer_0/weight``. The outermost module opens no scope.
    """

    _path: str = ""
    _scope: str = ""

    training: bool = True
    """Whether the module is in training mode; `train` and `eval` set it for all modules inside."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module's result; subclasses define this."""
        raise UsageError(f"{type(self).__name__} defines no forward", source=where())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` in the module's scope."""
        if not self._scope:
            tracer = dispatch_mode.tracer()
            if tracer is not None:
                return tracer.model_calls.run(self.forward, args, kwargs)
            return self.forward(*args, **kwargs)
        with name_scope(self._scope):
            return self.forward(*args, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        _adopt(self, name, value)

    # Contents

    def modules(self) -> Iterator[Module]:
        """This module and all modules inside it, each once, owners first."""
        seen: set[int] = set()
        todo: list[Module] = [self]
        while todo:
            module = todo.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield module
            todo += reversed(
                [inner for _, inner in module._children() if isinstance(inner, Module)]
            )

    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Call ``function`` with every module, the innermost first; return this module."""
        for module in reversed(list(self.modules())):
            function(module)
        return self

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Paths and parameters, in order of definition; a shared one appears once."""
        return (pair for pair in self._state() if pair[1].edge is LEAF)

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Paths and buffers, in order of definition; a shared one appears once."""
        return (pair for pair in self._state() if pair[1].edge is not LEAF)

    def parameters(self) -> list[Tensor]:
        """The parameters of this module and of those inside."""
        return [parameter for _, parameter in self.named_parameters()]

    def num_parameters(self) -> int:
        """The number of trained scalars."""
        return sum(parameter.size for parameter in self.parameters())

    # Training

    def train(self, mode: bool = True) -> Self:
        """Switch all modules to training, or with False to evaluation; return this module."""
        for module in self.modules():
            object.__setattr__(module, "training", bool(mode))
        return self

    def eval(self) -> Self:
        """Switch to evaluation: no dropout, and running statistics as learned; return this
        module.
        """
        return self.train(False)

    def zero_grad(self) -> None:
        """Clear the gradients accumulated by `Tensor.backward`."""
        for parameter in self.parameters():
            parameter.grad = None

    # Saving and loading

    def state_dict(self) -> dict[str, np.ndarray[Any, Any]]:
        """Copies of all parameters and buffers by path, suitable for `numpy.savez`."""
        return {path: tensor.data.copy() for path, tensor in self._state()}

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> None:
        """Give parameters and buffers the values that `state_dict` returned.

        Args:
            state: Arrays by path; they are converted to the existing dtypes.
            strict: Whether every path must exist on both sides; otherwise the others stay
                unchanged.

        Raises:
            UsageError: Paths are missing or unknown. Nothing is changed.
            ShapeError: An array has another shape. Nothing is changed.
        """
        own = dict(self._state())
        missing = [path for path in own if path not in state]
        unknown = [path for path in state if path not in own]
        if strict and (missing or unknown):
            parts = [f"{word} {', '.join(paths)}" for word, paths in
                     (("missing", missing), ("unexpected", unknown)) if paths]  # fmt: skip
            raise UsageError(
                f"load_state_dict: {'; '.join(parts)}",
                source=where(),
                hint=(did_you_mean(unknown[0], missing) if unknown else "")
                or "pass strict=False to load the others",
            )
        shared = {path: tensor for path, tensor in own.items() if path in state}
        arrays = {path: _plain(state[path]) for path in shared}
        wrong = [
            f"{path} is {tensor.shape}, not {arrays[path].shape}"
            for path, tensor in shared.items()
            if tensor.shape != arrays[path].shape
        ]
        if wrong:
            raise ShapeError(
                f"load_state_dict: {'; '.join(wrong)}", source=where(),
                hint="make the module with the sizes that the state was saved with",
            )  # fmt: skip
        for path, tensor in shared.items():
            assign(tensor, arrays[path])

    def _children(self) -> Iterator[tuple[str, Any]]:
        for name, value in vars(self).items():
            yield from _flat(name, value)

    def _walk(self, path: str) -> Iterator[tuple[str, Tensor]]:
        for name, value in self._children():
            if isinstance(value, Tensor) and getattr(value, "_kind", "") == "parameter":
                yield join(path, name), value
            elif isinstance(value, Module):
                yield from value._walk(join(path, name))

    def _state(self) -> Iterator[tuple[str, Tensor]]:
        seen: set[int] = set()
        for path, tensor in self._walk(""):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                yield path, tensor


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The contents of an attribute, through lists, tuples and dicts of any depth."""
    if isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from _flat(f"{name}_{i}", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(f"{name}_{key}", item)
    else:
        yield name, value


def _plain(value: Any) -> np.ndarray[Any, Any]:
    return value.data if isinstance(value, Tensor) else np.asarray(value)


def _adopt(owner: Module, name: str, value: Any) -> None:
    path = join(owner._path, name)
    if isinstance(value, Tensor):
        if getattr(value, "_kind", "") == "parameter":
            value._name = path
    elif isinstance(value, Module):
        object.__setattr__(value, "_scope", name)
        object.__setattr__(value, "_path", path)
        for inner, item in list(value._children()):
            _adopt(value, inner, item)
    elif isinstance(value, list | tuple | dict):
        for inner, item in _flat(name, value):
            _adopt(owner, inner, item)


class Sequential(Module):
    """Modules and functions called in sequence; modules run in scopes ``layer_0``, …"""

    def __init__(self, *layers: Callable[..., Any]) -> None:
        self.layer = list(layers)

    def __len__(self) -> int:
        return len(self.layer)

    def __iter__(self) -> Iterator[Callable[..., Any]]:
        return iter(self.layer)

    def __getitem__(self, index: int) -> Callable[..., Any]:
        return self.layer[index]

    def forward(self, x: Any) -> Any:
        """The last layer's result."""
        for layer in self.layer:
            x = layer(x)
        return x
