"""Tensors and operators of other kinds: observed they give the same, and nothing is said to have
gone unobserved.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch._subclasses import FakeTensorMode
from torch.nn.attention.flex_attention import flex_attention

from tests.torch.observing import edges_of, nodes_of, observed
from tests.torch.taps import TAPS


def loop() -> Any:
    """A loop as an operator."""
    return while_loop(
        lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), torch.ones(3))
    )[1].tolist()


def scanned() -> Any:
    """A scan as an operator."""
    end, all_of = scan(lambda c, x: (c + x, c * x), torch.zeros(2), torch.ones(4, 2))
    return [end.tolist(), all_of.tolist()]


def branched() -> Any:
    """A branch as an operator, and its backward pass."""
    w, x = nn.Parameter(torch.ones(3)), torch.arange(3.0)
    y = torch.cond(x.sum() > 0, lambda a: a.sin() * w, lambda a: a.cos() * w, (x,))
    y.sum().backward()
    assert w.grad is not None
    return [y.tolist(), w.grad.tolist()]


def flexible() -> Any:
    """Attention whose scores a function changes; run eagerly, as on a machine without a GPU."""
    q, k, v = (torch.linspace(0, 1, 256).reshape(1, 2, 16, 8) for _ in range(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score + (i - j))
    assert isinstance(y, torch.Tensor)
    return y.tolist()


def compiled() -> Any:
    """A compiled model that is trained, and a compiled optimizer."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    fast = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        fast(torch.ones(2, 3)).square().mean().backward()
        optimizer.step()
    return [parameter.tolist() for parameter in model.parameters()]


def quantised() -> Any:
    """Quantised tensors, and layers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        layers = torch.ao.quantization.quantize_dynamic(
            nn.Sequential(nn.Linear(4, 4), nn.ReLU()), {nn.Linear}, dtype=torch.qint8
        )
        x = torch.quantize_per_tensor(torch.linspace(-1, 1, 4), 0.1, 0, torch.qint8)
    return [layers(torch.ones(2, 4)).tolist(), (x.dequantize() + 1).tolist()]


def without_elements() -> Any:
    """Fake tensors, and training on the device ``meta``."""
    model = nn.Linear(3, 2)
    with FakeTensorMode(allow_non_fake_inputs=True):
        shapes = [tuple(model(torch.ones(2, 3)).shape)]
    with torch.device("meta"):
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        y = model(torch.ones(2, 3))
        y.sum().backward()
        optimizer.step()
    return [*shapes, tuple(y.shape)]


def sparse() -> Any:
    """An embedding with sparse gradients, and its optimizer."""
    torch.manual_seed(0)
    table = nn.Embedding(6, 3, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters(), 0.1)
    for nth in range(3):
        optimizer.zero_grad()
        table(torch.tensor([1, nth])).sum().backward()
        optimizer.step()
    return table.weight.tolist()


def nested() -> Any:
    """Nested tensors of both layouts through a layer, and backward."""
    torch.manual_seed(0)
    layer, sums = nn.Linear(3, 2), []
    for layout in (torch.jagged, torch.strided):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Nested tensors warn that they are a prototype.
            rows = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=layout)
        total = torch.stack([part.sum() for part in layer(rows).unbind()]).sum()
        total.backward()
        sums.append(total.item())
    assert layer.weight.grad is not None
    return [*sums, layer.weight.grad.tolist()]


def traced() -> Any:
    """Models traced by TorchScript while they are trained: operator by operator, and names."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    graphs = []
    for _ in range(6):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch.jit.trace is deprecated.
            script = torch.jit.trace(model, torch.ones(2, 3))
        graphs.append(re.sub(r"___torch_mangle_\d+\.|#.*", "", str(script.inlined_graph)))
        optimizer.zero_grad()
        script(torch.ones(2, 3)).square().mean().backward()
        optimizer.step()
    return [*graphs, *(parameter.tolist() for parameter in model.parameters())]


PROGRAMS = (
    loop, scanned, branched, flexible, compiled, quantised, without_elements, sparse, nested,
    traced,
)  # fmt: skip


@pytest.mark.parametrize("tap", TAPS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_an_observed_program_gives_the_same(
    program: Callable[[], Any], tap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", tap)
    plain = program()
    with observed(tmp_path / "run.nscope", program, "values") as (result, recording):
        assert result == plain
        assert recording.executions()
        names = nodes_of(recording)
    assert not [name for name in names if name.startswith(("backward/backward", "recompute/back"))]


def test_a_loop_is_seen_round_by_round(tmp_path: Path) -> None:
    with observed(tmp_path / "run.nscope", loop, "values") as (_, recording):
        nodes, edges = nodes_of(recording), edges_of(recording)
    products = [name for name, node in nodes.items() if node.native == "aten::mul.Tensor"]
    assert len(products) == 3
    assert edges[products[1]] == [products[0]]
    assert edges[products[2]] == [products[1]]
