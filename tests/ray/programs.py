"""Ray programs, as a user writes them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import ray


class Unpickled:
    """An argument that arrives as 1, and lists the processes where it did."""

    def __init__(self, path: Path):
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrive, (self._path,)

    def pids(self) -> list[int]:
        return [int(line) for line in self._path.read_text().splitlines()]


def _arrive(path: Path) -> int:
    with path.open("a") as file:
        file.write(f"{os.getpid()}\n")
    return 1


@ray.remote
def task1(a: int, b: int) -> int:
    return a + b


@ray.remote
def task2(a: int, b: int) -> int:
    return a * b


@ray.remote
def total(parts: Any) -> int:
    return sum(ray.get(list(parts["parts"])))


@ray.remote
def outer(n: int) -> int:
    return sum(ray.get([task1.remote(i, i) for i in range(n)]))


@ray.remote
class Counter:
    def __init__(self, start: int) -> None:
        self.n = start

    def add(self, k: int) -> int:
        self.n += k
        return self.n


@ray.remote
class Waiter:
    async def double(self, x: int) -> int:
        return 2 * x


@ray.remote
class Source:
    def numbers(self, n: int) -> Any:
        yield from range(n)

    def bad(self, n: int) -> Any:
        yield n
        raise ValueError(f"bad {n}")


@ray.remote
class AsyncSource:
    async def numbers(self, n: int) -> Any:
        for number in range(n):
            yield number


@ray.remote
def numbers(n: int) -> Any:
    yield from range(n)


@ray.remote(num_returns=2)
def halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x[: len(x) // 2], x[len(x) // 2 :]


@ray.remote(max_retries=0)
def fails(x: int) -> int:
    raise ValueError(f"bad {x}")


@ray.remote(max_retries=2, retry_exceptions=True)
def fails_once(folder: str) -> str:
    from pathlib import Path

    marker = Path(folder) / "marker"
    if not marker.exists():
        marker.touch()
        raise OSError("not yet")
    return "done"


@ray.remote
def slow(x: int, seconds: float) -> int:
    time.sleep(seconds)
    return x


@ray.remote
def large(size: int) -> np.ndarray:
    return np.arange(size, dtype=np.float64)


def founding() -> int:
    """The founding example: 20."""
    answer: int = ray.get(task2.remote(task1.remote(2, 3), 4))
    return answer
