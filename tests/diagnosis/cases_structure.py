"""Faults in structure: masks, candidates, stacks, statistics and solvers."""

from __future__ import annotations

from typing import Final

from tests.diagnosis.case import LOSS, NAN, STILL, Broken

STRUCTURE: Final = (
    Broken(
        "jitter_augment",
        "augmentation adds noise in place to a view: the training data get worse every epoch",
        (
            (
                "    batch += rng.normal(",
                "    batch = batch + rng.normal(",
            ),
        ),
        "accuracy > 0.95",
        lines=(
            "batch += rng.normal",
            "return batch",
            "yield augment(",
            'ns.tensor(xb, name="batch")',
        ),
        nodes=(r"(.*/)?batch(/.*)?",),
        words=r"in.?place|drift|grow|spread|accumul|modif|mutat|view|more and more|wider",
    ),
    Broken(
        "simclr_pairs",
        "each row's similarity to itself is among the candidates",
        (
            (
                "similarity = z @ z.T / TEMPERATURE",
                "similarity = z @ z.T / TEMPERATURE - 1e9 * np.eye(2 * len(a), dtype=np.float32)",
            ),
        ),
        "loss < 0.6",
        lines=(
            "similarity = z @ z.T",
            "return nn.cross_entropy(similarity, partner)",
        ),
        nodes=(r"(.*/)?contrast(/.*)?",),
        about=(LOSS,),
        words=r"diagonal|itself|\bself\b|own (row|column)|mask|exclud",
    ),
    Broken(
        "residual_stack",
        "each layer gets x instead of the last layer's output: only the last one counts",
        (("out = nn.relu(layer(x))", "x = nn.relu(layer(x))"), ("self.head(out)", "self.head(x)")),
        "loss < 0.2",
        lines=(
            "self.layers = [",
            "for layer in self.layers",
            "out = nn.relu(layer(x))",
            "return self.head(out)",
        ),
        nodes=(r"(.*/)?layers_[0-2](/.*)?",),
        about=(
            STILL,
            r"\blayers_[0-2]\b",
        ),
        words=r"use|never|no gradient|overwrit|discard|reach|unchanged|no effect|frozen",
    ),
    Broken(
        "serve_batchnorm",
        "serving in training mode: batch norm uses the statistics of two requests",
        (("requests, answers = records(150)\n", "requests, answers = records(150)\nnet.eval()\n"),),
        "accuracy > 0.85",
        lines=(
            "self.norm = nn.BatchNorm1d(32)",
            "return self.out(nn.relu(self.norm(",
            "net.train()",
            "scores = net(ns.tensor(requests[start",
        ),
        nodes=(r"(.*/)?norm(/.*)?",),
        about=(r"batch.?norm",),
        words=r"train|eval|running|statistic|batch of|mode|few rows|small batch|2 rows|two",
    ),
    Broken(
        "causal_attention",
        "the causal mask multiplies the scores by zero instead of excluding them",
        (("scores = scores * mask", "scores = np.where(mask > 0, scores, np.float32(-1e9))"),),
        "accuracy > 0.9",
        lines=(
            "mask = np.tril",
            "scores = scores * mask",
            "h = nn.softmax(scores, axis=-1)",
        ),
        about=(r"(mask|future|leak|causal)",),
        words=r"mask|future|leak|causal|later|exclud|-inf",
    ),
    Broken(
        "heat_inverse",
        "the time step of the explicit solver is too long to be stable",
        (("STEPS = 25", "STEPS = 80"),),
        "error < 0.04",
        lines=(
            "STEPS = 25",
            "dt = DURATION / steps",
            "curvature = ",
            "u = np.where(inner, u + dt",
            "final = simulate",
        ),
        nodes=(r"(.*/)?solver(/.*)?",),
        about=(
            LOSS,
            NAN,
            r"(grow|explod|blow|diverg|oscillat|overflow|unstable|spike|jump)",
        ),
        words=r"step|stab|grow|explod|blow|oscillat|diverg|alternat|amplif|larg|overflow|Inf",
    ),
)
