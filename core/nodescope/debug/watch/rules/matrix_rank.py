"""The rank of a matrix: weights without full rank."""

from __future__ import annotations

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import MissingData, Sight, numbers
from nodescope.debug.watch.rule import Example, Finding, Rule, Settings, count, percent, plain


def _look(sight: Sight, settings: Settings) -> Finding | None:
    summary, shape = sight.summary, sight.spec.shape
    if len(shape) < 2 or not sight.size or summary.nan_count or summary.inf_count:
        return None
    if sight.size > settings["max_elements"]:
        raise MissingData(f"the matrix has more than {settings['max_elements']} elements")
    array = sight.array
    # The kernels of a convolution are the rows of its matrix.
    matrix = numbers(array).reshape(shape[0], -1)
    full = min(matrix.shape)
    values = np.linalg.svd(matrix, compute_uv=False)
    eps = np.finfo(array.dtype if array.dtype.kind in "fc" else np.float64).eps
    rank = int(np.count_nonzero(values > values.max() * max(matrix.shape) * float(eps)))
    share, limit = 100 * rank / full, settings["rank_percentage_lt"]
    if share >= limit:
        return None
    return Finding(
        f"its rank is {rank} of {full} ({share:.6g}%, below {limit:g}%)",
        {"rank_percentage_lt": share, "rank": rank},
    )


register(
    Rule(
        "matrix_rank",
        "a weight with two or more axes is rank-deficient: its numerical rank is below full rank",
        plain(_look),
        ("weights",),
        needs=frozenset({"summary", "values"}),
        parameters=(
            percent("rank_percentage_lt", 100, "hit if the rank is a smaller share of full rank"),
            count(
                "max_elements", 1 << 18, "larger matrices are skipped because of their cost", low=1
            ),
        ),
        examples=(
            Example([[[1.0, 2.0], [2.0, 4.0]], [[1.0, 2.0], [2.0, 5.0]], [[0.0]], [[]]], (1, 3)),
            Example([[[1.0, 1.0]], [1.0, 1.0], [[float("nan"), 0.0], [0.0, 0.0]]], ()),
            Example(
                [[[1, 0], [0, 0]]], (), {"rank_percentage_lt": 50}, about="exactly at the limit"
            ),
        ),
    )
)
