"""A program whose processes are killed by tests: a chain of short tasks on its own cluster.

Prints its processes and each result. Run as ``chain_program.py ROUNDS RETRIES``.
"""

from __future__ import annotations

import os
import sys
import time

import ray


@ray.remote
def link(x: int, seconds: float) -> int:
    time.sleep(seconds)
    return x + 1


@ray.remote
def where() -> int:
    return os.getpid()


@ray.remote
class Sum:
    def __init__(self) -> None:
        self.total = 0

    def add(self, x: int) -> int:
        self.total += x
        return self.total


def main() -> None:
    rounds, retries = int(sys.argv[1]), int(sys.argv[2])
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    total = Sum.remote()
    print("worker", ray.get(where.remote()), flush=True)
    raylet = ray._private.worker._global_node.all_processes["raylet"][0].process.pid
    print("raylet", raylet, flush=True)
    print("driver", os.getpid(), flush=True)
    x = 0
    for _ in range(rounds):
        ref = link.options(max_retries=retries).remote(x, 0.05)
        total.add.remote(ref)
        x = ray.get(ref)
        print("reached", x, flush=True)
    print("total", ray.get(total.add.remote(0)), flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main()
