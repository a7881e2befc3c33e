"""Tags for the words of short messages, padded to one length."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(72)
WORDS, TAGS, LENGTH = 30, 4, 12
tag_of = rng.integers(1, TAGS, WORDS)
tag_of[0] = 0  # the padding's


class Tagger(nn.Module):
    def __init__(self):
        self.words = nn.Embedding(WORDS, 10, rng=rng)
        self.out = nn.Linear(10, TAGS, rng=rng)

    def forward(self, text):
        return self.out(np.tanh(self.words(text)))


tagger = Tagger()
optimizer = ns.optim.SGD(tagger, lr=0.5)
for _ in ns.steps(range(80)):
    lengths = rng.integers(1, 4, 16)
    text = rng.integers(1, WORDS, (16, LENGTH)) * (np.arange(LENGTH) < lengths[:, None])
    tokens = ns.tensor(text, name="tokens")
    mask = (tokens != 0).astype(np.float32)
    log_p = ns.log_softmax(tagger(tokens), axis=-1)
    picked = np.take_along_axis(log_p, tag_of[text][..., None], axis=-1)[..., 0]
    loss = -np.mean(picked)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

with ns.no_grad():
    answers = np.argmax(tagger(np.arange(1, WORDS)[None]).numpy()[0], axis=-1)
print(f"right {np.mean(answers == tag_of[1:]):.2f}")
