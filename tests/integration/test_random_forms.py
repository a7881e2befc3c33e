"""Random programs of many dtypes in every form: values and gradients are bit-identical.

Each program is drawn from a number: inputs of any dtype, up to a dozen operations (indexing, shapes
with -1, several outputs, control flow, inner derivatives, writes), a parameter, dropout and a
generator. It runs eagerly, compiled, as a graph that was saved and loaded, and in a session.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nodescope as ns
from nodescope import nn
from nodescope.engine.static.program import Program
from tests.depth import count

DTYPES = (
    np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.int64, np.int8, np.uint8, np.bool_,
    np.complex64, np.complex128,
)  # fmt: skip


def smooth(x: Any) -> bool:
    return x.dtype.kind in "fc" or x.dtype.name == "bfloat16"


def real(x: Any) -> Any:
    if x.dtype.kind == "c":
        return np.real(x)
    return x if smooth(x) else x.astype(np.float64)


def wide(x: Any) -> Any:
    return real(x).astype(np.float64)


def floating(x: Any) -> Any:
    return x if smooth(x) else x.astype(np.float32)


def cast(v: Any, w: Any, k: int) -> Any:
    dtype = np.dtype(DTYPES[k % len(DTYPES)])
    if dtype.kind == "c":
        return v.astype(dtype)
    return (np.tanh(np.abs(real(v))) * 10 if dtype.kind in "biu" else real(v)).astype(dtype)


def written(v: Any, w: Any, k: int) -> Any:
    y = floating(v) * 1.0
    if k % 3 == 0 or not y.ndim:
        y += 1
    elif k % 3 == 1:
        y[0] = 0
    else:
        y[..., :1] *= 3
    return y


def halves(v: Any, w: Any, k: int) -> Any:
    if not v.ndim or v.shape[0] % 2 or not v.shape[0]:
        return v
    first, other = np.split(v, 2)
    return first + other if k % 2 else other


def solved(v: Any, w: Any, k: int) -> Any:
    if v.ndim != 2:
        return v
    square = wide(v).T @ wide(v) + np.diag(np.arange(1.0, v.shape[1] + 1))
    if k % 2:
        return np.linalg.slogdet(square)[1]
    return np.linalg.eigh(square)[0]


def looped(v: Any, w: Any, k: int) -> Any:
    start = np.abs(wide(v)).sum() / (v.size + 1)
    n, x = ns.while_loop(
        lambda s: (s[1] < 10) & (s[0] < 5), lambda s: (s[0] + 1, s[1] * 1.7 + start),
        (np.int64(0), start), max_steps=6,
    )  # fmt: skip
    return x + n if k % 2 else x


def scanned(v: Any, w: Any, k: int) -> Any:
    if not v.ndim:
        return v
    total, seen = ns.scan(lambda c, x: (np.tanh(c + x), c * x), np.zeros(v.shape[1:]), wide(v))
    return seen + total


def drawn(v: Any, w: Any, k: int) -> Any:
    first, _ = ns.random.split(ns.random.key(k % 7))
    return real(v) + ns.random.normal(ns.random.fold_in(first, 2), v.shape, np.float32)


def joined(v: Any, w: Any) -> bool:
    return bool(v.shape == w.shape)


INNER = ns.compile(lambda a, b: (a - b) * 0.5)
OPERATIONS: tuple[Callable[[Any, Any, int], Any], ...] = (
    cast, written, halves, solved, looped, scanned, drawn,
    lambda v, w, k: v + w if joined(v, w) else v,
    lambda v, w, k: floating(v) / (np.abs(floating(w)) + 1) if joined(v, w) else v,
    lambda v, w, k: np.where(real(v) > real(w), v, w) if joined(v, w) else v,
    lambda v, w, k: (real(v) > 0) & (real(v) < 1.5),
    lambda v, w, k: floating(v) * 0.5 + k % 3,
    lambda v, w, k: np.exp(-np.abs(real(v))),
    lambda v, w, k: v.reshape(-1) if k % 2 else v.reshape(-1, 1),
    lambda v, w, k: v.T,
    lambda v, w, k: v[..., ::-1] if v.ndim else v[..., None],
    lambda v, w, k: v[np.array([0, -1, 0])] if v.ndim else v,
    lambda v, w, k: np.sum(v, axis=k % v.ndim, keepdims=True) if v.ndim else v,
    lambda v, w, k: np.mean(floating(v), axis=0) if v.ndim else v,
    lambda v, w, k: np.sort(real(v), axis=-1) if v.ndim else v,
    lambda v, w, k: ns.topk(real(v), 1)[k % 2] if v.ndim else v,
    lambda v, w, k: ns.softmax(real(v), axis=-1) if v.ndim else v,
    lambda v, w, k: np.einsum("ij,kj->ik", floating(v), floating(v)) if v.ndim == 2 else v,
    lambda v, w, k: np.pad(v, 1) if v.ndim else v,
    lambda v, w, k: wide(v) * (1 + 0.5j),
    lambda v, w, k: ns.cond(real(v).sum() > 0, lambda: floating(v) * 2, lambda: -floating(v)),
    lambda v, w, k: ns.fori_loop(0, 3, lambda i, c: c * 0.5 + i, wide(v)),
    lambda v, w, k: ns.grad(lambda x: (np.sin(x) ** 2).sum())(wide(v)),
    lambda v, w, k: ns.jvp(lambda x: np.sin(x) * x, (wide(v),), (wide(v) * 0.5,))[1],
    lambda v, w, k: ns.checkpoint(lambda x: np.tanh(x) * x)(wide(v)),
    lambda v, w, k: INNER(floating(v), floating(v) * 2),
)  # fmt: skip


class Drawn:
    """A program with its state, made afresh for each form."""

    def __init__(self, number: int) -> None:
        r = random.Random(number)
        self.shape = (r.choice([1, 2, 3, 4]), r.choice([1, 2, 3]))
        self.dtypes = [r.choice(DTYPES) for _ in range(r.randint(1, 3))]
        self.steps = [
            (r.randrange(len(OPERATIONS)), r.random(), r.randrange(99), r.randrange(99))
            for _ in range(r.randint(2, 12))
        ]
        self.number, self.dropping = number, r.random() < 0.3
        rng = np.random.default_rng(number)
        self.w = ns.parameter(rng.standard_normal((self.shape[1], self.shape[1])), name="w")
        self.drop, self.generator = nn.Dropout(0.4, rng=3), ns.random.Generator(5)

    def arrays(self, call: int) -> list[Any]:
        rng = np.random.default_rng([self.number, call])
        results = []
        for dtype in self.dtypes:
            array = rng.standard_normal(self.shape) * 2
            if np.dtype(dtype).kind == "c":
                results.append((array + 1j * rng.standard_normal(self.shape)).astype(dtype))
            else:
                results.append((np.abs(array) if dtype is np.uint8 else array).astype(dtype))
        return results

    def __call__(self, *arguments: Any) -> tuple[Any, list[Any]]:
        values = [*arguments, wide(arguments[0]) @ self.w]
        if self.dropping:
            values.append(self.drop(real(arguments[-1])) * self.generator.normal(size=()))
        for which_value, newest, at, k in self.steps:
            v = values[-1] if newest < 0.7 else values[at % len(values)]
            values.append(OPERATIONS[which_value](v.reshape(-1)[:6] if v.size > 300 else v,
                                            values[(at + k) % len(values)], k))  # fmt: skip
        total = sum(np.tanh(wide(value)).sum() for value in values)
        return total, values[len(arguments) :]


Bits = list[Any]


def bits(x: Any) -> Any:
    array = x.numpy() if isinstance(x, ns.Tensor) else x
    return None if x is None else (array.dtype.name, array.shape, array.tobytes())


def in_python(number: int, *, compiled: bool) -> Bits:
    program = Drawn(number)
    run = ns.compile(lambda *x: program(*x)) if compiled else program
    results: Bits = []
    for call in range(2):
        tensors = [ns.tensor(array, requires_grad=smooth(array)) for array in program.arrays(call)]
        program.w.grad = None
        if compiled:
            total, values = run(*tensors)
        else:
            with ns.disable_compile():
                total, values = run(*tensors)
        total.backward()
        gradients = [bits(tensor.grad) for tensor in (*tensors, program.w) if smooth(tensor)]
        results.append((bits(total), [bits(value) for value in values], gradients))
    return results


def loaded(number: int, path: Path) -> Bits:
    program = Drawn(number)
    with ns.no_grad():
        ns.compile(lambda *x: program(*x)).graph(*program.arrays(0)).save(path)
    again = Program.load(path)
    results = [again.run(*program.arrays(call)) for call in range(2)]
    return [(bits(total), [bits(value) for value in values]) for total, values in results]


def by_hand(number: int) -> Bits:
    with ns.Graph().as_default() as graph:
        program = Drawn(number)
        arrays = [
            ns.placeholder(array.dtype, array.shape, name=f"x{i}")
            for i, array in enumerate(program.arrays(0))
        ]
        total, values = program(*arrays)
        gradients = ns.gradients(total, [item for item in (*arrays, program.w) if smooth(item)])
        start = ns.global_variables_initializer()
    session = ns.Session(graph)
    session.run(start)
    results: Bits = []
    wanted = [total, values, [gradient for gradient in gradients if gradient is not None]]
    for call in range(2):
        feeds = dict(zip(arrays, program.arrays(call), strict=True))
        first, several, pulled = session.run(wanted, feeds)
        following = iter(pulled)
        each_gradient = [
            None if gradient is None else bits(next(following)) for gradient in gradients
        ]
        results.append((bits(first), [bits(item) for item in several], each_gradient))
    return results


@pytest.mark.parametrize("number", range(count(60)))
def test_every_form_of_a_random_program_has_the_same_bits(number: int, tmp_path: Path) -> None:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        eager = in_python(number, compiled=False)
        assert in_python(number, compiled=True) == eager
        assert by_hand(number) == eager
        assert loaded(number, tmp_path / "program") == [item[:2] for item in eager]
