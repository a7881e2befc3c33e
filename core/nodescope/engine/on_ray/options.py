"""Options: a program's settings for its partitions on Ray."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from nodescope.engine.execution.placement import TOLERANCE, worker_of
from nodescope.engine.source import where
from nodescope.errors import UsageError

TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, eq=False)
class RayOptions:
    """Settings of an executor.

    Attributes:
        partitions: Number of partitions, if no node is annotated
            (``nodescope.device("worker:1")``); 2 if None.
        num_cpus: Processors that Ray reserves for each partition. 0 lets any number of partitions
            run on any cluster.
        threads: Threads for matrix products in each partition; as many as in this process if None.
            Another number may change the rounding.
        resources: The Ray resources that each partition needs, by its name (``worker:1``).
        timeout_s: Seconds after which a call that has not ended, or a partition that has not
            started, fails.
        restarts: How often a call is repeated after a worker has died, with the state from before
            the call.
        tolerance: How uneven partitions may be to save bytes, as a fraction of an equal share.
    """

    partitions: int | None = None
    num_cpus: float = 0.0
    threads: int | None = None
    resources: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    timeout_s: float = TIMEOUT_S
    restarts: int = 0
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        """Raises `UsageError` if a setting is invalid."""
        whole = "a whole number, 1 or more"
        wholes: dict[str, Any] = {"partitions": self.partitions, "threads": self.threads}
        for name, count in wholes.items():
            if count is not None and (not _is_whole(count) or count < 1):
                raise _refused(name, count, whole)
        if not _is_number(self.timeout_s) or self.timeout_s <= 0:
            raise _refused("timeout_s", self.timeout_s, "seconds, more than 0")
        if not _is_whole(self.restarts) or self.restarts < 0:
            raise _refused("restarts", self.restarts, "a whole number, 0 or more")
        for name, number in (("num_cpus", self.num_cpus), ("tolerance", self.tolerance)):
            if not _is_number(number) or number < 0:
                raise _refused(name, number, "a number, 0 or more")
        needs: Any = self.resources
        if not isinstance(needs, Mapping) or not all(
            part == worker_of(str(part)) and isinstance(need, Mapping)
            for part, need in needs.items()
        ):
            raise _refused("resources", needs, 'by partition, such as {"worker:1": {"GPU": 1}}')


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _refused(name: str, value: Any, hint: str) -> UsageError:
    return UsageError(f"RayExecutor: {name}={value!r}", source=where(), hint=hint)
