"""Typical mistakes with compiled functions, and with explicitly built graphs.

Each message says what is wrong, where in the user's own file, and how to fix it.
"""

from __future__ import annotations

import pytest

from nodescope.errors import (
    DtypeError,
    RegistryError,
    ShapeError,
    TraceError,
    UsageError,
)
from tests.core.engine.mistakes import Mistake, check

MISTAKES = [
    Mistake(
        "compile branch",
        """
@ns.compile
def f(x):
    if x.sum() > 0:
        return x
    return -x
f(ns.tensor(np.ones(3)))
""",
        TraceError, 3,
        "a Python branch on a traced value: bool scalar is not known while the graph is built",
        "use nodescope.cond, while_loop or scan, or np.where; or compute it outside of the graph",
    ),
    Mistake(
        "compile item",
        """
@ns.compile
def f(x):
    return x * x.sum().item()
f(ns.tensor(np.ones(3)))
""",
        TraceError, 3,
        "item: the elements of a traced value (float64 scalar) are not known yet",
        "return it from the function, or fetch it with a Session; print it outside",
    ),
    Mistake(
        "compile escaped",
        """
kept = []
@ns.compile
def f(x):
    kept.append(x * 2)
    return x
f(ns.tensor(np.ones(3)))
y = kept[0] + 1
""",
        TraceError, 7,
        "a value of a graph (float64 (3,)), made at model.py:4, is used outside of the graph "
        "that it belongs to",
        "compute inside the function or `with graph.as_default():`, and return or fetch what is "
        "needed outside",
    ),
    Mistake(
        "compile writes argument",
        """
@ns.compile
def f(x):
    x += 1
    return x
f(ns.tensor(np.ones(3)))
""",
        TraceError, 3,
        "x += y would write to an argument of the graph",
        "make a new tensor, as in x = x + y, or copy it first: x = x.copy()",
    ),
    Mistake(
        "compile writes outside",
        """
total = ns.tensor(np.zeros(3))
@ns.compile
def f(x):
    total[0] = x.sum()
    return x
f(ns.tensor(np.ones(3)))
""",
        TraceError, 4,
        "x[i] = y would write to a tensor from outside of the graph",
        "return the new value; or make it a parameter and use nodescope.assign",
    ),
    Mistake(
        "feed shape",
        """
graph = ns.Graph()
with graph.as_default():
    x = ns.placeholder(np.float64, shape=(2, 3), name="x")
    y = x * 2
ns.Session(graph).run(y, {x: np.ones((3, 2))})
""",
        ShapeError, 5,
        "feed of 'x' (made at model.py:3): its shape is (2, 3), not (3, 2)",
        "feed an array of that shape, or build the graph for this shape",
    ),
    Mistake(
        "feed dtype",
        """
graph = ns.Graph()
with graph.as_default():
    x = ns.placeholder(np.int64, shape=(2,), name="x")
    y = x * 2
ns.Session(graph).run(y, {x: np.array([0.5, 1.5])})
""",
        DtypeError, 5,
        "feed of 'x' (made at model.py:3): its dtype is int64, not float64",
        "convert the fed array with .astype",
    ),
    Mistake(
        "feed unknown",
        """
graph = ns.Graph()
with graph.as_default():
    x = ns.placeholder(np.float64, shape=(2,), name="x")
    y = x * 2
ns.Session(graph).run(y, {"z:0": np.ones(2)})
""",
        RegistryError, 5,
        "no operation named 'z' in this graph",
        "see graph.get_operations()",
    ),
    Mistake(
        "feed missing",
        """
graph = ns.Graph()
with graph.as_default():
    x = ns.placeholder(np.float64, shape=(2,), name="x")
    y = x * 2
ns.Session(graph).run(y)
""",
        UsageError, 5,
        "the placeholder 'x', made at model.py:3, must be fed",
        "run(fetches, {x: value})",
    ),
    Mistake(
        "fetch other graph",
        """
one, two = ns.Graph(), ns.Graph()
with one.as_default():
    y = ns.constant(1.0) * 2
ns.Session(two).run(y)
""",
        UsageError, 4,
        "the tensor 'multiply:0' belongs to another graph",
        "use it inside `with its_graph.as_default():` and in that graph's Session",
    ),
    Mistake(
        "finalized",
        """
graph = ns.Graph()
with graph.as_default():
    x = ns.placeholder(np.float64, shape=(2,), name="x")
    graph.finalize()
    y = x * 2
""",
        UsageError, 5,
        "this graph is finalized: nothing can be added to it",
        "build everything before finalize(), or build another Graph",
    ),
    Mistake(
        "uninitialised",
        """
graph = ns.Graph()
with graph.as_default():
    v = ns.variable(np.ones(2), name="v")
    y = v * 2
ns.Session(graph).run(y)
""",
        UsageError, 5,
        "the variable 'v', made at model.py:3, has no value in this session yet",
        "run global_variables_initializer() first",
    ),
    Mistake(
        "graph branch",
        """
graph = ns.Graph()
with graph.as_default():
    x = ns.placeholder(np.float64, shape=(), name="x")
    if x > 0:
        pass
""",
        TraceError, 4,
        "a Python branch on a traced value: bool scalar is not known while the graph is built",
        "use nodescope.cond, while_loop or scan, or np.where; or compute it outside of the graph",
    ),
    Mistake(
        "shared while building",
        """
@ns.compile
def f(x):
    y = x * 2
    flat = y.ravel()
    y += 1
    return y, flat
f(ns.tensor(np.ones((2, 2))))
""",
        TraceError, 5,
        "while a graph is built, a tensor that shares memory with another cannot be written to "
        "where only the run shows which elements they share",
        "write to a copy, x = x.copy(), or make a new tensor, as in x = x + y",
    ),
    Mistake(
        "placeholder outside",
        """
x = ns.placeholder(np.float64, shape=(2,), name="x")
""",
        UsageError, 1,
        "placeholder: no graph is being built here",
        "write it inside `with nodescope.Graph().as_default():`",
    ),
    Mistake(
        "session closed",
        """
graph = ns.Graph()
with graph.as_default():
    x = ns.constant(1.0)
session = ns.Session(graph)
session.close()
session.run(x)
""",
        UsageError, 6,
        "this session is closed",
        "make another Session",
    ),
    Mistake(
        "fetch of a number",
        """
graph = ns.Graph()
with graph.as_default():
    x = ns.constant(1.0)
ns.Session(graph).run(3)
""",
        UsageError, 4,
        "int cannot be fetched",
        "fetch tensors, operations, their names, or nests of these",
    ),
    Mistake(
        "mix graph and eager",
        """
graph = ns.Graph()
with graph.as_default():
    x = ns.constant(1.0) * 2
y = x + 1
""",
        TraceError, 4,
        "a value of a graph (float64 scalar), made at model.py:3, is used outside of the graph "
        "that it belongs to",
        "compute inside the function or `with graph.as_default():`, and return or fetch what is "
        "needed outside",
    ),
]  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_mistakes_are_explained(mistake: Mistake) -> None:
    check(mistake)
