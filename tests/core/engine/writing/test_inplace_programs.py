"""Random programs of views, writes and operations, on tensors and on arrays side by side.

After every step, all live values are bit-identical; at the end, the gradient equals that of the
program on arrays by central differences.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nodescope as ns
from nodescope.engine.dispatch_mode import recording
from nodescope.errors import GradientError
from tests.depth import examples

ROOT = Path(__file__).resolve().parents[4]
Values = list[Any]
Step = Callable[[Values], None]

FLOATS = st.sampled_from([-1.5, -0.5, 0.25, 0.5, 2.0])
SLICES = st.builds(
    slice, st.sampled_from([None, 0, 1, -2]), st.sampled_from([None, 2, -1]),
    st.sampled_from([None, 1, 2, -1]),
)  # fmt: skip
BASIC = st.one_of(
    st.integers(0, 1), SLICES, st.just(...), st.tuples(SLICES, SLICES),
    st.tuples(st.just(...), st.integers(0, 1)), st.tuples(SLICES, st.integers(0, 1)),
)  # fmt: skip
FANCY = st.sampled_from([[0, 0, 1], [-1], [1, 0]])
OPERATORS = st.sampled_from(["+", "-", "*", "/"])


def _taken(value: Any, index: Any) -> Any:
    try:
        return value[index]
    except IndexError:  # The index has too many dimensions.
        return value[...]


def _place(value: Any, index: Any) -> Any:
    """An index that fits."""
    try:
        np.empty(value.shape)[index]
    except IndexError:
        return ...
    return index


def _write(target: Any, operator: str, value: Any) -> None:
    if operator == "+":
        target += value
    elif operator == "-":
        target -= value
    elif operator == "*":
        target *= value
    else:
        target /= 1.5 + value * value


def _write_at(target: Any, index: Any, operator: str, value: Any) -> None:
    if operator == "+":
        target[index] += value
    elif operator == "-":
        target[index] -= value
    elif operator == "*":
        target[index] *= value
    else:
        target[index] = value


def _fits(value: Any, shape: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(value.shape, shape) == shape
    except ValueError:
        return False


@st.composite
def steps(draw: Any) -> Step:
    kind = draw(st.sampled_from(
        ["view", "view", "shape", "compute", "write", "write", "write at", "write at", "fancy",
         "out", "mask", "drop", "detach", "again"]
    ))  # fmt: skip
    first, two = draw(st.integers(0, 9)), draw(st.integers(0, 9))
    index, number, operator = draw(BASIC), draw(FLOATS), draw(OPERATORS)
    fancy, shaping = draw(FANCY), draw(st.integers(0, 3))

    def step(values: Values) -> None:
        x, y = values[first % len(values)], values[two % len(values)]
        other = y if _fits(y, x.shape) else number
        if kind == "view":
            values.append(_taken(x, index))
        elif kind == "shape":
            values.append(
                [x.T, x.reshape(-1), np.ravel(x[::-1] if x.ndim else x), x[None]][shaping]
            )
        elif kind == "compute":
            values.append(np.tanh(x) * other + number)
        elif kind == "write":
            _write(x, operator, other)
        elif kind == "write at":
            place = _place(x, index)
            shape = np.empty(x.shape)[place].shape
            _write_at(x, place, operator, y if _fits(y, shape) else number)
        elif kind == "fancy":
            _write_at(x, fancy if x.ndim and len(x) > 1 else ..., operator, number)
        elif kind == "out":
            np.multiply(other, number, out=x)
        elif kind == "mask":
            x[(np.arange(x.size) % 3 == 0).reshape(x.shape)] = number
        elif kind == "drop" and len(values) > 1:
            values.pop(first % len(values))
        elif kind == "again":  # Another reference, and another use that must see the old elements.
            values.append(x)
            values.append(x * x)
        del x, y, other
        while len(values) > 8:
            values.pop(0)

    step.__name__ = f"{kind} {first} {two} {index} {number} {operator} {fancy} {shaping}"
    return step


START = np.linspace(-1.0, 1.3, 12).reshape(3, 4)
FIXED = np.linspace(0.5, 2.0, 6).reshape(3, 2).repeat(2, axis=1)


def _loss(values: Values) -> Any:
    total = 0.0
    for place, value in enumerate(values):
        total = total + np.sum(np.sin(value)) * (place + 1)
    return total


def _arrays(values: Values) -> None:
    """NumPy's scalars as arrays without dimensions, as ours are: those can be written to."""
    values[:] = [value if isinstance(value, np.ndarray) else np.array(value) for value in values]


def _same(result: Values, expected: Values) -> None:
    assert len(result) == len(expected)
    for ours, numpys in zip(result, expected, strict=True):
        assert ours.shape == numpys.shape
        assert np.array_equal(ours.numpy(), numpys)


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(st.lists(steps(), min_size=2, max_size=14), st.booleans())
def with_a_tape(program: list[Step], leaf_too: bool) -> None:
    w = ns.parameter(START, name="w")
    # With a leaf among the values, writing to it or to a view of it is refused.
    results: Values = [w * 1.0, ns.tensor(FIXED), *([w] if leaf_too else [])]
    expected: Values = [START * 1.0, FIXED.copy(), *([START.copy()] if leaf_too else [])]
    done = 0
    for step in program:
        try:
            step(results)
        except GradientError as error:
            if not leaf_too or "leaf" not in error.message:
                raise
            break
        step(expected)
        _arrays(expected)
        done += 1
        _same(results, expected)
    loss = _loss(results)
    if loss.edge is None:
        return
    loss.backward()
    gradient = np.zeros_like(START) if w.grad is None else w.grad.numpy()

    def numpys(w: Any) -> float:
        values: Values = [w * 1.0, FIXED.copy(), *([w.copy()] if leaf_too else [])]
        for step in program[:done]:
            step(values)
            _arrays(values)
        return float(_loss(values))

    direction = np.cos(np.arange(12.0)).reshape(3, 4)
    eps = 1e-6
    difference = (numpys(START + eps * direction) - numpys(START - eps * direction)) / (2 * eps)
    slope = float((gradient * direction).sum())
    assert abs(slope - difference) <= 1e-4 * (1 + abs(difference)), (slope, difference)


@settings(max_examples=examples(50), deadline=None, derandomize=True)
@given(st.lists(steps(), min_size=2, max_size=14))
def without_a_tape(program: list[Step]) -> None:
    with recording(False):
        w = ns.parameter(START, name="w")
        results: Values = [w, ns.tensor(FIXED)]
        expected: Values = [START.copy(), FIXED.copy()]
        for step in program:
            step(results)
            step(expected)
            _arrays(expected)
            _same(results, expected)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("programs", ["with_a_tape", "without_a_tape"])
def test_programs_that_write(programs: str) -> None:
    # Run in a new process: sharing is detected by scanning all objects, of which a process that
    # has run thousands of tests has too many.
    done = subprocess.run(
        [sys.executable, "-c",
         "from tests.core.engine.writing import test_inplace_programs as programs\n"
         f"programs.{programs}()"],
        cwd=ROOT, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
