"""The executor ``ray``: its settings, and how a graph gets there."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from nodescope.engine.execution.elsewhere import RemoteRunner, with_devices
from nodescope.engine.execution.placement import placed
from nodescope.engine.execution.segments import segments_of
from nodescope.engine.on_ray.options import RayOptions
from nodescope.engine.on_ray.pool import Pool, ray_module
from nodescope.engine.on_ray.runner import RayRunner
from nodescope.passes.pipeline import Lowered


@dataclass(frozen=True, eq=False)
class RayExecutor(RayOptions):
    """Runs compiled graphs in partitions, as actors on Ray: ``compile(executor=RayExecutor(...))``.

    Ray is started as by ``ray.init()`` if the program has not done so. The settings are those of
    `RayOptions`.
    """

    @functools.cached_property
    def pool(self) -> Pool:
        """Its actors."""
        return Pool(self)

    def build(self, lowered: Lowered, backend: str, name: str) -> tuple[Lowered, RemoteRunner]:
        """See `Executor.build`.

        Raises:
            UsageError: Ray is not installed.
        """
        ray_module()
        placement = placed(lowered.graph, self.partitions or 2, self.tolerance)
        devices = {node: f"{placement.parts[part]}/cpu:0"
                   for node, part in placement.part_of.items()}  # fmt: skip
        lowered = with_devices(lowered, devices)
        segments = segments_of(lowered.graph, lowered.arrays, placement)
        return lowered, RayRunner(self, self.pool, lowered, placement, segments, backend, name)
