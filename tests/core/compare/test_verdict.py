"""Correct programs raise no alarm; a value fixed by tracing is reported as such, with its line."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import nn
from tests import depth
from tests.core.compare.programs import judged

STEPS = 6
Program = Callable[[Path], None]
CORRECT: list[Program] = []
FIXED: list[tuple[Program, int, str]] = []


def correct(program: Program) -> Program:
    CORRECT.append(program)
    return program


def fixed(step: int, name: str) -> Callable[[Program], Program]:
    """A program that differs from a step on, in one node, because tracing fixed a value."""

    def register(program: Program) -> Program:
        FIXED.append((program, step, name))
        return program

    return register


def data(steps: int = STEPS) -> Iterator[tuple[int, ns.Tensor]]:
    rng = np.random.default_rng(0)
    for step in ns.steps(range(steps)):
        yield step, ns.tensor(rng.standard_normal((4, 3)).astype(np.float32), name="x")


def network(seed: int = 1) -> nn.Sequential:
    rng = np.random.default_rng(seed)
    return nn.Sequential(nn.Linear(3, 4, rng=rng), nn.relu, nn.Linear(4, 2, rng=rng))


def training(net: Any, lr: float = 0.01) -> Any:
    descent = ns.optim.Adam(net, lr=lr)

    @ns.compile
    def train(x: Any) -> Any:
        descent.zero_grad()
        loss = np.mean(net(x) ** 2)
        loss.backward()
        descent.step()
        return loss

    return train


@correct
def evaluates_before_some_steps(folder: Path) -> None:
    """Other calls come before, so that nodes have other numbers in these steps."""
    net = network()
    train = training(net)

    @ns.compile
    def forward(x: Any) -> Any:
        return np.mean(net(x) ** 2)

    for step, x in data():
        if step % 2:
            forward(x)
            forward(x[:2])
        train(x)
        if step % 3 == 0:
            forward(x)


@correct
def trains_two_networks(folder: Path) -> None:
    maker, judge = network(), nn.Linear(2, 1, rng=np.random.default_rng(3))
    of_maker, of_judge = ns.optim.Adam(maker, lr=0.01), ns.optim.Adam(judge, lr=0.01)

    @ns.compile
    def judging(x: Any, real: Any) -> Any:
        of_judge.zero_grad()
        loss = np.mean(judge(maker(x).detach())) - np.mean(judge(real))
        loss.backward()
        of_judge.step()
        return loss

    @ns.compile
    def making(x: Any) -> Any:
        of_maker.zero_grad()
        loss = -np.mean(judge(maker(x)))
        loss.backward()
        of_maker.step()
        return loss

    for step, x in data():
        for _ in range(2):
            judging(x, ns.tensor(np.ones((4, 2), np.float32)))
        if step % 2:
            making(x)


@correct
def accumulates(folder: Path) -> None:
    net = network()
    descent = ns.optim.SGD(net, lr=0.01)

    @ns.compile
    def gradients(x: Any) -> Any:
        loss = np.mean(net(x) ** 2)
        loss.backward()
        return loss

    @ns.compile
    def update() -> None:
        descent.step()
        descent.zero_grad()

    for step, x in data():
        for _ in range(1 + step % 3):
            gradients(x)
        update()


@correct
def calls_from_threads(folder: Path) -> None:
    @ns.compile
    def step(x: Any) -> Any:
        return np.sum(np.tanh(x) * 2)

    for _, x in data(3):
        threads = [threading.Thread(target=step, args=(x * k,)) for k in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


@correct
def prints_and_times(folder: Path) -> None:
    @ns.compile
    def step(x: Any) -> Any:
        began = time.perf_counter()
        y = np.tanh(x)
        print(time.perf_counter() >= began)
        return y

    for _, x in data(3):
        step(x)


@correct
def changes_what_it_reads(folder: Path) -> None:
    """Guards see it, and the function is traced again."""
    seen: list[int] = []

    @ns.compile
    def step(x: Any) -> Any:
        seen.append(1)
        return np.tanh(x) * len(seen)

    for _, x in data(3):
        step(x)


@correct
def draws_from_a_generator_of_ours(folder: Path) -> None:
    generator = ns.random.default_rng(0)

    @ns.compile
    def step(x: Any) -> Any:
        return np.tanh(x) + generator.normal(size=(4, 3))

    for _, x in data(3):
        step(x)


@correct
def calls_itself_often(folder: Path) -> None:
    @ns.compile
    def step(x: Any) -> Any:
        return np.tanh(x) + 1

    for _, x in data(3):
        for _ in range(4):
            x = step(x)
        step(x[:2])


@correct
def fails_in_either_mode(folder: Path) -> None:
    @ns.compile
    def step(x: Any) -> Any:
        return np.tanh(x)

    for number, x in data():
        step(x)
        if number == 3:
            raise ValueError("the program's own")


@fixed(2, "multiply")
def draws_from_python(folder: Path) -> None:
    random.seed(0)

    @ns.compile
    def step(x: Any) -> Any:
        return np.tanh(x) * random.random()

    for _, x in data():
        step(x)


@fixed(4, "multiply")
def reads_a_file(folder: Path) -> None:
    path = folder / "factor.txt"

    @ns.compile
    def step(x: Any) -> Any:
        return np.tanh(x) * float(path.read_text())

    for number, x in data():
        path.write_text(str(1 + number // 3))
        step(x)


@fixed(2, "exp")
def goes_another_way(folder: Path) -> None:
    count = itertools.count()

    @ns.compile
    def step(x: Any) -> Any:
        return np.tanh(x) if next(count) % 2 else np.exp(x)

    for _, x in data():
        step(x)


@pytest.mark.parametrize(
    "program", CORRECT if depth.is_deep() else CORRECT[:2], ids=lambda program: program.__name__
)
def test_a_correct_program_is_equal(program: Program, tmp_path: Path) -> None:
    verdict = judged(tmp_path, lambda: program(tmp_path))
    assert (verdict.outcome, verdict.cause) == ("equal", ""), verdict.text


@pytest.mark.parametrize(
    ("program", "step", "name"), FIXED, ids=[program.__name__ for program, _, _ in FIXED]
)
def test_what_tracing_fixed_is_reported(
    program: Program, step: int, name: str, tmp_path: Path
) -> None:
    verdict = judged(tmp_path, lambda: program(tmp_path))
    assert (verdict.outcome, verdict.cause) == ("differs", "trace")
    assert (verdict.step, verdict.name) == (step, name)
    assert "fixed while" in verdict.text
    assert verdict.source is not None
    assert verdict.source.file == __file__
