"""Ranks: as launchers set them."""

from __future__ import annotations

import pytest

from nodescope.ranks import Rank, rank_of


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({}, None),
        ({"RANK": "1", "WORLD_SIZE": "4"}, Rank(1, 4)),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}, Rank(0, 2)),
        ({"PMI_RANK": "2", "PMI_SIZE": "3"}, Rank(2, 3)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, None),
        ({"RANK": "4", "WORLD_SIZE": "4"}, None),
        ({"RANK": "-1", "WORLD_SIZE": "4"}, None),
        ({"RANK": "1"}, None),
        ({"RANK": "second", "WORLD_SIZE": "4", "PMI_RANK": "0", "PMI_SIZE": "2"}, Rank(0, 2)),
    ],
)
def test_rank(environment: dict[str, str], rank: Rank | None) -> None:
    assert rank_of(environment) == rank


def test_words() -> None:
    assert Rank(1, 4).words == "rank 1 of 4"
