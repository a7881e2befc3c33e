"""Blood tests: standardised for training, then the patients of another ward."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(14)
means, spreads = np.array([140.0, 4.5, 95.0]), np.array([3.0, 0.5, 15.0])
patients = means + spreads * rng.standard_normal((260, 3))
ill = ((patients - means) / spreads @ [1.0, -1.5, 0.7] > 0).astype(np.int64)

training = patients[:200]
center, scale = training.mean(axis=0), training.std(axis=0)
inputs = ((training - center) / scale).astype(np.float32)
model = nn.Sequential(nn.Linear(3, 12, rng=rng), nn.relu, nn.Linear(12, 2, rng=rng))
optimizer = ns.optim.AdamW(model, lr=0.03)
for epoch in ns.steps(range(60)):
    optimizer.zero_grad()
    loss = nn.cross_entropy(model(ns.tensor(inputs, name="tests")), ill[:200])
    loss.backward()
    optimizer.step()
    if epoch % 20 == 0:
        print(f"{epoch:3d} {loss.item():.4f}")

model.eval()
with ns.no_grad(), ns.name_scope("evaluation"):
    ward = patients[200:].astype(np.float32)
    answers = model(ns.tensor(ward, name="ward"))
    validation = nn.cross_entropy(answers, ill[200:])
print(f"validation loss {validation.item():.4f}")
