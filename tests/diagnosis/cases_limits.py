"""Faults that keep a loss, a mask, a state or a layer from doing what is intended."""

from __future__ import annotations

from typing import Final

from tests.diagnosis.case import LOSS, NAN, Broken

LIMITS: Final = (
    Broken(
        "bird_calls",
        "tanh behind the scores: they cannot differ enough",
        (('np.tanh(out(nn.relu(hidden(ns.tensor(bands, name="bands")))))',
          'out(nn.relu(hidden(ns.tensor(bands, name="bands"))))'),),
        "loss < 0.2",
        lines=("scores = np.tanh(out",),
        nodes=("tanh",),
        about=(LOSS, r"(bounded|temperature|differ)"),
        words=r"tanh|bound|differ|scale|range",
    ),
    Broken(
        "noise_contrast",
        "scores of data and of noise are pushed up alike: a sign is missing",
        (("nn.softplus(-of_noise)", "nn.softplus(of_noise)"),),
        "told apart > 0.75",
        lines=("loss = np.mean(nn.softplus",),
        nodes=(r"softplus\S*",),
        about=(r"(sign|pushes|alike|same way)",),
        words=r"sign|push|alike|opposite|noise",
    ),
    Broken(
        "melody",
        "a transformer without a causal mask guesses the next note",
        (("(SIZE, 2, rng=rng)", "(SIZE, 2, causal=True, rng=rng)"),),
        "surprise < 0.95",
        lines=("block = nn.TransformerBlock", "return head(block", "guess = scores("),
        nodes=(r"(.*/)?attention(/.*)?",),
        about=(r"(causal|mask|future|next|leak|ahead)",),
        words=r"mask|causal|after|future|ahead|leak",
    ),
    Broken(
        "canteen",
        "the mask is that of the day before",
        (("offers[day - 1]", "offers[day]"),),
        "loss < 2",
        lines=("scores = np.where(offers", "loss = nn.cross_entropy"),
        nodes=("where", "cross_entropy"),
        about=(r"mask",),
        words=r"mask",
    ),
    Broken(
        "reactor",
        "the cooling has the wrong sign",
        (("heat - cooling", "heat + cooling"),),
        "hottest < 400",
        lines=("cooling = RATE", "temperature = temperature + DT"),
        nodes=(r"add(_\d+)?",),
        about=(NAN, r"(grow|runs away|overflow)"),
        words=r"sign|grow|overflow|unstable",
    ),
    Broken(
        "heart_rate",
        "a stride twice as long as the kernel: half of the samples are never read",
        (("Conv1d(1, 16, 3,", "Conv1d(1, 16, 6,"),),
        "loss < 0.5",
        lines=("conv = nn.Conv1d", "maps = nn.relu(conv("),
        nodes=(r"(.*/)?conv1d",),
        about=(r"(stride|skip|never read)",),
        words=r"stride|never read|skip|steps over|kernel",
    ),
)  # fmt: skip
