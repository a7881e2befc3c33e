"""The executor ``ray``: its settings, and how it prepares a graph."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from nodescope.engine.execution.elsewhere import RemoteRunner, with_devices
from nodescope.engine.execution.placement import placed, worker_of
from nodescope.engine.execution.segments import segments_of
from nodescope.engine.on_ray.options import RayOptions
from nodescope.engine.on_ray.pool import Pool, ray_module
from nodescope.engine.on_ray.runner import RayRunner
from nodescope.errors import UsageError
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
            UsageError: Ray is not installed, or a node is annotated with a device that is not a
                worker.
        """
        ray_module()
        for node in lowered.graph.nodes:
            if node.device and not worker_of(node.device) and not node.device.startswith("cpu"):
                raise UsageError(
                    f"{name}: device {node.device!r} is no worker of Ray's",
                    source=str(node.source or ""), hint="such as 'worker:1'",
                )  # fmt: skip
        placement = placed(lowered.graph, self.partitions or 2, self.tolerance)
        devices = {node: f"{placement.parts[part]}/cpu:0"
                   for node, part in placement.part_of.items()}  # fmt: skip
        lowered = with_devices(lowered, devices)
        segments = segments_of(lowered.graph, lowered.arrays, placement)
        return lowered, RayRunner(self, self.pool, lowered, placement, segments, backend, name)
