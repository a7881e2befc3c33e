"""Ranks: the rank of this process among the processes that run one program together.

Invariant: pure; invalid variables are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

_LAUNCHERS: Final = (
    ("RANK", "WORLD_SIZE"),  # torchrun
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),  # MPICH
)


class Rank(NamedTuple):
    """This process among ``size`` of one program, counted from 0."""

    number: int
    size: int

    @property
    def words(self) -> str:
        """Such as ``rank 1 of 4``."""
        return f"rank {self.number} of {self.size}"


def rank_of(environment: Mapping[str, str]) -> Rank | None:
    """The rank that a launcher has set; None for a process that runs alone."""
    for number, size in _LAUNCHERS:
        try:
            rank = Rank(int(environment[number]), int(environment[size]))
        except (KeyError, ValueError):
            continue
        if rank.size > 1 and 0 <= rank.number < rank.size:
            return rank
    return None
