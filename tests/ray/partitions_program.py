"""A program whose processes tests kill: a compiled function in two partitions, on its own cluster.

Prints its processes and each result. Run as ``partitions_program.py ROUNDS``.
"""

from __future__ import annotations

import os
import sys

import numpy as np
import ray

import nodescope as ns

EXECUTOR = ns.RayExecutor(partitions=2, threads=1)


@ns.compile(executor=EXECUTOR, passes="none")
def function(x: ns.Tensor, w: ns.Tensor) -> ns.Tensor:
    y = x
    for _ in range(6):
        y = np.tanh(y @ w)
    return y.sum()


def main() -> None:
    rounds = int(sys.argv[1])
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    raylet = ray._private.worker._global_node.all_processes["raylet"][0].process.pid
    print("raylet", raylet, flush=True)
    print("worker", EXECUTOR.pool.member("worker:1").pid, flush=True)
    print("driver", os.getpid(), flush=True)
    w = ns.tensor(np.random.default_rng(0).standard_normal((300, 300)).astype(np.float32) / 20)
    for number in ns.steps(range(rounds)):
        print("result", float(function(ns.tensor(w.numpy()), w).numpy()), flush=True)
        print("reached", number + 1, flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main()
