"""SageMaker's CheckInputImages: input images whose mean is not close to zero."""

from __future__ import annotations

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, NotYet, Sight, numbers
from nodescope.debug.watch.rule import (
    Example,
    Finding,
    Look,
    Rule,
    Settings,
    count,
    number,
    per_value,
)


def _begin(settings: Settings) -> Look:
    channel, images_needed = settings["channel"], settings["threshold_samples"]
    limit = settings["threshold_mean"]
    total = np.zeros(0)
    images, judged = 0, False

    def look(sight: Sight) -> Finding | None:
        nonlocal total, images, judged
        shape = sight.spec.shape
        if len(shape) < 4 or channel >= len(shape) or not sight.size:
            raise Inapplicable("no input has four or more axes")
        array = sight.array
        if array.dtype.kind == "c":
            raise Inapplicable("the input is complex, so it holds no images")
        other_axes = tuple(axis for axis in range(array.ndim) if axis != channel)
        pixels = numbers(array)
        finite = np.isfinite(pixels)
        sums = pixels.sum(axis=other_axes, where=finite)
        means = sums / np.maximum(np.count_nonzero(finite, axis=other_axes), 1) * shape[0]
        if total.shape != means.shape:
            total, images = np.zeros(means.shape), 0
        total, images = total + means, images + shape[0]
        if images < images_needed:
            if not judged:
                raise NotYet(f"needs {images_needed} images, had {images}")
            return None
        judged = True
        mean, sample_size = total / images, images
        total, images = np.zeros(means.shape), 0
        worst = int(np.abs(mean).argmax())
        if not abs(mean[worst]) > limit:
            return None
        return Finding(
            f"over {sample_size} images the mean of channel {worst} is {mean[worst]:.6g}, farther "
            f"from zero than {limit:g}: are the images normalised?",
            {"threshold_mean": float(mean[worst])},
        )

    return look


_NAN = float("nan")

register(
    Rule(
        "check_input_images",
        "input images (four or more axes) are not normalised to zero mean",
        per_value(_begin),
        ("inputs",),
        needs=frozenset({"values", "history"}),
        parameters=(
            number("threshold_mean", 0.2, "hit if a channel's mean is farther from zero", low=0),
            count("threshold_samples", 500, "images needed before it is evaluated", low=1),
            count("channel", 1, "channel axis"),
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
