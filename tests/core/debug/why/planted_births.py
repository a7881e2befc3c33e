"""Random programs in which one NaN, Inf or zero reaches the queried value, and others do not.

A program passes a vector from one operation to the next, with NumPy masks that track the position
of the planted element. The birth is planted under the scope ``planted``; decoys, under ``decoy``,
are healed before they reach the vector, or are never used. So the right answer follows from the
construction of the program, not from the output of `nodescope why`.

Invariant: a seed gives the same program everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

import nodescope as ns

Kind = Literal["nan", "inf", "zero"]
Mask = np.ndarray[Any, Any]
KINDS: Final[tuple[Kind, ...]] = ("nan", "inf", "zero")
FORMS: Final = ("eager", "compiled", "steps", "training", "kept", "accumulated")
ASKED: Final = "asked/multiply"
_HEALTHY = (0.3, 0.9)

BIRTHS: Final[dict[Kind, dict[str, tuple[float, Callable[[Any], Any]]]]] = {
    "nan": {
        "log": (-1.5, np.log), "sqrt": (-2.0, np.sqrt), "0/0": (0.0, lambda x: x / x),
        "arcsin": (1.7, np.arcsin), "power": (-1.3, lambda x: x**0.5), "log1p": (-1.8, np.log1p),
    },
    "inf": {
        "log of 0": (0.0, np.log), "1/0": (0.0, lambda x: 1.0 / x), "exp": (900.0, np.exp),
        "square": (1e200, np.square), "reciprocal": (0.0, np.reciprocal),
    },
    "zero": {
        "relu": (-1.0, ns.relu), "cancels": (0.95, lambda x: x - 0.95),
        "underflow": (1e-200, np.square), "exp underflow": (-900.0, np.exp),
    },
}  # fmt: skip
"""By kind: the input element that causes it, and the operation."""


class Draws:
    """Random numbers that are drawn beforehand: compiled functions must not draw NumPy's.

    Args:
        numbers: Between 0 and 1.
    """

    def __init__(self, numbers: list[float]) -> None:
        self.numbers = numbers
        self._next = iter(numbers).__next__

    def again(self) -> Draws:
        """The same numbers from the start."""
        return Draws(self.numbers)

    def integers(self, low: int, high: int | None = None) -> int:
        """As `numpy.random.Generator.integers`."""
        low, high = (0, low) if high is None else (low, high)
        return low + int(self._next() * (high - low))

    def choice(self, names: list[str]) -> str:
        """One of several."""
        return names[self.integers(len(names))]

    def uniform(self, low: float, high: float, shape: int | tuple[int, ...]) -> Mask:
        """An array of numbers."""
        count = int(np.prod(shape))
        numbers = np.array([self._next() for _ in range(count)]).reshape(shape)
        return low + (high - low) * numbers

    def permutation(self, count: int) -> Mask:
        """The numbers below ``count`` in some order."""
        return np.argsort(self.uniform(0.0, 1.0, count))


@dataclass
class Carried:
    """The value on its way: the tensor, and where the planted element is in it.

    Attributes:
        finite: Whether it may be added to; zeros are multiplied only.
    """

    tensor: Any
    mask: Mask
    kind: Kind
    rng: Draws
    told: list[str] = field(default_factory=list)

    def moved(self, move: Callable[[Any], Any]) -> None:
        """Move the elements, and the mask alike."""
        self.tensor, self.mask = move(self.tensor), np.asarray(move(self.mask))


@dataclass(frozen=True)
class Case:
    """A program, and the right answer.

    Attributes:
        seed, kind, form: What it was drawn from.
        told: A description of its operations.
        at: Index of the planted element in the result of its operation.
        step: The training step of the birth.
        asked_step: The queried step.
        element: An element of the queried value that the birth reaches.
        sure: Whether the run alone determines the birth: it reaches the loss, or is the only
            unhealed one.
    """

    seed: int
    kind: Kind
    form: str
    told: tuple[str, ...]
    at: tuple[int, ...]
    step: int
    asked_step: int
    element: tuple[int, ...]
    sure: bool


# Operations that carry the value on


def _healthy(carried: Carried, shape: tuple[int, ...]) -> Any:
    return ns.tensor(carried.rng.uniform(*_HEALTHY, shape))


def _elementwise(c: Carried) -> None:
    choices: list[tuple[str, Callable[[Any], Any]]] = [
        ("times 2", lambda t: t * 2.0), ("negative", np.negative), ("copy", lambda t: t.copy()),
        ("abs", np.abs), ("times a tensor", lambda t: t * _healthy(c, t.shape)),
    ]  # fmt: skip
    if c.kind != "zero":
        choices += [("plus 1", lambda t: t + 1.0), ("minus", lambda t: _healthy(c, t.shape) - t)]
    if c.kind != "inf":
        choices += [("tanh", np.tanh), ("sin", np.sin), ("astype", lambda t: t.astype(np.float32))]
    name, function = choices[c.rng.integers(len(choices))]
    c.tensor = function(c.tensor)
    c.told.append(name)


def _reshaped(c: Carried) -> None:
    size = c.mask.size
    if c.mask.ndim > 1 or size % 2:
        c.moved(lambda t: np.reshape(t, (size,)))
        c.told.append("reshape to a vector")
    else:
        shape = (2, size // 2) if c.rng.integers(2) else (size // 2, 2)
        c.moved(lambda t: np.reshape(t, shape))
        c.told.append(f"reshape to {shape}")


def _layout(c: Carried) -> None:
    shift = int(c.rng.integers(1, 4))
    moves: list[tuple[str, Callable[[Any], Any]]] = [
        ("transpose", np.transpose), ("flip", lambda t: np.flip(t, 0)),
        ("roll", lambda t: np.roll(t, shift)), ("expand_dims", lambda t: np.expand_dims(t, 0)),
    ]  # fmt: skip
    name, move = moves[c.rng.integers(len(moves))]
    c.moved(move)
    c.told.append(name)


def _gathered(c: Carried) -> None:
    order = c.rng.permutation(c.mask.shape[0])
    c.moved(lambda t: t[order])
    c.told.append(f"gather {order.tolist()}")


def _sliced(c: Carried) -> None:
    first = int(np.argwhere(c.mask)[0][0])
    start = int(c.rng.integers(0, first + 1))
    c.moved(lambda t: t[start:])
    c.told.append(f"slice [{start}:]")


def _joined(c: Carried) -> None:
    other, none = _healthy(c, c.mask.shape), np.zeros(c.mask.shape, bool)
    join = np.concatenate if c.rng.integers(2) else np.stack
    before = bool(c.rng.integers(2))
    pair: Any = (other, c.tensor) if before else (c.tensor, other)
    c.tensor = join(pair)
    c.mask = join((none, c.mask) if before else (c.mask, none))
    c.told.append(join.__name__)


def _masked(c: Carried) -> None:
    keep = c.mask | (c.rng.uniform(0.0, 1.0, c.mask.shape) < 0.5)
    c.tensor = np.where(keep, c.tensor, _healthy(c, c.mask.shape))
    c.told.append("where keeps it")


def _scattered(c: Carried) -> None:
    rows = c.mask.shape[0]
    places = c.rng.permutation(rows + 2)[:rows]
    buffer = _healthy(c, (rows + 2, *c.mask.shape[1:]))
    mask = np.zeros(buffer.shape, bool)
    if c.kind != "zero" and c.rng.integers(2):
        buffer = buffer + 0.0
        np.add.at(buffer, places, c.tensor)
        c.told.append(f"add.at {places.tolist()}")
    else:
        buffer[places] = c.tensor
        c.told.append(f"scatter to {places.tolist()}")
    mask[places] = c.mask
    c.tensor, c.mask = buffer, mask


def _in_place(c: Carried) -> None:
    t = c.tensor.copy()
    t *= 3.0
    others = np.argwhere(~c.mask)
    if len(others):
        t[tuple(others[c.rng.integers(len(others))])] = 0.5
    c.tensor = t
    c.told.append("in place *=, and another element is set")


def _through_view(c: Carried) -> None:
    buffer = _healthy(c, (3, *c.mask.shape)) + 0.0
    row = buffer[1]
    row[...] = c.tensor
    c.tensor = buffer * 1.0
    c.mask = np.stack([np.zeros_like(c.mask), c.mask, np.zeros_like(c.mask)])
    c.told.append("written through a view")


def _row_by_row(c: Carried) -> None:
    buffer = _healthy(c, c.mask.shape)
    for i in range(c.mask.shape[0]):
        buffer[i] = c.tensor[i] * 1.5
    c.tensor = buffer
    c.told.append("a loop that writes row by row")


def _summed(c: Carried) -> None:
    if c.mask.size < 2:
        return
    axis = int(c.rng.integers(c.mask.ndim))
    if c.kind == "zero":
        c.tensor, name = np.prod(c.tensor, axis=axis, keepdims=True), "prod"
    else:
        name, function = [("sum", np.sum), ("mean", np.mean), ("max", np.max)][
            c.rng.integers(2 if c.kind == "inf" else 3)
        ]
        c.tensor = function(c.tensor, axis=axis, keepdims=True)
    c.mask = np.any(c.mask, axis=axis, keepdims=True)
    c.told.append(f"{name} along {axis}")


def _multiplied(c: Carried) -> None:
    if c.kind == "zero" or c.mask.ndim != 2:
        return _elementwise(c)
    c.tensor = c.tensor @ _healthy(c, (c.mask.shape[1], 3))
    c.mask = np.repeat(np.any(c.mask, axis=1, keepdims=True), 3, axis=1)
    c.told.append("matmul")
    return None


def _accumulated(c: Carried) -> None:
    if c.kind == "zero":
        return _elementwise(c)
    c.tensor = np.cumsum(c.tensor, axis=0)
    c.mask = np.cumsum(c.mask, axis=0) > 0
    c.told.append("cumsum")
    return None


def _branch(c: Carried) -> None:
    yes = bool(c.rng.integers(2))
    c.tensor = ns.cond(
        ns.tensor(yes),
        lambda t: t * (2.0 if yes else 3.0),
        lambda t: np.negative(t),
        c.tensor,
    )
    c.told.append(f"cond {yes}")


def _while(c: Carried) -> None:
    times = int(c.rng.integers(1, 5))
    carry = (ns.tensor(0), c.tensor)
    c.tensor = ns.while_loop(
        lambda carry: carry[0] < times, lambda carry: (carry[0] + 1, carry[1] * 1.5), carry
    )[1]
    c.told.append(f"while_loop {times} times")


def _scan(c: Carried) -> None:
    if c.kind == "zero" or c.rng.integers(2):
        c.tensor = ns.scan(lambda carry, row: (carry, row * 2.0), ns.tensor(0.0), c.tensor)[1]
        c.told.append("scan over rows")
        return
    start = _healthy(c, c.mask.shape[1:])
    c.tensor = ns.scan(lambda carry, row: (carry + row, carry + row), start, c.tensor)[1]
    c.mask = np.cumsum(c.mask, axis=0) > 0
    c.told.append("scan with a carry")


CARRIERS: Final[tuple[Callable[[Carried], None], ...]] = (
    _elementwise, _elementwise, _reshaped, _layout, _gathered, _sliced, _joined, _masked,
    _scattered, _in_place, _through_view, _row_by_row, _summed, _multiplied, _accumulated,
    _branch, _while, _scan,
)  # fmt: skip

# Decoys: bad elements that do not reach the value


def _bad(rng: Draws, kind: Kind, size: int = 4) -> tuple[Any, int, str]:
    """A vector with one element of this kind, its position, and the operation that made it."""
    name = rng.choice(list(BIRTHS[kind]))
    special, function = BIRTHS[kind][name]
    array = rng.uniform(*_HEALTHY, size)
    at = int(rng.integers(size))
    array[at] = special
    return function(ns.tensor(array)), at, name


def _heal(rng: Draws, bad: Any, at: int, kind: Kind) -> tuple[Any, str]:
    """A finite scalar of a vector, without its bad element."""
    good = np.arange(bad.shape[0]) != at
    healers: dict[str, Callable[[], Any]] = {
        "where": lambda: np.where(good, bad, 1.0),
        "where and multiply": lambda: np.where(good, bad, 0.5) * 2.0,
        "selection": lambda: bad[np.flatnonzero(good)],
        "overwritten": lambda: _overwritten(bad, at),
    }
    if kind == "nan":
        healers |= {
            "nan_to_num": lambda: np.nan_to_num(bad), "nanmean": lambda: np.nanmean(bad),
            "nansum": lambda: np.nansum(bad), "fmax": lambda: np.fmax(bad, 0.1),
            "isnan": lambda: np.where(np.isnan(bad), 0.0, bad), "fmin": lambda: np.fmin(bad, 5.0),
            "comparison": lambda: (bad > 0.5).astype(np.float64),
        }  # fmt: skip
    elif kind == "inf":
        healers |= {
            "clip": lambda: np.clip(bad, -3.0, 3.0), "tanh": lambda: np.tanh(bad),
            "isfinite": lambda: np.where(np.isfinite(bad), bad, 0.0),
            "reciprocal": lambda: 1.0 / bad,
        }  # fmt: skip
    else:
        healers |= {"plus 1": lambda: bad + 1.0, "maximum": lambda: np.maximum(bad, 0.2)}
    name = rng.choice(list(healers))
    return np.sum(np.abs(healers[name]())), name


def _overwritten(bad: Any, at: int) -> Any:
    copy = bad.copy()
    copy[at] = 0.7
    return copy


def _decoy(c: Carried, nth: int) -> None:
    """Add a birth that is healed or never used; a healed one is mixed into the carried value."""
    kind: Kind = KINDS[c.rng.integers(3)]
    with ns.name_scope(f"decoy_{nth}"):
        bad, at, born = _bad(c.rng, kind)
        if c.rng.integers(3) == 0:
            np.sum(bad * 2.0)
            c.told.append(f"decoy: {born}, never used")
            return
        scalar, healer = _heal(c.rng, bad, at, kind)
    c.tensor = c.tensor * (1.0 + scalar) if c.kind == "zero" else c.tensor + scalar
    c.told.append(f"decoy: {born}, healed by {healer}")


# Programs


class _Program:
    """One program; `run` runs it and notes the right answer."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        rng = self.rng = Draws(np.random.default_rng(seed).random(4000).tolist())
        self.kind: Kind = KINDS[seed % 3]
        self.form = FORMS[(seed // 3) % len(FORMS)]
        if self.kind == "zero" and self.form in ("training", "accumulated"):
            self.form = "steps"
        self.born = rng.choice(list(BIRTHS[self.kind]))
        self.size = int(rng.integers(3, 7))
        self.at = int(rng.integers(self.size))
        self.count = int(rng.integers(2, 7))
        self.decoys = int(rng.integers(0, 4))
        self.place = rng.choice(["plain", "plain", "plain", "cond", "while", "scan", "loop"])

    def input(self, bad: bool) -> Mask:
        """Finite, nonzero elements, except the planted one."""
        array = self.rng.uniform(*_HEALTHY, self.size)
        if bad:
            array[self.at] = BIRTHS[self.kind][self.born][0]
        return array

    def start(self, x: Any, bad: bool = True) -> Carried:
        """The birth, where it is planted."""
        function = BIRTHS[self.kind][self.born][1]

        def planted(t: Any) -> Any:
            with ns.name_scope("planted"):
                return function(t)

        mask = np.arange(self.size) == self.at
        place, told = self.place, f"{self.born} at {self.at} ({self.place})"
        if place == "cond":
            result = ns.cond(ns.tensor(True), planted, lambda t: t * 1.0, x)
        elif place == "while":
            result = ns.while_loop(
                lambda c: c[0] < 1, lambda c: (c[0] + 1, planted(c[1]) * 1.0), (ns.tensor(0), x)
            )[1]
        elif place == "scan":
            rows = np.stack([np.full(self.size, 0.5), np.full(self.size, 0.6)])
            start, scanned = x * 1.0, ns.tensor(rows)
            result = ns.scan(
                lambda c, row: (c, planted(c * 1.0) + 0.0 * row), start, scanned
            )[1][1] if self.kind != "zero" else planted(x)  # fmt: skip
        elif place == "loop":
            result = planted(x)
            for _ in range(3):
                result = result * 1.1
        else:
            result = planted(x)
        if not bad:
            mask = np.zeros(self.size, bool)
        return Carried(result, mask, self.kind, self.rng, [told])

    def carry(self, c: Carried) -> Carried:
        """Some carriers, and decoys at random places among them."""
        places = [self.rng.integers(self.count + 1) for _ in range(self.decoys)]
        for i in range(self.count + 1):
            for nth, place in enumerate(places):
                if place == i:
                    _decoy(c, nth)
            if i < self.count:
                CARRIERS[self.rng.integers(len(CARRIERS))](c)
        return c

    def case(self, c: Carried, step: int = 0, asked_step: int = 0, trained: bool = False) -> Case:
        """The right answer."""
        dead = any(word.startswith("decoy") and word.endswith("never used") for word in c.told)
        sure = self.kind != "zero" and (trained or not (dead or self.form == "kept"))
        places = np.argwhere(c.mask)
        element = tuple(int(i) for i in places[self.rng.integers(len(places))])
        return Case(
            self.seed, self.kind, self.form, tuple(c.told), (self.at,), step, asked_step, element,
            sure,
        )  # fmt: skip

    def run(self) -> Case:
        """Run it."""
        return getattr(self, f"_{self.form}")()  # type: ignore[no-any-return]

    def _eager(self) -> Case:
        c = self.carry(self.start(ns.tensor(self.input(True))))
        _ask(c)
        return self.case(c)

    def _compiled(self) -> Case:
        kept: list[Carried] = []

        @ns.compile
        def function(x: Any) -> Any:
            kept.append(self.carry(self.start(x)))
            return kept[-1].tensor

        c = Carried(function(ns.tensor(self.input(True))), kept[0].mask, self.kind, self.rng)
        c.told = kept[0].told
        _ask(c)
        return self.case(c)

    def _steps(self) -> Case:
        """The birth is in one of several steps, caused by that step's data."""
        when = int(self.rng.integers(1, 4))
        case: Case | None = None
        for step in ns.steps(range(1, 4)):
            self.rng = self.rng.again()
            c = self.carry(self.start(ns.tensor(self.input(step == when))))
            _ask(c)
            if step == when:
                case = self.case(c, when, when)
        assert case is not None
        return case

    def _training(self) -> Case:
        """A loss and a weight; the query may be about a step after the birth."""
        w = ns.parameter(np.full(self.size, 0.8), name="w")
        optimizer = ns.optim.SGD([w], lr=0.01)
        when, asked = [(1, 1), (2, 2), (2, 2), (1, 2)][self.rng.integers(4)]
        case: Case | None = None
        for step in ns.steps(range(1, 4)):
            self.rng = self.rng.again()
            x = ns.tensor(self.input(step == when))
            c = self.start(x)
            c.tensor = c.tensor * w
            c = self.carry(c)
            _ask(c)
            if step == when:
                case = self.case(c, when, asked, trained=True)
            loss = np.mean(c.tensor)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        assert case is not None
        return case

    def _kept(self) -> Case:
        """The queried value comes from a tensor of an earlier step, whose node has run since."""
        kept_step = int(self.rng.integers(1, 3))
        kept: Carried | None = None
        case: Case | None = None
        place = self.at
        other = (place + 1) % self.size
        for step in ns.steps(range(1, 4)):
            self.rng = self.rng.again()
            x = self.input(step == kept_step)
            if step != kept_step:  # In other steps, the same node has a birth at another place.
                x[other] = BIRTHS[self.kind][self.born][0]
            c = self.start(ns.tensor(x))
            if step == kept_step:
                kept = c
            if step == 3:
                assert kept is not None
                kept = Carried(kept.tensor, kept.mask, self.kind, self.rng, kept.told)
                c = self.carry(kept)
                _ask(c)
                case = self.case(c, kept_step, 3)
        assert case is not None
        return case

    def _accumulated(self) -> Case:
        """A sum over steps, of a node whose executions are all kept."""
        when = int(self.rng.integers(1, 4))
        kept: list[Any] = []
        case: Case | None = None
        for step in ns.steps(range(1, 4)):
            self.rng = self.rng.again()
            c = self.start(ns.tensor(self.input(step == when)))
            kept.append(c.tensor)
            if step == 3:
                with ns.name_scope("total"):
                    c.tensor = kept[0] + kept[1] + kept[2]
                c = self.carry(c)
                _ask(c)
                case = self.case(c, when, 3)
        assert case is not None
        return case


def _ask(c: Carried) -> None:
    with ns.name_scope("asked"):
        c.tensor = c.tensor * 1.0


def record(seed: int, path: Path) -> Case:
    """Record the program of a seed with all values, and return the right answer."""
    with np.errstate(all="ignore"), ns.record(path, level="values"):
        return _Program(seed).run()
