"""Random graphs for the rules that are off by default because they may change bits.

Each rule has a pattern, which is applied to finite numbers from 0.2 to 3, and an error bound.

Invariant: the graph contains nothing that such a rule changes except the wanted rules' patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nodescope.engine.crosscheck.bounds import TRIALS, Range, range_of
from nodescope.engine.crosscheck.values import every_value, quiet
from nodescope.ops.calls import Scalar
from tests.conformance.graphs.choose import Choices, Seeded
from tests.conformance.graphs.loops import Inside
from tests.conformance.graphs.making import Case, Making

Array = Any
Build = Callable[[Making, int, int], "int | None"]


@dataclass(frozen=True)
class Pattern:
    """The pattern that a rule matches.

    Attributes:
        build: Makes the pattern from two values of one spec.
        bound: The allowed error, in units of the dtype's epsilon times this of the two values and
            the result.
    """

    build: Build
    bound: Callable[[Array, Array, Array], Array]


@dataclass(frozen=True)
class Patterned:
    """A case with patterns.

    Attributes:
        case: The graph.
        rooms: The allowed errors of the patterns' values.
    """

    case: Case
    rooms: Mapping[int, Array]


def _then(first: str, second: str) -> Build:
    return lambda m, x, y: m.one(second, (m.one(first, (x,)),))


def _with(op: str, number: float, *, turned: bool = False) -> Build:
    def build(m: Making, x: int, y: int) -> int | None:
        other: Any = Scalar(number)
        spec = m.spec(x)
        # A body does not know the values of captured constants.
        if op in ("add", "multiply") and not isinstance(m, Inside) and m.choices.chance(40):
            other = m.constant(np.full(spec.shape, number, spec.dtype))
        swap = turned or (op in ("add", "multiply") and m.choices.chance(50))
        return m.one(op, (other, x) if swap else (x, other))

    return build


def _sum(m: Making, x: int, y: int) -> int | None:
    wide = m.one("broadcast_to", (x,), shape=(m.choices.integer(2, 5), *m.spec(x).shape))
    return m.one("sum", (wide,), axis=None, keepdims=False)


def _twice(m: Making, x: int, y: int) -> int | None:
    op = m.choices.one_of(("add", "multiply"))
    first, two = (Scalar(m.choices.one_of((0.1, 0.7, 1.3, 3.1))) for _ in range(2))
    return m.one(op, (m.one(op, (x, first)), two))


def _root(m: Making, x: int, y: int) -> int | None:
    # For wider dtypes, NumPy's power itself takes the root, so an exact rule applies first.
    half = m.one("astype", (x,), dtype="float16")
    return m.one("power", (half, Scalar(0.5)))


def _exact(x: Array, y: Array, out: Array) -> Array:
    return np.zeros_like(out)


def _of_result(units: float) -> Callable[[Array, Array, Array], Array]:
    return lambda x, y, out: units * np.abs(out)


PATTERNS: dict[str, Pattern] = {
    "sum_of_broadcast": Pattern(_sum, lambda x, y, out: (8 + x.size) * np.abs(out)),
    "add_zero": Pattern(_with("add", 0.0), _exact),
    "multiply_zero": Pattern(_with("multiply", 0.0), _exact),
    "subtract_self": Pattern(lambda m, x, y: m.one("subtract", (x, x)), _exact),
    "divide_self": Pattern(lambda m, x, y: m.one("divide", (x, x)), _exact),
    "subtract_turned_float": Pattern(
        lambda m, x, y: m.one("negative", (m.one("subtract", (x, y)),)), _exact
    ),
    "log_exp": Pattern(_then("exp", "log"), lambda x, y, out: 8 * (1 + np.abs(x))),
    "exp_log": Pattern(_then("log", "exp"), lambda x, y, out: 8 * (1 + np.abs(np.log(x))) * x),
    "sqrt_square": Pattern(_then("square", "sqrt"), _of_result(2)),
    "square_sqrt": Pattern(_then("sqrt", "square"), _of_result(4)),
    "exp_minus_one": Pattern(
        lambda m, x, y: m.one("subtract", (m.one("exp", (x,)), Scalar(1.0))),
        lambda x, y, out: 8 * (1 + np.abs(out)),
    ),
    "log_one_plus": Pattern(
        lambda m, x, y: m.one("log", (m.one("add", (x, Scalar(1.0))),)),
        lambda x, y, out: 8 * (1 + np.abs(out)),
    ),
    "add_subtract": Pattern(
        lambda m, x, y: m.one("subtract", (m.one("add", (x, y)), y)),
        lambda x, y, out: 2 * (np.abs(x) + np.abs(y)),
    ),
    "multiply_divide": Pattern(
        lambda m, x, y: m.one("divide", (m.one("multiply", (x, y)), y)), _of_result(4)
    ),
    "reassociate": Pattern(_twice, lambda x, y, out: 4 * (np.abs(x) + np.abs(out) + 8)),
    "divide_any": Pattern(_with("divide", 3.0), _of_result(2)),
    "power_half": Pattern(_root, _of_result(8)),
    "power_cube": Pattern(_with("power", 3.0), _of_result(8)),
    "power_of_two": Pattern(_with("power", 2.0, turned=True), _of_result(8)),
}


def patterned(rules: Sequence[str], seed: int) -> Patterned:
    """The patterns of some rules on random inputs, one of them in a loop, among other nodes."""
    choices = Choices(Seeded(seed))
    m = Making(choices)
    rooms: dict[int, Array] = {}
    for rule in choices.shuffled(rules):
        x, y = _operands(m)
        out = _in_loop(m, rule, x, y) if choices.chance(30) else PATTERNS[rule].build(m, x, y)
        assert out is not None
        rooms[out] = _room(rule, m.data[x], m.data[y], m.data[out])
        m.pool.append(out)
        for _ in range(choices.integer(0, 3)):
            _work(m)
    outputs = [*rooms, *(choices.one_of(m.pool) for _ in range(choices.integer(1, 3)))]
    name = ", ".join(rules) if len(rules) < 3 else "all rules"
    return Patterned(m.finish(f"{name}, seed {seed}", list(dict.fromkeys(outputs))), rooms)


def _room(rule: str, x: Array, y: Array, out: Array) -> Array:
    epsilon = np.finfo(out.dtype).eps
    with quiet():
        result = epsilon * PATTERNS[rule].bound(x, y, out)
    return np.broadcast_to(result, out.shape)


def _operands(m: Making) -> tuple[int, int]:
    """Two values of one spec, with elements from 0.2 to 3."""
    choices = m.choices
    known = [
        item for item in m.pool
        if m.spec(item).dtype in ("float32", "float64") and m.spec(item).shape
        and bool(((m.data[item] > 0.2) & (m.data[item] < 3.0)).all())
    ]  # fmt: skip
    if known and choices.chance(50):
        x = choices.one_of(known)
        return x, _input(m, m.spec(x).shape, m.spec(x).dtype)
    shape = tuple(choices.integer(1, 5) for _ in range(choices.integer(1, 3)))
    dtype = choices.one_of(("float32", "float64"))
    return _input(m, shape, dtype), _input(m, shape, dtype)


def _input(m: Making, shape: tuple[int, ...], dtype: str) -> int:
    value = m.input(m.choices.numbers().uniform(0.2, 3.0, shape).astype(dtype))
    m.pool.append(value)
    return value


def _in_loop(m: Making, rule: str, x: int, y: int) -> int | None:
    """The pattern in the body of a scan, on captured values."""
    body = Inside(m.choices, outer=m)
    captured = [body.capture(item) for item in (x, y)]
    out = PATTERNS[rule].build(body, captured[0], captured[1])
    assert out is not None
    attrs = {
        "body": body.body(list(body.around), [out]), "carries": 0, "columns": 0,
        "length": m.choices.integer(1, 3), "reverse": False, "kept": 0, "derivative": None,
    }  # fmt: skip
    result = m.node("scan", tuple(body.around), attrs)
    return result and result[0]


def _work(m: Making) -> Any:
    """A node outside patterns that does not amplify errors much."""
    x = m.choices.one_of(m.pool)
    how = m.choices.integer(0, 5)
    if how == 0:
        return m.node(m.choices.one_of(("tanh", "sigmoid", "sin")), (x,))
    if how == 1:
        other = m.choices.one_of(m.pool)
        return other != x and m.node(m.choices.one_of(("maximum", "add")), (x, other))
    if how == 2:
        return m.node("mean", (x,), {"axis": -1 if m.spec(x).shape else None, "keepdims": True})
    if how == 3:
        return m.node("transpose", (x,), {"axes": None})
    if how == 4:
        return m.node("reshape", (x,), {"shape": (-1,)})
    return m.node("expand_dims", (x,), {"axis": 0})


def allowed(item: Patterned) -> dict[int, Range]:
    """The interval of each value if every pattern has its allowed error."""
    rng = np.random.default_rng(0)
    graph = item.case.graph
    trials: list[dict[int, Array]] = []
    for trial in range(TRIALS + 1):

        def moved(value: int, array: Array, trial: int = trial) -> Array:
            if not trial or value not in item.rooms:
                return array
            up = (1.0, -1.0)[trial % 2]
            how = up if trial < 3 else rng.uniform(-1.0, 1.0, array.shape)
            return np.asarray(array + how * item.rooms[value], array.dtype)

        trials.append(every_value(graph, item.case.arrays, item.case.feeds, moved)[1])
    with quiet():
        return {
            value.id: range_of([np.asarray(trial[value.id]) for trial in trials])
            for value in graph.values
        }
