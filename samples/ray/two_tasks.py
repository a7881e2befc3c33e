"""Two tasks; the second needs the first's result.

nodescope run samples/ray/two_tasks.py
"""

import ray


@ray.remote
def task1(a, b):
    return a + b


@ray.remote
def task2(a, b):
    return a * b


def main() -> None:
    ray.init(address="local", num_cpus=2, include_dashboard=False)
    result = ray.get(task2.remote(task1.remote(2, 3), 4))
    print("result:", result)
    ray.shutdown()


if __name__ == "__main__":
    main()
