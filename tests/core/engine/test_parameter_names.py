"""A parameter without a name gets the name of its assignment target."""

from __future__ import annotations

from typing import Any

import numpy as np

import nodescope as ns
from nodescope.engine.graphs import variables


class Thing:
    weight: Any

    def __init__(self) -> None:
        self.kernel_t1 = ns.parameter(np.ones(2))


def _made() -> Any:
    return ns.parameter(np.ones(2))


def _names(*tensors: Any) -> list[str]:
    return [tensor.name for tensor in tensors]


def test_names_come_from_the_assignment(monkeypatch: Any) -> None:
    monkeypatch.setattr(variables, "_unnamed", {})
    first = ns.parameter(np.ones(2))
    annotated: Any = ns.parameter(
        np.ones(
            2,
        )
    )
    thing, table, inner = Thing(), {}, Thing()
    thing.weight = inner
    inner.weight = ns.parameter(np.ones(2))
    thing.weight.weight = ns.parameter(np.ones(2))
    table["key"] = ns.parameter(np.ones(2))
    if (walrus := ns.parameter(np.ones(2))).shape:
        left_one = other = ns.parameter(np.ones(2))
    assert _names(first, annotated, inner.weight, table["key"], walrus, left_one, other) == [
        "first", "annotated", "weight_1", "key", "walrus", "left_one", "left_one",
    ]  # fmt: skip
    assert _names(thing.kernel_t1, inner.kernel_t1) == ["kernel_t1", "kernel_t1_1"]


def test_parameters_without_an_assigned_name_are_numbered(monkeypatch: Any) -> None:
    monkeypatch.setattr(variables, "_unnamed", {})
    listed = [ns.parameter(np.ones(2)), ns.parameter(np.ones(2))]
    first, two = ns.parameter(np.ones(2)), _made()
    table = {0: None}
    table[0] = ns.parameter(np.ones(2))
    result = np.sum(ns.parameter(np.ones(2)))
    assert result.item() == 2
    assert _names(*listed, first, two, table[0]) == [
        "parameter", "parameter_1", "parameter_2", "parameter_3", "parameter_4",
    ]  # fmt: skip


def test_a_name_that_is_given_stays_and_graphs_count_for_themselves() -> None:
    weight = ns.parameter(np.ones(2), name="given")
    assert weight.name == "given"
    with ns.Graph().as_default():
        weight = ns.parameter(np.ones(2))
        others = [ns.parameter(np.ones(2)), ns.parameter(np.ones(2))]
    assert _names(weight, *others) == ["weight:0", "parameter:0", "parameter_1:0"]


def test_compiled_functions_show_the_name() -> None:
    slope_t2 = ns.parameter(np.ones(2))
    run = ns.compile(lambda x: x * slope_t2)
    run(np.ones(2))
    assert "slope_t2" in [node.name for node in run.graph(np.ones(2)).nodes]
