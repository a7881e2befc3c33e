"""Record a function as a graph and run that, without the caching of `nodescope.compile`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope.engine import dispatch_mode
from nodescope.engine.building import Builder
from nodescope.engine.trees import flatten, unflatten
from nodescope.ir.graph import Graph, TensorSpec
from nodescope.ops.plan import Plan


def recorded(f: Callable[..., Any], *arrays: Any) -> tuple[Any, Graph]:
    """The results of ``f`` run once as a graph, as arrays, and the graph."""
    arguments = [np.asarray(array) for array in arrays]
    builder = Builder()
    with dispatch_mode.building(builder):
        inputs = [
            builder.placeholder(TensorSpec(spec.shape, spec.dtype.name), "x") for spec in arguments
        ]
        leaves, form = flatten(f(*inputs))
        outputs = [builder.value_of(leaf) for leaf in leaves]
    feeds = {value: tensor.data for tensor, value in builder.captures}
    feeds.update(zip((value.data.value for value in inputs), arguments, strict=True))
    graph = builder.finish(outputs)
    result = Plan(graph, builder.arrays).run([feeds[value] for value in graph.inputs])
    return unflatten(form, result), graph
