"""Plans are found again on disk, and only if nothing about them has changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.engine.codegen.c_backend import remembered, toolchain
from nodescope.engine.codegen.c_backend.generate import KernelPlan, plan_of
from nodescope.engine.codegen.c_backend.runner import CRunner
from nodescope.errors import GraphError
from nodescope.passes.pipeline import Lowered, lower

X = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("NODESCOPE_CACHE", str(tmp_path))
    toolchain.forget()
    yield
    toolchain.forget()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[KernelPlan]:
    """The plans that are generated."""
    results: list[KernelPlan] = []

    def noted(lowered: Lowered) -> KernelPlan:
        results.append(plan_of(lowered))
        return results[-1]

    monkeypatch.setattr(remembered, "plan_of", noted)
    return results


def lowered(function: Any, *arrays: Any) -> Lowered:
    program = ns.compile(function).graph(*map(ns.tensor, arrays or (X,)))
    return lower(program.graph, program.constants)


def layers(x: Any) -> Any:
    h = np.tanh(x @ np.ones((5, 4), np.float32)) * 0.25
    return h / np.sum(h, axis=1, keepdims=True), h[::2], np.linalg.norm(h), h.T


def running(carry: Any, x: Any) -> Any:
    carry = np.tanh(carry + x)
    return carry, carry


PROGRAMS = {
    "layers": layers,
    "scan": lambda x: ns.scan(running, x[0], x),
    "python": lambda x: np.sort(np.exp(x), axis=1) + 1.0,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_plan_is_found_as_it_was_made(name: str, made: list[KernelPlan]) -> None:
    graph = lowered(PROGRAMS[name])
    first, again = (remembered.plan_for(graph) for _ in range(2))
    assert len(made) == 1
    assert again is not first
    for field in ("steps", "segments", "slots", "results", "outputs", "memory", "texts", "linked",
                  "parts"):  # fmt: skip
        assert getattr(again, field) == getattr(first, field), field
    assert again.constants.keys() == first.constants.keys()
    assert again.source == first.source


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_found_runs_like_what_is_made(name: str, made: list[KernelPlan]) -> None:
    graph = lowered(PROGRAMS[name])
    first, two = CRunner(graph), CRunner(graph)
    assert len(made) == 1
    for a, b in zip(first.run([X]), two.run([X]), strict=True):
        assert a.tobytes() == b.tobytes()


def test_constants_are_those_of_the_graph(made: list[KernelPlan]) -> None:
    first, two = (lowered(lambda x, c=c: x * np.full((5,), c, np.float32)) for c in (2, 3))
    assert np.array_equal(CRunner(first).run([X])[0], X * 2)
    assert np.array_equal(CRunner(two).run([X])[0], X * 3)


@pytest.mark.parametrize(
    ("first", "two"),
    [
        (lambda x: x * 2.0, lambda x: x * 3.0),
        (lambda x: x * 0.0, lambda x: x * -0.0),
        (lambda x: x + 1.0, lambda x: x - 1.0),
        (lambda x: np.sum(x, axis=0), lambda x: np.sum(x, axis=1)),
        (lambda x: x[1:3], lambda x: x[0:2]),
        (lambda x: np.sum(np.exp(x * 2.0)), lambda x: np.sum(np.exp(x * 4.0))),
        (PROGRAMS["scan"], lambda x: ns.scan(running, x[1], x)),
    ],
)  # fmt: skip
def test_other_graphs_have_other_names(first: Any, two: Any) -> None:
    names = [remembered.key_of(lowered(item)) for item in (first, two, first)]
    assert names[0] == names[2] != names[1]
    other = lowered(first, X.astype(np.float64))
    assert remembered.key_of(other) not in names


@pytest.mark.parametrize("harm", ["cut", "other", "empty", "not a plan"])
def test_a_damaged_plan_is_made_again(harm: str, made: list[KernelPlan]) -> None:
    graph = lowered(layers)
    wanted = remembered.plan_for(graph)
    path = toolchain.folder() / f"{remembered.key_of(graph)}.plan"
    content = path.read_bytes()
    path.write_bytes(
        {
            "cut": content[:-9],
            "other": content[:40] + b"?" + content[41:],
            "empty": b"",
            "not a plan": remembered.sealed((1, 2, 3)),
        }[harm]
    )
    assert remembered.plan_for(graph).texts == wanted.texts
    assert len(made) == 2
    assert path.read_bytes() == content


def test_an_attribute_without_a_name_is_not_a_fault(
    made: list[KernelPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(value: object, graph: object) -> str:
        raise GraphError("no text")

    monkeypatch.setattr(remembered, "write", refuse)
    graph = lowered(lambda x: np.sum(x * 2.0, axis=None))
    assert np.allclose(CRunner(graph).run([X])[0], 2 * X.sum(), rtol=1e-5)
    assert CRunner(graph).plan.texts == made[0].texts
    assert len(made) == 2
    assert not list(toolchain.folder().glob("*.plan"))


def test_the_oldest_plans_go(monkeypatch: pytest.MonkeyPatch) -> None:
    remembered.plan_for(lowered(layers))
    (path,) = toolchain.folder().glob("*.plan")
    home = toolchain._cache()
    monkeypatch.setattr("nodescope.engine.codegen.c_backend.cache.MOST_FILES", 0)
    home.evict(path.stat().st_mtime + 1e6)
    assert not path.exists()
