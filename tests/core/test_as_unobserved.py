"""What a program may call raises the same with a debugger and without."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import api
from nodescope.debug.breakpoints.syntax import parse_breakpoint
from nodescope.protocol import Continue
from nodescope.record.recording import Recording

WAIT_S = 60.0


class Odd:
    """A value one of whose methods raises."""

    def __init__(self, name: str) -> None:
        self._what = name

    def _may(self, name: str) -> None:
        if name == self._what:
            raise ValueError(name)

    def __repr__(self) -> str:
        self._may("repr")
        return f"Odd({self._what!r})"

    def __str__(self) -> str:
        self._may("str")
        return "odd"

    def __bool__(self) -> bool:
        self._may("bool")
        return True

    def __hash__(self) -> int:
        self._may("hash")
        return 1

    def __eq__(self, other: object) -> bool:
        self._may("eq")
        return self is other

    @property
    def data(self) -> Any:
        self._may("data")
        return np.array([self, self]) if self._what in ("eq", "bool") else np.ones(2)

    @property
    def name(self) -> str:
        self._may("name")
        return "odd"

    def __array__(self, *_: Any, **__: Any) -> Any:
        self._may("array")
        return np.ones(2)


class Text(str):
    """A string that does not compare and hash as strings do."""

    def __hash__(self) -> int:
        raise ValueError("hash")

    def __eq__(self, other: object) -> bool:
        raise ValueError("eq")

    def __str__(self) -> str:
        raise ValueError("str")


ODD: list[Any] = [
    None, 5, b"x", "", "a b", "a/b", "x" * 10_000, "\0", "\x1b[31m", ["a"], Text("t"), np.str_("k"),
    np.array("z"), float("nan"), object,
    *map(Odd, ("repr", "str", "bool", "hash", "eq", "data", "name", "array")),
]  # fmt: skip
ARRAYS: list[Any] = [
    np.array(["2020"], dtype="M8[D]"), np.array([object()]), np.zeros(0), [[1, 2], [3]], {"a": 1},
    np.ma.array([1, 2]), np.array([b"x"]), np.array([1 + 2j]), -np.ones(3),
]  # fmt: skip
CONDITIONS = (
    "value.any()", "max(value) > 3", "value[0] == 2", "isnan(value).any()", "9**9**9", "x.y",
    "mean(value) / 0", "value[", "shape[3] > 1", "log(value).any()", "all(value == value)",
)  # fmt: skip


def in_scope(name: Any) -> None:
    with ns.name_scope(name):
        np.exp(ns.tensor([1.0]))


def calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    for number, odd in enumerate(ODD):
        for kind, call in (
            ("scope", in_scope),
            ("parameter", lambda odd: ns.parameter(np.ones(2), name=odd) * 2),
            ("tensor", lambda odd: ns.tensor(np.ones(2), name=odd) * 2),
            ("when", ns.breakpoint),
            ("when on", lambda odd: ns.breakpoint(odd, on=np.ones(2))),
            ("on", lambda odd: ns.breakpoint("value.any()", on=odd)),
            ("on equal", lambda odd: ns.breakpoint("all(value == value)", on=odd)),
            ("on log", lambda odd: ns.breakpoint("{max(value)} > 1", on=odd)),
            ("steps", lambda odd: [np.exp(ns.tensor([1.0])) for _ in ns.steps(odd)]),
            ("operand", lambda odd: ns.tensor([1.0]) * odd),
            ("axis", lambda odd: ns.tensor([1.0]).sum(axis=odd)),
            ("function", ns.relu),
        ):
            yield f"{kind} {number}", lambda call=call, odd=odd: call(odd)
    yield "data", lambda: ns.breakpoint("size(value) > 3", on=Odd("data"))
    for number, array in enumerate(ARRAYS):
        for when in CONDITIONS:
            yield f"{when} {number}", lambda when=when, on=array: ns.breakpoint(when, on=on)


def outcome(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "returned"


def outcomes() -> dict[str, str]:
    return {name: outcome(call) for name, call in calls()}


@pytest.mark.deep
def test_odd_arguments_raise_the_same_under_a_debugger(tmp_path: Path) -> None:
    plain = outcomes()
    lines: list[str] = []
    run = api.Run(tmp_path / "r.nscope", level="values", debugger=True, say=lines.append)
    probes = run.bus.probes
    run.start()
    try:
        with np.errstate(all="raise"):  # Conditions are evaluated with nodescope's own error state.
            watched = outcomes()
        assert run.bus.probes == probes  # No probe failed.
    finally:
        run.finish()
    assert watched == plain
    assert plain["when 1"] == "UsageError"
    assert plain["on equal 19"] == "returned"
    assert any("cannot be evaluated on a Odd: ValueError: data" in line for line in lines)
    assert len(lines) == len(set(lines))


def deep(depth: int) -> int:
    """Compute at every depth that there is; how deep that was."""
    x = np.exp(ns.tensor([1.0]))
    with ns.name_scope("deep"):
        ns.breakpoint("value > 3", on=x)
        try:
            return deep(depth + 1)
        except RecursionError:
            return depth


@pytest.mark.one_in(4)
@pytest.mark.parametrize("margin", range(0, 40, 3))
def test_a_recursion_at_its_limit_switches_nothing_off(tmp_path: Path, margin: int) -> None:
    """The limit is met at another place of ours with each margin."""
    lines: list[str] = []
    run = api.Run(
        tmp_path / "r.nscope", level="values", debugger=True, say=lines.append,
        breakpoints=(parse_breakpoint("op:sqrt"), parse_breakpoint("op:exp if value > 30")),
        watches=("nan",),
    )  # fmt: skip
    assert run.gate is not None
    stops: SimpleQueue[str] = SimpleQueue()
    run.gate._on_change = lambda info: stops.put(info.stop.node_name) if info.stop else None
    run.gate.controllers(1)
    limit = sys.getrecursionlimit()
    run.start()
    try:
        sys.setrecursionlimit(200 + margin)
        assert deep(0) > 5
    finally:
        sys.setrecursionlimit(limit)
    program = threading.Thread(target=lambda: np.sqrt(ns.tensor([4.0])))
    program.start()
    try:
        assert stops.get(timeout=WAIT_S) == "sqrt"
    finally:
        run.gate.command(Continue())
        program.join(WAIT_S)
        run.finish()
    assert not [line for line in lines if "disabled" in line]
    with Recording.open(tmp_path / "r.nscope") as recording:
        known = {row.node.id for row in recording.nodes()}
        ran = {row.node for row in recording.executions()}
    assert ran <= known
