"""Functions of several operators are scopes, in eager programs and in exported ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import nodescope as ns
from tests.torch.observing import nodes_of, observed


class Calls(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.layer_norm(F.softmax(x, -1), (4,))
        x = F.rms_norm(x, (4,))
        x = F.scaled_dot_product_attention(x, x, x)
        x = torch.einsum("abc,dc->abd", x, x[0])
        return F.cross_entropy(x.flatten(1), torch.tensor([0, 1])) + F.l1_loss(x, x * 2)


SCOPES = {
    "Calls/rms_norm", "Calls/scaled_dot_product_attention", "Calls/einsum", "Calls/cross_entropy",
    "Calls/l1_loss",
}  # fmt: skip


@pytest.mark.parametrize("exported", [False, True])
def test_functions_of_several_operators_are_scopes(tmp_path: Path, exported: bool) -> None:
    model, x = Calls(), torch.rand(2, 4, 4)
    run = ns.torch.graph(model, (x,)).run if exported else model
    with torch.no_grad(), observed(tmp_path / "run.nscope", lambda: run(x)) as (_, recording):
        nodes = nodes_of(recording)
    scopes = {node.scope for node in nodes.values() if node.role == "op"}
    assert scopes - {"Calls"} == SCOPES
    assert {"Calls/softmax", "Calls/layer_norm"} <= nodes.keys()


def test_in_a_layer_its_own_scope_is_enough(tmp_path: Path) -> None:
    layers = nn.Sequential(nn.RMSNorm(4), nn.Dropout(0.5), nn.L1Loss())

    def program() -> None:
        x = layers[1](layers[0](torch.rand(2, 4)))
        layers[2](x, x * 2)

    with observed(tmp_path / "run.nscope", program) as (_, recording):
        scopes = {node.scope for node in nodes_of(recording).values() if node.role == "op"}
    assert {scope for scope in scopes if "/" in scope} == set()
    assert {"RMSNorm", "Dropout", "L1Loss"} <= scopes


def test_the_functions_are_put_back(tmp_path: Path) -> None:
    before = (torch.einsum, F.dropout, F.scaled_dot_product_attention)
    with observed(tmp_path / "run.nscope", lambda: torch.einsum is before[0]) as (same, _):
        assert not same
    assert (torch.einsum, F.dropout, F.scaled_dot_product_attention) == before
