"""Labels and predictions of a classifier, read from the inputs of its loss."""

from __future__ import annotations

import numpy as np

from nodescope.debug.watch.observation import MissingData, Sight
from nodescope.events import Array

LOSSES = frozenset({"cross_entropy", "nll_loss"})


def labelled(sight: Sight, *, argmax: bool) -> tuple[Array, Array, int] | None:
    """Labels, predicted classes and the number of classes; None if the node has no such inputs.

    The node's first input contains scores, with classes along axis 1, or predicted classes; the
    second contains the labels. With ``argmax``, both are scores. Labels that the loss ignores are
    left out. Raises `MissingData`.
    """
    inputs = sight.inputs
    if len(inputs) < 2:
        raise MissingData("the node has no second input with labels")
    scores, labels = inputs[0].array, inputs[1].array
    if scores.dtype.kind == "c" or not scores.size or not labels.size:
        return None
    if labels.dtype.kind == "f" and labels.shape == scores.shape and not argmax:
        raise MissingData("the labels are scores per class; set argmax=true")
    classes = 0
    if scores.ndim == labels.ndim + 1 or (argmax and scores.ndim >= 2):
        axis = min(1, scores.ndim - 1)
        classes = scores.shape[axis]
        if labels.shape == scores.shape:
            labels = np.argmax(labels, axis=axis)
        predicted = np.argmax(scores, axis=axis)
    else:
        predicted = scores
    if predicted.shape != labels.shape or labels.dtype.kind not in "iub":
        return None
    if predicted.dtype.kind not in "iub":
        return None
    labels, predicted = labels.reshape(-1).astype(np.int64), predicted.reshape(-1).astype(np.int64)
    # Negative labels mark elements that the loss ignores.
    valid = (labels >= 0) & (predicted >= 0)
    ignored = sight.attrs.get("ignore_index")
    if isinstance(ignored, int):
        valid &= labels != ignored
    labels, predicted = labels[valid], predicted[valid]
    if not labels.size:
        return None
    classes = max(classes, int(labels.max()) + 1, int(predicted.max()) + 1)
    if classes > 65_536:
        raise MissingData(f"{classes} classes are too many")
    return labels, predicted, classes
