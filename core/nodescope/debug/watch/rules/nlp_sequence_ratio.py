"""SageMaker's NLPSequenceRatio: one token, such as padding, dominates a batch."""

from __future__ import annotations

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, Sight
from nodescope.debug.watch.rule import Example, Finding, Look, Rule, Settings, WatchError, text


def _list(settings: Settings, name: str) -> list[float]:
    try:
        return [float(number) for number in settings[name].split(",")]
    except ValueError:
        raise WatchError(
            f"{name} must be comma-separated numbers, not {settings[name]!r}"
        ) from None


def _begin(settings: Settings) -> Look:
    tokens, limits = _list(settings, "token_values"), _list(settings, "token_thresholds_percent")
    if len(limits) == 1:
        limits *= len(tokens)
    if len(limits) != len(tokens):
        raise WatchError(
            f"{len(tokens)} tokens but {len(limits)} thresholds",
            hint="give one threshold for all tokens, or one for each",
        )

    def look(sight: Sight) -> Finding | None:
        spec = sight.spec
        if len(spec.shape) < 2 or not sight.size or not spec.dtype.startswith(("int", "uint")):
            raise Inapplicable("no input has integers in two or more axes")
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
        "one token makes up too large a share of a batch of sequences (integers, two or more axes)",
        _begin,
        ("inputs",),
        needs=frozenset({"values"}),
        parameters=(
            text("token_values", "0", "comma-separated tokens"),
            text(
                "token_thresholds_percent",
                "50",
                "hit above this percentage; one value, or one for each token",
            ),
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
