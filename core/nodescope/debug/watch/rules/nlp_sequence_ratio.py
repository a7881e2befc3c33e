"""SageMaker's NLPSequenceRatio: too large a share of a token, such as padding, in a batch."""

from __future__ import annotations

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.rule import (
    Example,
    Finding,
    Inapplicable,
    Look,
    Rule,
    Settings,
    WatchError,
    text,
)
from nodescope.debug.watch.sight import Sight


def _list(settings: Settings, name: str) -> list[float]:
    try:
        return [float(each) for each in settings[name].split(",")]
    except ValueError:
        raise WatchError(f"{name} is numbers with commas between, not {settings[name]!r}") from None


def _begin(settings: Settings) -> Look:
    tokens, limits = _list(settings, "token_values"), _list(settings, "token_thresholds_percent")
    if len(limits) == 1:
        limits *= len(tokens)
    if len(limits) != len(tokens):
        raise WatchError(
            f"{len(tokens)} tokens and {len(limits)} thresholds do not pair",
            hint="give one threshold for all, or one for each",
        )

    def look(sight: Sight) -> Finding | None:
        spec = sight.spec
        if len(spec.shape) < 2 or not sight.size or not spec.dtype.startswith(("int", "uint")):
            raise Inapplicable("no input is whole numbers of two axes or more")
        array = sight.array
        for token, limit in zip(tokens, limits, strict=True):
            share = 100 * np.count_nonzero(array == token) / array.size
            if share > limit:
                return Finding(
                    f"token {token:g} makes up {share:.6g}% of the batch, more than {limit:g}%",
                    {"token_thresholds_percent": float(share)},
                )
        return None

    return look


register(
    Rule(
        "nlp_sequence_ratio",
        "too large a share of a batch of sequences (whole numbers, two axes or more) is one token",
        _begin,
        ("inputs",),
        needs=frozenset({"values"}),
        parameters=(
            text("token_values", "0", "the tokens, with commas between"),
            text("token_thresholds_percent", "50", "hit above this percentage, one for each token"),
        ),
        origin="SageMaker",
        aliases=("NLPSequenceRatio",),
        examples=(
            Example([[[0, 0, 1, 2]], [[0, 0, 0, 1]], [[]], [[0.0, 0.0]], [0, 0]], (2,)),
            Example(
                [[[3, 1, 2, 2]], [[3, 3, 1, 1]]],
                (2,),
                {"token_values": "0,3", "token_thresholds_percent": "10,40"},
            ),
        ),
    )
)
