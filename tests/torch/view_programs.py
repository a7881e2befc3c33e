"""Programs whose steps write to views, or make modules, leaves and branches anew."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.torch.step_programs import STEPS, sgd_of, trained


class _MadeAnew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x: Any) -> Any:
        return self.last(nn.SiLU()(self.first(x)))


def modules_made_anew() -> Any:
    """In each call of another, and in each step; in step 5, one has a parameter."""
    model = _MadeAnew()
    optimizer = sgd_of(model.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        y = model(torch.randn(5, 4))
        if step == 5:
            y = nn.PReLU()(y)
        nn.CrossEntropyLoss()(y, torch.randint(0, 3, (5,))).backward()
        optimizer.step()
    return trained(model)


class _Weighted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        weights = torch.ones(3)
        weights[-1] = 0.5
        self.register_buffer("weights", weights)

    def forward(self, y: Any) -> Any:
        return (y * self.weights).square().mean()


def modules_with_buffers_made_anew() -> Any:
    """What is computed becomes the buffer of a module; in step 5, another module is called then."""
    model, kept = nn.Linear(4, 3), []
    optimizer = sgd_of(model.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = _Weighted()
        y = model(torch.randn(5, 4))
        if step == 5:
            y = nn.Tanh()(y)
        loss(y).backward()
        if step == 5:
            kept.append(loss.weights * 2)
        optimizer.step()
    return [*kept, *trained(model)]


def views_written() -> Any:
    """In memory of the step, differentiably and not; in step 5, one write more."""
    model = nn.Linear(4, 4)
    optimizer = sgd_of(model.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        x = torch.zeros(3, 4)
        x[:, 1:] = torch.randn(3, 3)
        x[0] += x[1]
        if step == 5:
            x[2].mul_(2.0)
        y = model(x)
        y = y.tanh_()
        z = torch.zeros(3, 8)
        z[:, :4] = y
        z[:, 4:] = y * 2
        z[1].mul_(0.5)
        (z.sigmoid_() * x[:, :1]).sum().backward()
        optimizer.step()
    return trained(model)


def views_written_of_kept_memory() -> Any:
    """Memory that is no module's is written to in each step, and read whole in the next."""
    model, kept = nn.Linear(4, 4), torch.zeros(4, 4)
    optimizer = sgd_of(model.parameters())
    for step in range(2 * STEPS):
        optimizer.zero_grad()
        y = model(kept * 0.5 + 1)
        y.square().mean().backward()
        kept[0] = y.detach()[1]
        if step == 9:
            kept[3].fill_(2.0)
        kept[1:3].copy_(y.detach()[:2])
        optimizer.step()
    return [kept, *trained(model)]


def views_written_of_memory_that_is_read_seldom() -> Any:
    """Each step writes to the same places; what they have made of the whole is read at the end."""
    model, kept = nn.Linear(4, 4), torch.zeros(4, 4)
    optimizer = sgd_of(model.parameters())
    first, rest, seen = kept[0], kept[1:3], [kept + 1]
    for _ in range(STEPS):
        optimizer.zero_grad()
        y = model(torch.ones(3, 4))
        y.square().mean().backward()
        first.copy_(y.detach()[1])
        rest.copy_(y.detach()[:2])
        optimizer.step()
    return [kept + 2, *seen, *trained(model)]


def queue_of_a_module() -> Any:
    """A buffer that is shifted and written to, as a queue."""
    model = nn.Linear(4, 4)
    model.register_buffer("queue", torch.zeros(3, 4))
    optimizer = sgd_of(model.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad()
        y = model(torch.randn(3, 4))
        (y @ model.queue.clone().t()).square().mean().backward()
        with torch.no_grad():
            model.queue[1:] = model.queue[:-1].clone()
            model.queue[0] = y[0]
        optimizer.step()
    return trained(model)


def inputs_trained() -> Any:
    """Inputs get gradients, too; in step 5, one is used again after another operator."""
    model = nn.Linear(4, 4)
    optimizer = sgd_of(model.parameters())
    seen = []
    for step in range(STEPS):
        optimizer.zero_grad()
        x = torch.randn(3, 4, requires_grad=True)
        y = model(x)
        if step == 5:
            y = (y.exp() + x) * x
        y.square().mean().backward()
        seen.append(x.grad)
        optimizer.step()
    return [*seen, *trained(model)]


def gradients_arrive_later() -> Any:
    """Of what was computed in all steps, and of a step before, while another step is followed."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    optimizer = sgd_of(model.parameters())
    kept = None
    for step in range(2 * STEPS):
        optimizer.zero_grad()
        y = model(torch.randn(3, 4))
        side = (y * 3).exp()
        if step in (5, 7):
            side.sum().backward(retain_graph=True)
        y.square().mean().backward()
        if step == 8:
            kept = model[0](torch.ones(3, 4)).square()
        if step == 10:
            kept.sum().backward()
        optimizer.step()
        del side
    return trained(model)


def memory_written_by_numpy() -> Any:
    """Between an operator and a view of its result; PyTorch counts no write."""
    model = nn.Linear(64, 64)
    optimizer = sgd_of(model.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        y = model(torch.randn(64, 64))
        y.detach().numpy()[17, 5] = 100.0 + step
        (y.t().contiguous() @ y.view(16, 256).view(64, 64)).tanh().sum().backward()
        optimizer.step()
    return trained(model)


def rows_apart_written_by_numpy() -> Any:
    """As above, of parts whose rows lie apart from each other, long ones and short ones."""
    model = nn.Linear(64, 96)
    optimizer = sgd_of(model.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        first, second, short = model(torch.randn(64, 64)).split([48, 40, 8], dim=1)
        for part in (first, second, short):
            part.detach().numpy()[17, 5] = 100.0 + step
        parts = (part.view(64, 2, -1).transpose(0, 1).tanh() for part in (first, second, short))
        sum(part.sum() for part in parts).backward()
        optimizer.step()
    return trained(model)


FOLLOWED = (
    modules_made_anew,
    modules_with_buffers_made_anew,
    views_written,
    views_written_of_kept_memory,
    views_written_of_memory_that_is_read_seldom,
    queue_of_a_module,
    inputs_trained,
    gradients_arrive_later,
    memory_written_by_numpy,
    rows_apart_written_by_numpy,
)
"""Steps of these follow the one before."""
