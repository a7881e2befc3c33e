"""Scope, phase and forward node of a thread: set for a while, and always restored."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import pytest

from nodescope.emit import phases
from nodescope.emit.emitter import Emitter
from nodescope.emit.state import ThreadState, current
from nodescope.events import Bus

Entered = AbstractContextManager[Any]


def place(state: ThreadState) -> tuple[str, str, int | None]:
    return state.scope, state.phase, state.forward


def at(scope: str) -> ThreadState:
    state = ThreadState()
    state.scope = scope
    return state


def test_updates_stand_under_the_parameter() -> None:
    state = at("train")
    with phases.optimizer_phase(state, "dense/weight"):
        assert place(state) == ("optimizer/dense/weight", "optimizer", None)


@pytest.mark.parametrize("path", ["dense", "recompute/dense"])
def test_recomputed_nodes_get_their_own_phase_once(path: str) -> None:
    state = at("backward/dense")
    state.forward = 7
    with phases.recompute_phase(state, path):
        assert place(state) == ("recompute/dense", "recompute", None)


def test_backward_nodes_stand_where_the_forward_ones_do() -> None:
    state = at("train")
    made_by = {"x": ("dense", 3), "again": ("recompute/dense", 4), "top": ("", 5)}
    with phases.backward_phase(state, made_by.get) as differentiate:
        for tensor, expected in (
            ("x", ("backward/dense", "backward", 3)),
            ("again", ("backward/dense", "backward", 4)),
            ("top", ("backward", "backward", 5)),
            ("unknown", ("backward", "backward", None)),
        ):
            differentiate(tensor)
            assert place(state) == expected


@pytest.mark.parametrize("name", ["backward_phase", "optimizer_phase", "recompute_phase", "Scope"])
def test_what_raises_leaves_the_thread_as_it_was(name: str) -> None:
    state = at("train")
    state.forward = 7
    argument: Any = (lambda tensor: None) if name == "backward_phase" else "dense"
    entered: Entered = getattr(phases, name)(state, argument)
    with pytest.raises(KeyError) as caught, entered:
        raise KeyError(place(state))
    assert caught.value.args != (("train", "forward", 7),)
    assert place(state) == ("train", "forward", 7)


def test_an_emitter_gives_each_call_of_a_module_a_scope_of_its_own() -> None:
    emitter, state = Emitter(Bus()), current()
    before = place(state)
    with emitter.scope("encoder"):
        with emitter.scope("layer"):
            assert state.scope == "encoder/layer"
        with emitter.scope("layer", call=1):
            assert state.scope == "encoder/layer_1"
    assert place(state) == before
