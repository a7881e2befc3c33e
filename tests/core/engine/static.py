"""Record a function as a graph and run that, without the caching of `nodescope.compile`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope.engine import modes
from nodescope.engine.building import Builder
from nodescope.engine.trees import flatten, unflatten
from nodescope.ir.graph import Graph, TensorSpec
from nodescope.ops.plan import Plan


def recorded(f: Callable[..., Any], *arrays: Any) -> tuple[Any, Graph]:
    """What ``f`` gives as a graph, run once (as arrays), and the graph."""
    given = [np.asarray(each) for each in arrays]
    builder = Builder()
    with modes.building(builder):
        inputs = [
            builder.placeholder(TensorSpec(each.shape, each.dtype.name), "x") for each in given
        ]
        leaves, form = flatten(f(*inputs))
        outputs = [builder.value_of(each) for each in leaves]
    feeds = {value: tensor.data for tensor, value in builder.captures}
    feeds.update(zip((each.data.value for each in inputs), given, strict=True))
    graph = builder.finish(outputs)
    found = Plan(graph, builder.arrays).run([feeds[each] for each in graph.inputs])
    return unflatten(form, found), graph
