"""Programs that train for several steps, and differ in how their steps change."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import nodescope as ns

Optimizer = Callable[[Any], torch.optim.Optimizer]
STEPS = 7


def sgd_of(parameters: Any) -> torch.optim.Optimizer:
    """The optimizer of most programs."""
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


class _Network(nn.Module):
    """Convolution, batch norm, views, attention, dropout, an embedding that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(12, 8)
        self.norm = nn.BatchNorm1d(8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.drop = nn.Dropout(0.2)

    def forward(self, words: Any) -> Any:
        x = self.words(words)
        x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        first, second = self.layer(self.drop(x)).split(4, dim=2)
        return torch.cat([second, first * 2], dim=2) @ self.words.weight.t()


def _words(rows: int = 3) -> Any:
    return torch.randint(0, 12, (rows, 5))


def _loss(model: nn.Module, words: Any) -> Any:
    return F.cross_entropy(model(words).flatten(0, 1), words.flatten())


def trained(model: nn.Module) -> list[Any]:
    """A trained model's parameters and buffers."""
    return [*model.parameters(), *model.buffers()]


def _train(make: Optimizer, *, to_none: bool = True) -> list[Any]:
    model = _Network()
    optimizer = make(model.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=to_none)
        _loss(model, _words()).backward()
        optimizer.step()
    return trained(model)


def sgd() -> Any:
    return _train(sgd_of)


def gradients_set_to_zero() -> Any:
    return _train(sgd_of, to_none=False)


def adam() -> Any:
    return _train(lambda parameters: torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1))


def adam_of_many() -> Any:
    return _train(lambda parameters: torch.optim.Adam(parameters, lr=0.01, foreach=True))


def same_data_and_a_printed_loss() -> Any:
    model, words, seen = _Network(), _words(), []
    optimizer = sgd_of(model.parameters())
    for _ in range(STEPS):
        loss = _loss(model, words)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(torch.tensor(loss.item()))
    return [*trained(model), *seen]


def losses_kept() -> Any:
    model, kept = _Network(), []
    total = torch.zeros(())
    optimizer = sgd_of(model.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = _loss(model, _words())
        loss.backward()
        optimizer.step()
        kept.append(loss.detach())
        total += loss.detach()
    return [torch.stack(kept).mean(), total, *trained(model)]


def losses_added_up() -> Any:
    """Losses are added up before the optimizer's step, with which the training step ends."""
    model, total = _Network(), torch.zeros(())
    optimizer = sgd_of(model.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = _loss(model, _words())
        loss.backward()
        total += loss.detach()
        optimizer.step()
    return [total, *trained(model)]


def evaluated_now_and_then() -> Any:
    model, seen = _Network(), []
    optimizer = sgd_of(model.parameters())
    for step in range(2 * STEPS):
        optimizer.zero_grad()
        _loss(model, _words()).backward()
        optimizer.step()
        if step % 6 == 5:
            model.eval()
            with torch.no_grad():
                seen.append(_loss(model, _words()))
            model.train()
    return [*seen, *trained(model)]


def smaller_last_batch() -> Any:
    model = _Network()
    optimizer = sgd_of(model.parameters())
    for step in range(2 * STEPS):
        optimizer.zero_grad()
        _loss(model, _words(2 if step % STEPS == STEPS - 1 else 3)).backward()
        optimizer.step()
    return trained(model)


def gradients_accumulated() -> Any:
    model = _Network()
    optimizer = sgd_of(model.parameters())
    for step in range(3 * STEPS):
        (_loss(model, _words()) / 3).backward()
        if step % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()
    return trained(model)


def clipped_and_scheduled() -> Any:
    model = _Network()
    optimizer = sgd_of(model.parameters())
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)
    for _ in range(STEPS):
        optimizer.zero_grad()
        _loss(model, _words()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        schedule.step()
    return trained(model)


class _Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Dropout(0.3))
        self.last = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.last(checkpoint(self.inner, x, use_reentrant=False))


def checkpointed() -> Any:
    model = _Checkpointed()
    optimizer = sgd_of(model.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(3, 4)).square().mean().backward()
        optimizer.step()
    return trained(model)


def mixed_precision() -> Any:
    model = _Network()
    optimizer = sgd_of(model.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = _loss(model, _words())
        loss.backward()
        optimizer.step()
    return trained(model)


def marked_by_the_program() -> Any:
    model = _Network()
    optimizer = sgd_of(model.parameters())
    for _ in ns.steps(range(STEPS)):
        optimizer.zero_grad()
        _loss(model, _words()).backward()
        optimizer.step()
        with ns.name_scope("after"):
            torch.ones(2) * 2
    return trained(model)


def scope_renamed() -> Any:
    model = nn.Linear(4, 2)
    optimizer = sgd_of(model.parameters())
    x = torch.ones(3, 4)
    for step in range(STEPS):
        optimizer.zero_grad()
        with ns.name_scope("a" if step < 5 else "b"):
            y = model(x) * 2
        y.sum().backward()
        optimizer.step()
    return trained(model)


def what_is_picked_varies() -> Any:
    model = nn.Linear(4, 6)
    optimizer = sgd_of(model.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad()
        y = model(torch.randn(5, 4))
        y[y > 0].sum().backward()
        optimizer.step()
    return trained(model)


def roles_swapped() -> Any:
    model = nn.Linear(4, 4, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    for step in range(STEPS):
        optimizer.zero_grad()
        if step == 5:
            x, y = y, x
        (model(x) * y + x * 0.5).sum().backward()
        optimizer.step()
    return trained(model)


def carried_over() -> Any:
    cell = nn.GRUCell(3, 4)
    optimizer = sgd_of(cell.parameters())
    hidden = torch.zeros(2, 4)
    for _ in range(STEPS):
        optimizer.zero_grad()
        hidden = cell(torch.randn(2, 3), hidden.detach())
        hidden.sum().backward()
        optimizer.step()
    return [hidden, *trained(cell)]


def raised_within() -> Any:
    model = _Network()
    optimizer = sgd_of(model.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        try:
            loss = _loss(model, _words())
            if step == 5:
                model.norm(torch.ones(2, 3))
            loss.backward()
            optimizer.step()
        except (RuntimeError, ValueError):
            continue
    return trained(model)


def operator_raises() -> Any:
    model = nn.Linear(4, 4)
    optimizer = sgd_of(model.parameters())
    x = torch.ones(3, 4)
    for step in range(STEPS):
        optimizer.zero_grad()
        y = model(x)
        try:
            z = torch.gather(y, 1, torch.full((3, 1), 9 if step == 5 else 1))
        except (RuntimeError, IndexError):
            z = y
        z.sum().backward()
        optimizer.step()
    return trained(model)


def buffers_written() -> Any:
    model = _Network()
    average = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = sgd_of(model.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad()
        _loss(model, _words()).backward()
        optimizer.step()
        with torch.no_grad():
            for kept, parameter in zip(average, model.parameters(), strict=True):
                kept.mul_(0.9).add_(parameter, alpha=0.1)
    return [*average, *trained(model)]


def not_finite_later() -> Any:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        x = torch.ones(3, 4)
        if step == 5:
            x = torch.full((3, 4), float("inf"))
        model(x).sum().backward()
        optimizer.step()
    return trained(model)


def sparse_once() -> Any:
    weight = nn.Parameter(torch.ones(4, 4))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    dense = torch.eye(4)
    sparse = dense.to_sparse()
    for step in range(STEPS):
        optimizer.zero_grad()
        torch.mm(sparse if step == 5 else dense, weight).sum().backward()
        optimizer.step()
    return [weight]


def a_thread_computes_along() -> Any:
    model = nn.Linear(4, 4)
    optimizer = sgd_of(model.parameters())
    seen: list[Any] = []
    for step in range(STEPS):
        optimizer.zero_grad()
        y = model(torch.ones(3, 4))
        if step == 5:
            worker = threading.Thread(target=lambda y=y: seen.append(y.detach().exp() * 2))
            worker.start()
            worker.join()
        y.sum().backward()
        optimizer.step()
    return [*seen, *trained(model)]


class _Numbers(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 14

    def __getitem__(self, at: int) -> Any:
        return torch.full((3,), float(at)) * 2


def loaded() -> Any:
    model = nn.Linear(3, 1)
    optimizer = sgd_of(model.parameters())
    for batch in torch.utils.data.DataLoader(_Numbers(), batch_size=2):
        optimizer.zero_grad()
        model(batch * 0.01).mean().backward()
        optimizer.step()
    return trained(model)


def second_order() -> Any:
    w = nn.Parameter(torch.randn(3, 3))
    optimizer = torch.optim.SGD([w], lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        y = torch.tanh(w @ torch.randn(3, 2)).sum()
        (gradient,) = torch.autograd.grad(y, w, create_graph=True)
        gradient.square().sum().backward()
        optimizer.step()
    return [w]


def branch_used_later() -> Any:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    optimizer = sgd_of(model.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        x = model[0](torch.ones(3, 4)).tanh()
        y = model[1](x)
        side = (x * 3).exp()
        (y.sum() + side.sum() if step == 5 else y.sum()).backward()
        optimizer.step()
    return trained(model)


def memory_filled_later() -> Any:
    model = nn.Linear(4, 4)
    optimizer = sgd_of(model.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        x = torch.empty(3, 4)
        x.fill_(0.5)
        y = torch.empty_like(x)
        torch.mul(x, 2.0 if step < 5 else -0.0, out=y)
        model(y).sum().backward()
        optimizer.step()
    return trained(model)


def memory_handed_on() -> Any:
    """In step 5, a tensor that is read has the memory of a freed one."""
    model = nn.Linear(4, 4)
    optimizer = sgd_of(model.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        x = torch.rand(64, 4).exp()
        if step == 5:
            del x
            y = torch.rand(64, 4).exp()
            x = y
        else:
            y = torch.rand(64, 4).exp()
        model(x + 1).sum().backward()
        del x, y
        optimizer.step()
    return trained(model)


FOLLOWED = (
    sgd, gradients_set_to_zero, adam, adam_of_many, same_data_and_a_printed_loss,
    evaluated_now_and_then, smaller_last_batch, gradients_accumulated, clipped_and_scheduled,
    mixed_precision, marked_by_the_program, scope_renamed, roles_swapped, raised_within,
    operator_raises, buffers_written, not_finite_later, sparse_once, a_thread_computes_along,
    loaded, second_order, memory_filled_later, memory_handed_on, branch_used_later,
    losses_added_up,
)  # fmt: skip
"""Programs whose steps follow a script."""

NOT_FOLLOWED = (
    losses_kept, checkpointed, what_is_picked_varies, carried_over,
)  # fmt: skip
"""Programs in which every step has something new."""
