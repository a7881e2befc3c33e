"""Scopes of calls: where a graph runs is read off the scopes of its nodes."""

from __future__ import annotations

import pytest

from nodescope.ir.scopes import base_of, placed, split_number, unnumbered, without_phase


@pytest.mark.parametrize("phase", ["forward", "backward"])
@pytest.mark.parametrize("base", ["", "encoder", "encoder/layer"])
@pytest.mark.parametrize("scope", ["", "block", "block/inner"])
def test_the_base_is_where_it_was_placed(scope: str, base: str, phase: str) -> None:
    if phase == "backward":
        scope = f"backward/{scope}" if scope else "backward"
    assert base_of(placed(scope, phase, base), scope, phase) == base


@pytest.mark.parametrize(
    ("ran", "scope", "phase"),
    [
        ("optimizer/sgd", "optimizer/sgd", "optimizer"),
        ("encoder/other", "block", "forward"),
        ("encoder/myblock", "block", "forward"),
    ],
)
def test_a_node_without_a_known_base(ran: str, scope: str, phase: str) -> None:
    assert base_of(ran, scope, phase) is None


def test_a_scope_that_only_begins_like_the_backward_pass() -> None:
    assert base_of("backwards/block", "block", "backward") == "backwards"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("cell_2", ("cell", 2)),
        ("cell", ("cell", None)),
        ("cell_", ("cell_", None)),
        ("cell_2_10", ("cell_2", 10)),
        ("_3", ("", 3)),
        ("", ("", None)),
    ],
)
def test_a_number_makes_a_name_unique(name: str, parts: tuple[str, int | None]) -> None:
    assert split_number(name) == parts


def test_a_scope_without_numbers_or_phase() -> None:
    assert unnumbered("net_1/cell_2/tail") == "net/cell/tail"
    assert without_phase("backward/net") == "net"
    assert without_phase("recompute/net/cell") == "net/cell"
    assert without_phase("backward") == ""
    assert without_phase("network/backward") == "network/backward"
