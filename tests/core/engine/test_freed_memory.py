"""Freed memory: large arrays reuse it, unless the user has set the C library otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from nodescope.engine import freed_memory

PROGRAM = """
import resource
import numpy as np
import nodescope as ns

def step():
    x = ns.tensor(np.ones(500_000, np.float32))
    for _ in range(4):
        x = x * 2 + x

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

for _ in range(5):
    step()
before = faults()
for _ in range(20):
    step()
print(faults() - before)
"""


@pytest.mark.parametrize(
    "environment",
    [{"MALLOC_TRIM_THRESHOLD_": "1"}, {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=1"}],
)
def test_the_users_setting_takes_precedence(environment: dict[str, str]) -> None:
    assert not freed_memory.keep(environment)


def test_a_step_touches_the_memory_of_the_step_before() -> None:
    assert freed_memory.keep({})
    assert _faults({}) < 200
    assert _faults({"MALLOC_MMAP_THRESHOLD_": "65536"}) > 20_000


def _faults(environment: dict[str, str]) -> int:
    """How often 20 steps touched a page that was not mapped."""
    command = [sys.executable, "-c", PROGRAM]
    own = {
        name: value for name, value in os.environ.items()
        if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))
    }  # fmt: skip
    return int(subprocess.check_output(command, env={**own, **environment}, text=True))
