"""nodescope: run NumPy programs as a computation graph, inspect it, and stop it at any node.

The module is also a namespace of the Python array API standard, 2024.12: `nodescope.array_api`.

Invariant: importing this package starts nothing, and loads neither the engine nor a web framework:
each name is loaded when it is first used.
"""

from __future__ import annotations

from nodescope import processes as _processes  # noqa: F401 (first, see there)

# isort: split

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from nodescope import array_api as _array_api
from nodescope.errors import NodescopeError

if TYPE_CHECKING:  # for type checkers and editors: the same names as in `_HOMES` and `_MODULES`
    from nodescope.adapters.torch import static as torch  # noqa: F401 (see `_LIBRARIES`)
    from nodescope.api import attach, breakpoint, record, watch  # type: ignore[import-not-found, unused-ignore]
    from nodescope.emit.scopes import name_scope, step, steps
    from nodescope.engine import fft, linalg, nn, optim, random
    from nodescope.engine.autodiff.checkpoint import checkpoint
    from nodescope.engine.autodiff.custom import custom_gradient, custom_vjp
    from nodescope.engine.autodiff.forward_mode import jvp, linearize, vjp
    from nodescope.engine.autodiff.grad import (
        grad,
        stop_gradient,
        tensor,
        value_and_grad,
    )
    from nodescope.engine.autodiff.gradient_tape import GradientTape
    from nodescope.engine.autodiff.jacobian import hessian, hvp, jacfwd, jacobian, jacrev
    from nodescope.engine.control.branch import cond
    from nodescope.engine.control.loop import fori_loop, while_loop
    from nodescope.engine.control.scan import map, scan
    from nodescope.engine.dispatch_mode import no_grad
    from nodescope.engine.functions import (
        cross_entropy,
        gelu,
        log_softmax,
        logsumexp,
        mse,
        relu,
        sigmoid,
        silu,
        softmax,
        softplus,
    )
    from nodescope.engine.graphs.api import (
        GraphKeys,
        constant,
        control_dependencies,
        device,
        group,
        identity,
        no_op,
        placeholder,
        placeholder_with_default,
    )
    from nodescope.engine.graphs.gradients import gradients
    from nodescope.engine.graphs.graph import Graph, get_default_graph
    from nodescope.engine.graphs.program import RunMetadata, RunOptions
    from nodescope.engine.graphs.session import Session
    from nodescope.engine.graphs.variables import (
        assign,
        assign_add,
        assign_sub,
        global_variables,
        global_variables_initializer,
        parameter,
        trainable_variables,
        variable,
        variables_initializer,
    )
    from nodescope.engine.numpy_functions.creation import geomspace, logspace, tri
    from nodescope.engine.numpy_functions.cumulative import cummax, cummin
    from nodescope.engine.numpy_functions.index import (
        gather,
        index_add,
        index_update,
        one_hot,
        put_along_axis,
        scatter_add,
    )
    from nodescope.engine.numpy_functions.ordering import bincount, topk
    from nodescope.engine.on_ray.executor import RayExecutor
    from nodescope.engine.static import compile, disable_compile, get_mode, set_mode
    from nodescope.engine.static.program import Program, load_graph
    from nodescope.engine.tensor import Tensor

    __version__: str

__array_api_version__ = _array_api.VERSION

__all__ = [
    "GradientTape", "Graph", "GraphKeys", "NodescopeError", "Program", "RayExecutor", "RunMetadata",
    "RunOptions", "Session", "Tensor", "__version__", "assign", "assign_add", "assign_sub",
    "attach", "bincount", "breakpoint", "checkpoint", "compile", "cond", "constant",
    "control_dependencies", "cross_entropy", "cummax", "cummin", "custom_gradient",
    "custom_vjp", "device", "disable_compile", "fft", "fori_loop", "gather", "gelu",
    "geomspace", "get_default_graph", "get_mode", "global_variables",
    "global_variables_initializer", "grad", "gradients", "group", "hessian", "hvp", "identity",
    "index_add", "index_update", "jacfwd", "jacobian", "jacrev", "jvp", "linalg", "linearize",
    "load_graph", "log_softmax", "logspace", "logsumexp", "map", "mse", "name_scope", "nn",
    "no_grad", "no_op", "one_hot", "optim", "parameter", "placeholder", "placeholder_with_default",
    "put_along_axis", "random", "record", "relu", "scan", "scatter_add", "set_mode", "sigmoid",
    "silu", "softmax", "softplus", "step", "steps", "stop_gradient", "tensor", "topk",
    "trainable_variables", "tri", "value_and_grad", "variable", "variables_initializer", "vjp",
    "watch", "while_loop",
]  # fmt: skip

# The first import of the package `nodescope.record` binds its name in this module, which would hide
# the function `record`. So the package is imported now, and the name is freed again.
_import_module("nodescope.record")
globals().pop("record", None)

_HOMES = {
    name: f"nodescope.{module}"
    for module, names in {
        "api": "attach breakpoint record watch",
        "engine.autodiff.checkpoint": "checkpoint",
        "engine.autodiff.custom": "custom_gradient custom_vjp",
        "engine.autodiff.forward_mode": "jvp linearize vjp",
        "engine.autodiff.grad": "grad stop_gradient tensor value_and_grad",
        "engine.autodiff.gradient_tape": "GradientTape",
        "engine.autodiff.jacobian": "hessian hvp jacfwd jacobian jacrev",
        "engine.control.branch": "cond",
        "engine.control.loop": "fori_loop while_loop",
        "engine.control.scan": "map scan",
        "engine.functions": """
            cross_entropy gelu log_softmax logsumexp mse relu sigmoid silu softmax softplus
        """,
        "engine.graphs.api": """
            GraphKeys constant control_dependencies device group identity no_op placeholder
            placeholder_with_default
        """,
        "engine.graphs.gradients": "gradients",
        "engine.graphs.graph": "Graph get_default_graph",
        "engine.graphs.program": "RunMetadata RunOptions",
        "engine.graphs.session": "Session",
        "engine.graphs.variables": """
            assign assign_add assign_sub global_variables global_variables_initializer parameter
            trainable_variables variable variables_initializer
        """,
        "engine.dispatch_mode": "no_grad",
        "engine.numpy_functions.creation": "geomspace logspace tri",
        "engine.numpy_functions.cumulative": "cummax cummin",
        "engine.numpy_functions.index": """
            gather index_add index_update one_hot put_along_axis scatter_add
        """,
        "engine.numpy_functions.ordering": "bincount topk",
        "emit.scopes": "name_scope step steps",
        "engine.on_ray.executor": "RayExecutor",
        "engine.static": "compile disable_compile get_mode set_mode",
        "engine.static.program": "Program load_graph",
        "engine.tensor": "Tensor",
    }.items()
    for name in names.split()
}
"""Names of this module, and the modules that define them."""

_MODULES = frozenset({"fft", "linalg", "nn", "optim", "random"})  # of the engine
_LIBRARIES = {"torch": "nodescope.adapters.torch.static"}
"""Names for one library each; the module behind a name imports that library."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("nodescope")
    elif name in _HOMES:
        value = getattr(_import_module(_HOMES[name]), name)
    elif name in _MODULES:
        value = _import_module(f"nodescope.engine.{name}")
    elif name in _LIBRARIES:
        value = _import_module(_LIBRARIES[name])
    elif name in _array_api.NAMES or name == "bfloat16":
        value = _array_api.find(name)
    else:
        raise AttributeError(f"module 'nodescope' has no attribute {name!r}")
    if name != "record":  # this name must stay free, see above
        globals()[name] = value
    return value


def __dir__() -> list[str]:
    public = [name for name in globals() if not name.startswith("_")]
    return sorted({*public, *__all__, *_array_api.NAMES, "bfloat16"})
