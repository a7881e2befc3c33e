"""What a program says about its partitions on Ray."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from nodescope.engine.execution.placement import TOLERANCE
from nodescope.engine.source import where
from nodescope.errors import UsageError

TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, eq=False)
class RayOptions:
    """Settings of an executor.

    Attributes:
        partitions: Their number, where no node is annotated (``nodescope.device("worker:1")``);
            2 if None.
        num_cpus: The processors that Ray counts for each. 0 lets any number of partitions run
            on any cluster.
        threads: The threads of each partition's matrix products; as many as here if None. Another
            number may round otherwise.
        resources: By partition (``worker:1``), the resources that it needs.
        timeout_s: After how many seconds a call fails that has not ended, or a partition that has
            not started.
        restarts: How often a call is run again after a worker has died. Its state is then that
            before the call.
        tolerance: How uneven partitions may be to save bytes, as a share of a partition.
    """

    partitions: int | None = None
    num_cpus: float = 0.0
    threads: int | None = None
    resources: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    timeout_s: float = TIMEOUT_S
    restarts: int = 0
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        count: Any = self.partitions
        if count is not None and (not isinstance(count, int) or count < 1):
            raise UsageError(f"RayExecutor: {count!r} is not a number of partitions",
                             source=where(), hint="1 or more")  # fmt: skip
        if self.timeout_s <= 0 or self.restarts < 0:
            raise UsageError("RayExecutor: timeout_s and restarts are not negative", source=where())
