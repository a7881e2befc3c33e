"""Faults in a program's data: order, labels, scale, differences between training and use."""

from __future__ import annotations

from typing import Final

from tests.diagnosis.case import LOSS, Broken

DATA: Final = (
    Broken(
        "sorted_fruit",
        "batches of one class: the file is sorted and nobody shuffles",
        mend=(("order = np.arange(400)", "order = rng.permutation(400)"),),
        goal="loss of all < 0.35",
        lines=("fruit = np.repeat", "rows = order[start", "loss = nn.cross_entropy"),
        nodes=("train/fruit",),
        about=("(?i)class",),
        words="(?i)class|label",
    ),
    Broken(
        "shuffled_apart",
        "inputs and answers shuffled apart",
        mend=(
            ("        x = x[rng.permutation(96)]\n", "        order = rng.permutation(96)\n"),
            ("y = y[rng.permutation(96)]", "x, y = x[order], y[order]"),
        ),
        goal="error < 0.02",
        lines=("loss = nn.mse", "yield x[part"),
        nodes=("moon_wind", "tide"),
        about=(LOSS,),
        words="(?i)row|epoch|pair",
    ),
    Broken(
        "raw_evaluation",
        "inputs are standardised in training only",
        mend=(("ward = patients[200:]", "ward = ((patients[200:] - center) / scale)"),),
        goal="validation loss < 0.3",
        lines=("answers = model",),
        nodes=("evaluation/ward",),
        about=("^overfit", "(?i)drift|evaluation/.*(mean|spread|standard|range|distribution)"),
        words="(?i)ward|inputs|drift|range|mean|spread|scale",
    ),
    Broken(
        "batch_statistics",
        "evaluated with the statistics of the batch: eval() is missing",
        mend=(("hits = 0", "model.eval()\nhits = 0"),),
        goal="right > 0.9",
        lines=("hits += int",),
        nodes=("factory/.*",),
        about=("(?i)training mode|eval\\(\\)",),
        words="(?i)training|eval|statistic|batch",
    ),
    Broken(
        "noisy_copies",
        "noise is added in place, to the data itself",
        mend=(("noisy = batch\n", "noisy = batch.copy()\n"),),
        goal="loss < 0.1",
        lines=("noisy += rng", "noisy = batch", "ns.tensor(noisy, name"),
        nodes=("(autoencoder/)?noisy", "clean"),
        about=("(?i)drift|row|epoch|in place|changes between|same|equal|identical",),
        words="(?i)drift|grow|row|epoch|changes|in place|spread|same|equal|identical",
    ),
    Broken(
        "mixed_rows",
        "reshaped where it should have been transposed",
        mend=((".reshape(SAMPLES, CHANNELS)", ".T"),),
        goal="loss < 0.2",
        lines=("spectra = ns.tensor",),
        nodes=("reshape",),
        about=(LOSS, "(?i)reshape|transpose"),
        words="(?i)reshape|transpose|order",
    ),
    Broken(
        "short_messages",
        "a loss over the padding: the mask is there and not used",
        mend=(("loss = -np.mean(picked)", "loss = -np.sum(picked * mask) / np.sum(mask)"),),
        goal="right > 0.9",
        lines=("mask = (tokens", "loss = -np.mean"),
        nodes=("not_equal", "astype"),
        about=("(?i)class_imbalance|unused|nobody|never read|not used|no use",),
        words="(?i)unused|nobody|never|not used|no use|class",
    ),
    Broken(
        "creeping_sensor",
        "the zero of a sensor creeps while the network is trained",
        mend=(("    offsets[3] += 0.04\n", ""),),
        goal="error < 0.1",
        lines=("loss = nn.mse", "return true + offsets", "offsets[3] +="),
        nodes=("shown",),
        about=("(?i)drift",),
        words="(?i)drift|mean|column",
    ),
    Broken(
        "open_book",
        "tested with dropout: eval() is missing",
        mend=(("right = 0\n", "right = 0\nmodel.eval()\n"),),
        goal="right > 0.85",
        lines=("answers = model",),
        nodes=(r"\S*dropout\S*",),
        about=("(?i)training mode|eval\\(\\)",),
        words="(?i)training|eval|drop",
    ),
)
