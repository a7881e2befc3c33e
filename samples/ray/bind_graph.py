"""The two tasks of two_tasks.py as a graph that is bound first, and as a compiled graph.

    nodescope run samples/ray/bind_graph.py [--form bound|submitted|compiled|called]

`bound` binds both tasks and executes the graph; `submitted` submits them one by one. `compiled`
binds methods of two actors and compiles the graph, so values pass between the actors without Ray
tasks; `called` submits these methods one by one. Recordings of two forms can be compared, such as
the bound graph with the program that submits its tasks itself:

    nodescope compare bound.nscope submitted.nscope
"""

import argparse

import ray
from ray.dag import InputNode


@ray.remote
def task1(a, b):
    return a + b


@ray.remote
def task2(a, b):
    return a * b


@ray.remote
class Adder:
    def add(self, a, b):
        return a + b


@ray.remote
class Multiplier:
    def multiply(self, a, b):
        return a * b


def bound(a):
    with InputNode() as given:
        graph = task2.bind(task1.bind(given, 3), 4)
    return ray.get(graph.execute(a))


def submitted(a):
    return ray.get(task2.remote(task1.remote(a, 3), 4))


def compiled(a):
    adder, multiplier = Adder.remote(), Multiplier.remote()
    with InputNode() as given:
        graph = multiplier.multiply.bind(adder.add.bind(given, 3), 4)
    channels = graph.experimental_compile()
    result = ray.get(channels.execute(a))
    channels.teardown()
    return result


def called(a):
    adder, multiplier = Adder.remote(), Multiplier.remote()
    return ray.get(multiplier.multiply.remote(adder.add.remote(a, 3), 4))


FORMS = {form.__name__: form for form in (bound, submitted, compiled, called)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--form", choices=FORMS, default="bound")
    parser.add_argument("--given", type=int, default=2, help="the first number")
    options = parser.parse_args()
    ray.init(address="local", num_cpus=2, include_dashboard=False)
    print("result:", FORMS[options.form](options.given))
    ray.shutdown()


if __name__ == "__main__":
    main()
