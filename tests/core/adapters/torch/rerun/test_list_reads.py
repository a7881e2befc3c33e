"""Reads of operators on lists of tensors, and of index tensors, without PyTorch."""

from __future__ import annotations

import numpy as np

from nodescope.adapters.torch.rerun.list_reads import list_reads
from nodescope.adapters.torch.rerun.selectors import selecting
from nodescope.ops.reading import ElementDependence


def told(dependence: ElementDependence | None) -> list[tuple[int, list[int]]]:
    assert dependence is not None
    return [(read.port, read.at.tolist()) for read in dependence.reads]


def test_the_tensors_of_the_same_number() -> None:
    inputs = [np.zeros((2, 2)), np.zeros(3), np.zeros((2, 2)), np.zeros(3)]
    reads = list_reads(
        "_foreach_add", {"self": 2, "other": 2, "alpha": 2}, ((0, 0), (1, 1)), inputs, (3,), 1, 2
    )
    assert told(reads) == [(1, [2]), (3, [2])]


def test_steps_are_single_numbers() -> None:
    inputs = [np.zeros(3), np.zeros(3), np.zeros(())]
    attrs = {"self": 1, "grads": 1, "max_exp_avg_sqs": 0, "state_steps": 1}
    reads = list_reads("_fused_adam", attrs, ((0, 0),), inputs, (3,), 0, 1)
    assert told(reads) == [(0, [1]), (1, [1]), (2, [0])]
    assert reads is not None
    assert not reads.exact


def test_a_norm_is_of_all_elements_of_its_tensor() -> None:
    reads = list_reads("_foreach_norm", {"self": 2}, (), [np.zeros(3), np.zeros(2)], (), 1, 0)
    assert told(reads) == [(1, [0, 1])]


def test_index_tensors_that_are_broadcast() -> None:
    rows, columns = np.array([[0], [2]]), np.array([1, 3, 0])
    inputs = [np.zeros((3, 4)), rows, columns]
    reads, exact = selecting("index", {"indices": 2}, inputs, (1, 2), (2, 3), 5, None)
    assert [(read.port, read.at.tolist()) for read in reads] == [(1, [1]), (2, [2])]
    assert exact


def test_an_index_tensor_behind_a_whole_axis() -> None:
    inputs = [np.zeros((3, 4)), np.array([1, 3])]
    reads, _ = selecting("index", {"indices": (False, True)}, inputs, (1,), (3, 2), 5, None)
    assert [read.at.tolist() for read in reads] == [[1]]
