"""SageMaker's CheckInputImages: input images whose mean is not about zero."""

from __future__ import annotations

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.rule import (
    Example,
    Finding,
    Inapplicable,
    Look,
    NotYet,
    Rule,
    Settings,
    count,
    number,
    per_value,
)
from nodescope.debug.watch.sight import Sight, numbers


def _begin(settings: Settings) -> Look:
    channel, wanted = settings["channel"], settings["threshold_samples"]
    limit = settings["threshold_mean"]
    total = np.zeros(0)
    images, judged = 0, False

    def look(sight: Sight) -> Finding | None:
        nonlocal total, images, judged
        shape = sight.spec.shape
        if len(shape) < 4 or channel >= len(shape) or not sight.size:
            raise Inapplicable("no input has four axes or more")
        array = sight.array
        if array.dtype.kind == "c":
            raise Inapplicable("images are not complex")
        others = tuple(axis for axis in range(array.ndim) if axis != channel)
        given = numbers(array)
        finite = np.isfinite(given)
        sums = given.sum(axis=others, where=finite)
        means = sums / np.maximum(np.count_nonzero(finite, axis=others), 1) * shape[0]
        if total.shape != means.shape:
            total, images = np.zeros(means.shape), 0
        total, images = total + means, images + shape[0]
        if images < wanted:
            if not judged:
                raise NotYet(f"needs {wanted} images, had {images}")
            return None
        judged = True
        mean, seen = total / images, images
        total, images = np.zeros(means.shape), 0
        worst = int(np.abs(mean).argmax())
        if not abs(mean[worst]) > limit:
            return None
        return Finding(
            f"over {seen} images the mean of channel {worst} is {mean[worst]:.6g}, farther from "
            f"zero than {limit:g}: are the images normalised?",
            {"threshold_mean": float(mean[worst])},
        )

    return look


_NAN = float("nan")

register(
    Rule(
        "check_input_images",
        "input images (four axes or more) are not normalised to a mean of zero",
        per_value(_begin),
        ("inputs",),
        needs=frozenset({"values", "history"}),
        parameters=(
            number("threshold_mean", 0.2, "hit if a channel's mean is farther from zero", low=0),
            count("threshold_samples", 500, "images to see first", low=1),
            count("channel", 1, "the axis of the channels"),
        ),
        origin="SageMaker",
        aliases=("CheckInputImages",),
        examples=(
            Example([[[[[1.0]]]], [[[[0.0]]]], [[[[0.25]]]], [[[[0.25]]]]], (2, 4),
                    {"threshold_samples": 2}),
            Example([[[[[1.0]], [[-1.0]]]], [[[[0.25]], [[0.0]]]]], (1,),
                    {"threshold_samples": 1, "threshold_mean": 0.5}),
            Example([[[[[_NAN, 0.0]], [[5.0, 5.0]]]], [[[[_NAN]], [[0.0]]]]], (1,),
                    {"threshold_samples": 1}, about="of the finite elements"),
            Example([[5.0, 5.0], [[7.0]]], (), {"threshold_samples": 1}, about="no images"),
        ),
    )
)  # fmt: skip
