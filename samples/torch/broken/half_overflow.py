"""A classifier trained in half precision: the loss is nan from step 1 on.

The inputs should be standardised; here they are the raw readings of a sensor, up to 4,000. Their
product with the first weights overflows float16, and the layer norm turns Inf into NaN.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
readings = torch.randint(0, 4000, (64, 40)).to(torch.float16)
labels = (readings.float().mean(dim=1) > 2000).long()
model = nn.Sequential(nn.Linear(40, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 2)).to(
    torch.float16
)
with torch.no_grad():
    model[0].weight.mul_(20)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(5):
    loss = F.cross_entropy(model(readings), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step + 1}  loss {loss.item():.4f}")
