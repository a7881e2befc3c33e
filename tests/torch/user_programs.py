"""Typical training programs; each returns numbers that depend on everything it computed."""

from __future__ import annotations

import copy
import random
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import swa_utils


def _numbers(*modules: nn.Module) -> list[Any]:
    return [value.tolist() for module in modules for value in module.state_dict().values()]


def _small(inputs: int = 3, outputs: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 4), nn.Tanh(), nn.Linear(4, outputs))


def accumulation() -> Any:
    """Four small batches to a step, with clipping."""
    model, losses = _small(), []
    optimizer = torch.optim.AdamW(model.parameters(), 0.1)
    for batch in range(8):
        loss = model(torch.randn(5, 3)).pow(2).mean() / 4
        loss.backward()
        losses.append(loss.item())
        if (batch + 1) % 4 == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    return [*_numbers(model), losses]


def mixed_precision() -> Any:
    """Autocast and a scaler, one of whose steps is skipped as the gradients overflow."""
    model, scales = _small(), []
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    for batch in range(4):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(torch.randn(5, 3)).float().pow(2).mean()
        loss = loss * (float("inf") if batch == 1 else 1.0)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return [*_numbers(model), scales]


def moving_average() -> Any:
    """Averages of the weights, PyTorch's and one by hand, and a schedule of learning rates."""
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    average = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
    by_hand = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=5)
    for _ in range(4):
        loss = model(torch.randn(5, 3)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        average.update_parameters(model)
        with torch.no_grad():
            for kept, new in zip(by_hand.parameters(), model.parameters(), strict=True):
                kept.mul_(0.9).add_(new, alpha=0.1)
    with torch.no_grad():
        results = [average(torch.ones(2, 3)).tolist(), by_hand(torch.ones(2, 3)).tolist()]
    return [*_numbers(model, average, by_hand), *results]


def early_stopping() -> Any:
    """An evaluation after each epoch; training ends once it gets no better, with the best state."""
    model, held = nn.Linear(3, 1), torch.randn(6, 3)
    optimizer = torch.optim.Adam(model.parameters(), 0.5)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    best, worse, state = float("inf"), 0, model.state_dict()
    for _ in range(6):
        model.train()
        for x in torch.randn(3, 4, 3):
            optimizer.zero_grad()
            (model(x) - x.sum(1, keepdim=True)).pow(2).mean().backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            score = (model(held) - held.sum(1, keepdim=True)).pow(2).mean().item()
        schedule.step(score)
        if score < best:
            best, worse, state = score, 0, copy.deepcopy(model.state_dict())
        else:
            worse += 1
            if worse > 1:
                break
    model.load_state_dict(state)
    return [*_numbers(model), best]


def adversaries() -> Any:
    """Two networks with an optimizer each; one graph is walked through twice."""
    maker = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3))
    judge = nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(0.2), nn.Linear(4, 1))
    makers = torch.optim.Adam(maker.parameters(), 1e-2, betas=(0.5, 0.999))
    judges = torch.optim.Adam(judge.parameters(), 1e-2)
    loss, losses = nn.BCEWithLogitsLoss(), []
    for _ in range(4):
        real, made = torch.randn(5, 3), maker(torch.randn(5, 2))
        judges.zero_grad()
        error = loss(judge(real), torch.ones(5, 1)) + loss(judge(made.detach()), torch.zeros(5, 1))
        error.backward()
        judges.step()
        makers.zero_grad()
        fooled = loss(judge(made), torch.ones(5, 1))
        fooled.backward()
        makers.step()
        losses += [error.item(), fooled.item()]
    return [*_numbers(maker, judge), losses]


def deep_q() -> Any:
    """Reinforcement learning with a memory, and a copied network that follows now and then."""
    draws = random.Random(0)
    policy = _small(4, 2)
    target, memory = copy.deepcopy(policy), []
    optimizer = torch.optim.Adam(policy.parameters(), 1e-2)
    state = torch.randn(4)
    for moment in range(12):
        with torch.no_grad():
            action = int(policy(state[None]).argmax(1)) if draws.random() > 0.2 else 1
        following = state + torch.randn(4) * 0.1
        memory.append((state, action, float(following[0]), following))
        state = following
        if len(memory) >= 4:
            states, actions, rewards, followings = zip(*draws.sample(memory, 4), strict=True)
            with torch.no_grad():
                wanted = torch.tensor(rewards) + 0.9 * target(torch.stack(followings)).amax(1)
            chosen = policy(torch.stack(states)).gather(1, torch.tensor(actions)[:, None])[:, 0]
            optimizer.zero_grad()
            F.smooth_l1_loss(chosen, wanted).backward()
            optimizer.step()
        if moment % 5 == 0:
            target.load_state_dict(policy.state_dict())
    return _numbers(policy, target)


def policy_gradient() -> Any:
    """Actions are drawn from distributions; the loss is a sum over an episode."""
    policy = _small(4, 2)
    optimizer = torch.optim.Adam(policy.parameters(), 1e-2)
    for _ in range(3):
        state, logs, rewards = torch.randn(4), [], []
        for _ in range(4):
            distribution = torch.distributions.Categorical(logits=policy(state))
            logs.append(distribution.log_prob(distribution.sample()))
            state = state + torch.randn(4) * 0.1
            rewards.append(state[0].item())
        returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
        loss = -(torch.stack(logs) * (returns - returns.mean())).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return _numbers(policy)


def closures() -> Any:
    """An optimizer that computes the loss several times in a step."""
    model, x = nn.Linear(3, 1), torch.randn(8, 3)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (model(x) - 1).pow(2).mean()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    return _numbers(model)


def recurrent() -> Any:
    """Truncated: the state is carried from step to step, without its gradients."""
    network, head = nn.GRU(3, 4), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*network.parameters(), *head.parameters()], 0.1)
    state, losses = torch.zeros(1, 2, 4), []
    for _ in range(4):
        y, state = network(torch.randn(5, 2, 3), state.detach())
        loss = head(y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)  # Keeps the graph alive, as many programs do.
    return [*_numbers(network, head), torch.stack(losses).tolist(), sum(losses).item()]


STEPS = {
    accumulation: 2, mixed_precision: 5, moving_average: 6, early_stopping: 12, adversaries: 8,
    deep_q: 29, policy_gradient: 3, closures: 3, recurrent: 5,
}  # fmt: skip
"""How many steps the page shows. An evaluation is one for each call of the model; what comes after
the last step of an optimizer is one more.
"""
