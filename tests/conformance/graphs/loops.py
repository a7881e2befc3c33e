"""Random loops and branches: nodes that contain random graphs, also nested.

A body is made like a graph, on the values of its first iteration. A value captured from outside
becomes an input after the given ones.

Invariant: a body can run on any values of its specs, so it has no operations that NumPy leaves
undefined, such as converting floats that are too large to integers.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from nodescope.ir.graph import Graph, Node, TensorSpec
from nodescope.ops.calls import Scalar
from nodescope.ops.index import Port
from tests.conformance.graphs import idioms, makers
from tests.conformance.graphs.arrays import DTYPES, Array, content
from tests.conformance.graphs.choose import Choices, Seeded
from tests.conformance.graphs.making import _OF_NAN, Case, Making
from tests.conformance.graphs.networks import differentiated
from tests.conformance.graphs.random_graph import make

DEEPEST = 3
LENGTHS = (0, 1, 1, 2, 2, 3, 3, 5, 9)
MOST_STEPS = 4  # steps of a loop that runs while a condition holds


@dataclass
class Inside(Making):
    """A body under construction.

    Attributes:
        outer: What encloses it.
        given: Its own inputs.
        around: Captured values of ``outer``, and the values inside that stand for them.
    """

    outer: Making = field(kw_only=True)
    given: list[int] = field(default_factory=list)
    around: dict[int, int] = field(default_factory=dict)

    def take(self, array: Array) -> int:
        """Add an input of its own, with this value in the first iteration."""
        value = self._leaf("placeholder", array)
        self.given.append(value)
        self.pool.append(value)
        return value

    def capture(self, value: int) -> int:
        """Capture a value from outside."""
        if value not in self.around:
            self.around[value] = self._leaf("placeholder", self.outer.data[value])
        return self.around[value]

    def input(self, array: Array, *, feed: Any = None, op: str = "placeholder") -> int:
        return self.capture(self.outer.input(array, feed=feed, op=op))

    def constant(self, array: Array) -> int:
        """A constant of its own, or one captured from outside."""
        if self.choices.chance(50):
            return self.capture(self.outer.constant(array))
        value = super().constant(array)
        elements = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
        self.nodes[-1] = msgspec.structs.replace(self.nodes[-1], attrs={"elements": elements})
        return value

    def _tried(self, node: Node) -> Any:
        if node.op in _OF_NAN or (node.op == "astype" and not self._converts(node)):
            return None
        return super()._tried(node)

    def _converts(self, node: Node) -> bool:
        kinds = [np.dtype(d).kind for d in (self.spec(node.inputs[0]).dtype, node.attrs["dtype"])]
        return kinds[0] in "biu" or kinds[1] not in "iu"

    def body(self, around: Sequence[int], outputs: Sequence[int]) -> Graph:
        """Its graph, with these captured values."""
        behind = [self.capture(item) for item in around]
        graph = self.finish("body", outputs).graph
        return msgspec.structs.replace(graph, inputs=(*self.given, *behind))


def depth(m: Making) -> int:
    """The number of bodies around a node."""
    return 1 + depth(m.outer) if isinstance(m, Inside) else 0


def inside(m: Making, arrays: Sequence[Array], most: int = 8) -> Inside:
    """A body of random nodes over these inputs."""
    body = Inside(m.choices, m.wild, outer=m)
    for array in arrays:
        body.take(array)
    if not arrays or m.choices.chance(60):
        outer_value(body)
    wanted = m.choices.integer(0, most)
    for _ in range(3 * wanted):
        if sum(not node.is_leaf for node in body.nodes) >= wanted:
            break
        m.choices.one_of(_INSIDE)(body)
    return body


def outer_value(m: Making) -> Any:
    """A value from outside, to compute with."""
    if not isinstance(m, Inside):
        return None
    value = makers.pick(m.outer, _small)
    if value is None:
        value = makers.fresh(m.outer, (m.choices.integer(1, 3),), m.choices.one_of(DTYPES))
    result = m.capture(value)
    if result not in m.pool:
        m.pool.append(result)
    return result


def _small(spec: TensorSpec) -> bool:
    return bool(np.prod(spec.shape) <= 64) and np.dtype(spec.dtype).kind in "biuf"


def _shape(m: Making) -> tuple[int, ...]:
    sizes = (1, 2, 3, 3, 4) if m.choices.chance(95) else (0, 1)
    return tuple(m.choices.one_of(sizes) for _ in range(m.choices.integer(0, 2)))


def _start(m: Making) -> int:
    result = makers.pick(m, _small) if m.choices.chance(60) else None
    return makers.fresh(m, _shape(m), m.choices.one_of(DTYPES)) if result is None else result


def _column(m: Making, length: int) -> int:
    def fits(spec: TensorSpec) -> bool:
        return spec.shape[:1] == (length,) and _small(spec)

    if m.choices.chance(20):
        return m.constant(np.arange(length))
    result = makers.pick(m, fits) if m.choices.chance(60) else None
    if result is not None:
        return result
    return makers.fresh(m, (length, *_shape(m)), m.choices.one_of(DTYPES))


def end(body: Inside, spec: TensorSpec) -> int:
    """A value of a body with this spec."""
    same = [item for item in body.pool if body.spec(item) == spec]
    made_here = [item for item in same if item not in body.given]
    how = body.choices.integer(0, 9)
    if same and how < 2:
        return body.choices.one_of(same)  # A value given to the body, or another one of this spec.
    if made_here and how < 9:
        return body.choices.one_of(made_here)
    x = body.choices.one_of(body.pool) if body.pool else None
    top = x and body.one("sum", (x,), axis=None, keepdims=False)
    number = top and body.one("astype", (top,), dtype=spec.dtype)
    wide = number and body.one("broadcast_to", (number,), shape=spec.shape)
    if same and wide and body.choices.chance(70):
        sum_of = body.one("add", (body.choices.one_of(same), wide))
        wide = sum_of if sum_of and body.spec(sum_of) == spec else wide
    if wide:
        return wide
    return body.constant(content(spec.shape, spec.dtype, body.choices, wild=body.wild))


def _results(body: Inside) -> list[int]:
    able = [item for item in body.pool if np.prod(body.spec(item).shape) <= 64]
    return [body.choices.one_of(able) for _ in range(body.choices.integer(0, 3)) if able]


def scan(m: Making) -> Any:
    """A scan along the leading dimension, from either end, with few steps or none."""
    if depth(m) >= DEEPEST:
        return None
    length, reverse = m.choices.one_of(LENGTHS), m.choices.chance(40)
    carries = [_start(m) for _ in range(m.choices.integer(0, 3))]
    columns = [_column(m, length) for _ in range(m.choices.integer(0, 2))]
    at = -1 if reverse else 0
    rows = [
        m.data[column][at] if length else np.zeros(m.spec(column).shape[1:], m.spec(column).dtype)
        for column in columns
    ]
    body = inside(m, [*(m.data[carry] for carry in carries), *map(np.asarray, rows)])
    ends = [end(body, m.spec(carry)) for carry in carries]
    results = _results(body)
    if not ends and not results:
        return None
    around = list(body.around)
    attrs = {
        "body": body.body(around, (*ends, *results)), "carries": len(carries),
        "columns": len(columns), "length": length, "reverse": reverse, "kept": 0,
        "derivative": None,
    }  # fmt: skip
    return m.node("scan", (*carries, *columns, *around), attrs)


def _flag(m: Making) -> int | None:
    """A scalar that is true or false."""
    x = makers.pick(m)
    how = m.choices.integer(0, 3)
    if x is None or how == 0:
        return m.constant(np.array(m.choices.chance(50)))
    if how == 1:
        return makers.pick(m, lambda spec: spec.shape == () and spec.dtype != "bfloat16")
    op = m.choices.one_of(("greater", "less_equal", "not_equal"))
    holds = m.one(op, (x, Scalar(m.choices.one_of((0, 0.5, 1)))))
    return holds and m.one(m.choices.one_of(("any", "all")), (holds,), axis=None, keepdims=False)


def branch(m: Making) -> Any:
    """One of two bodies."""
    flag = _flag(m) if depth(m) < DEEPEST else None
    if flag is None:
        return None
    operands = [_start(m) for _ in range(m.choices.integer(0, 3))]
    given = [m.data[value] for value in operands]
    yes, no = inside(m, given), inside(m, given)
    first = _results(yes)
    if not first:
        return None
    other = [end(no, yes.spec(item)) for item in first]
    around = list(dict.fromkeys((*yes.around, *no.around)))
    attrs = {"then": yes.body(around, first), "otherwise": no.body(around, other)}
    return m.node("cond", (flag, *operands, *around), attrs)


def loop(m: Making) -> Any:
    """A loop over a body, which a counter ends."""
    if depth(m) >= DEEPEST:
        return None
    counter = m.constant(np.array(m.choices.integer(0, 2)))
    carries = [counter, *(_start(m) for _ in range(m.choices.integer(0, 2)))]
    operands = [m.data[carry] for carry in carries]
    test, body = inside(m, operands, 3), inside(m, operands)
    going = test.one("less", (test.given[0], Scalar(m.choices.integer(0, MOST_STEPS))))
    flag = _flag(test) if m.choices.chance(30) else None
    if flag and test.spec(flag).dtype == "bool":
        going = test.one("logical_and", (going, flag))
    following = body.one("add", (body.given[0], Scalar(1)))
    if going is None or following is None:
        return None
    ends = [following, *(end(body, m.spec(carry)) for carry in carries[1:])]
    around = list(dict.fromkeys((*test.around, *body.around)))
    attrs = {
        "condition": test.body(around, [going]), "body": body.body(around, ends),
        "carries": len(carries),
    }  # fmt: skip
    return m.node("while_loop", (*carries, *around), attrs)


def at_number(m: Making) -> Any:
    """The row at a computed index."""
    at = makers.pick(m, lambda spec: spec.dtype == "int64" and spec.shape == ())
    x = makers.pick(m, lambda spec: len(spec.shape) > 0 and 0 not in spec.shape)
    if x is None or at is None:
        return None
    low = m.one("clip", (at,), low=0, high=m.spec(x).shape[0] - 1)
    return low and m.node("getitem", (x, low), {"index": (Port(0),)})


_INSIDE: tuple[makers.Maker, ...] = tuple(
    maker
    for maker, weight in (
        (makers.unary, 8), (makers.binary, 12), (makers.choose, 3), (makers.clip, 1),
        (makers.reduce, 5), (makers.arg_extreme, 1), (makers.cumulative, 1), (makers.normalise, 1),
        (makers.reshape, 3), (makers.transpose, 3), (makers.spread, 4), (makers.shuffle, 3),
        (makers.convert, 3), (makers.take, 3), (makers.put, 1), (makers.product, 5),
        (idioms.again, 6), (idioms.twice, 4), (idioms.layouts, 2), (idioms.neutral, 7),
        (idioms.with_itself, 2), (idioms.softmax, 1), (idioms.layer_norm, 1),
        (idioms.other_phase, 1), (idioms.sums, 1), (idioms.chain, 3),
        (outer_value, 5), (at_number, 2), (scan, 2), (branch, 2), (loop, 1),
    )
    for _ in range(weight)
)  # fmt: skip
_AROUND: tuple[makers.Maker, ...] = tuple(
    maker
    for maker, weight in (
        (makers.unary, 4), (makers.binary, 5), (makers.reduce, 2), (makers.spread, 2),
        (makers.transpose, 2), (makers.reshape, 1), (makers.take, 1), (idioms.again, 2),
        (scan, 6), (branch, 4), (loop, 3),
    )
    for _ in range(weight)
)  # fmt: skip
SMOOTH: tuple[makers.Maker, ...] = tuple(item for item in _AROUND if item is not loop)


def drawn(seed: int, name: str, chosen: Sequence[Callable[[Making], Any]], most: int = 10) -> Case:
    """A graph with at least one body, of this seed or of a seed far above it."""
    while True:
        case = make(Seeded(seed), name, least=1, most=most, chosen=chosen)
        bodies = [node for node in case.graph.nodes if node.family == "control"]
        if bodies:
            return _given_out(case, bodies, Choices(Seeded(~seed)))
        seed += 1_000_000


def _given_out(case: Case, bodies: Sequence[Node], choices: Choices) -> Case:
    """The case with most of its bodies' outputs among the results."""
    more = [v for node in bodies for v in node.outputs if choices.chance(60)]
    outputs = tuple(dict.fromkeys((*case.graph.outputs, *more)))
    return dataclasses.replace(case, graph=msgspec.structs.replace(case.graph, outputs=outputs))


@functools.lru_cache(maxsize=256)
def control_case(seed: int) -> Case:
    """The random graph of a seed, with loops and branches."""
    return drawn(seed, f"loops of seed {seed}", _AROUND)


def control_cases(first: int, count: int) -> list[Case]:
    """Those of a range of seeds."""
    return [control_case(seed) for seed in range(first, first + count)]


@functools.lru_cache(maxsize=256)
def control_gradient(seed: int) -> Case | None:
    """The value and gradients of a function with loops and branches; None if it has none."""
    case = drawn(seed, f"gradient of loops of seed {seed}", SMOOTH, 6)
    return differentiated(case, keeping=seed % 3 > 0)


def control_gradients(first: int, count: int) -> list[Case]:
    """Those of a range of seeds."""
    result = map(control_gradient, range(first, first + count))
    return [case for case in result if case is not None]


def described(graph: Graph, around: str = "") -> list[str]:
    """The content of a graph's bodies as text, once for each occurrence."""
    results = []
    for node in graph.nodes:
        attrs = node.attrs
        if around:
            results.append(f"op {node.op}")
            results += ["elements"] if "elements" in attrs else []
        if node.family != "control":
            continue
        results.append(f"{node.op} in {around}" if around else node.op)
        if node.op == "scan":
            results.append(f"length {attrs['length']}")
            results += ["reverse"] if attrs["reverse"] else []
            results += ["several carries"] if attrs["carries"] > 1 else []
            results += ["several columns"] if attrs["columns"] > 1 else []
        for attr in attrs.values():
            if isinstance(attr, Graph):
                results += described(attr, node.op)
    return results
