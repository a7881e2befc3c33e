"""Outside of steps: loops and calls of models execute the same nodes again, with true inputs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import native, nn, optim
from nodescope.emit.emitter import Emitter
from nodescope.engine import dispatch_mode
from nodescope.events import GraphExtended, NodeFinished
from nodescope.ir.identity import LOOPED
from tests.core.engine.events_of import Events, observed

ROUNDS = 3 * LOOPED


def array(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class Block(nn.Module):
    """Two layers, called in a loop of the program."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.layers = [nn.Linear(4, 4, rng=rng, init=nn.glorot) for _ in range(2)]

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = np.tanh(layer(x))
        return x


class Branches(Block):
    def forward(self, x: Any) -> Any:
        y = super().forward(x)
        return {"sum": [y.sum(), x], "parts": (y, y * 2.0)}


class Recurrent(Block):
    """Keeps its state, and goes through more rounds than are unrolled."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self.rounds = rounds
        self.hidden: Any = ns.tensor(np.zeros((2, 4), np.float32))

    def forward(self, x: Any) -> Any:
        for _ in range(self.rounds):
            self.hidden = np.tanh(self.layers[0](x) + self.hidden)
        return self.hidden


def train(model: Any, steps: int = 3) -> None:
    optimizer = optim.SGD(list(model.parameters()), lr=0.1)
    for _ in ns.steps(range(steps)):
        optimizer.zero_grad()
        loss = np.mean(np.square(Block.forward(model, ns.tensor(array(2, 4)))))
        loss.backward()
        optimizer.step()


def defined(events: Events) -> list[tuple[int, str]]:
    """Id and name of each node, in the order of first definition."""
    nodes = [node for event in events.of(GraphExtended) for node in event.nodes]
    return list(dict.fromkeys((node.id, node.name) for node in nodes))


def assert_true_inputs(events: Events) -> None:
    """Check that each execution took what its node's inputs stood for."""
    now: dict[int, Any] = {}
    finished = events.of(NodeFinished)
    for event in finished:
        for value, taken in zip(event.node.inputs, event.inputs, strict=True):
            np.testing.assert_array_equal(now[value], taken, err_msg=event.node.name)
        now.update(zip(event.node.outputs, map(np.copy, event.outputs), strict=True))
    shapes: dict[int, Any] = {}
    for event in events.all:
        if isinstance(event, GraphExtended):
            shapes.update((value.id, value.spec.shape) for value in event.values)
        elif isinstance(event, NodeFinished):
            assert [shapes[value] for value in event.node.outputs] == [
                array.shape for array in event.outputs
            ]
    assert len(finished) > 4


# Programs: each calls a model `ROUNDS` times, and returns results.


def in_a_loop(model: Any) -> Any:
    return [model(ns.tensor(array(2, 4, seed=number))).numpy() for number in range(ROUNDS)]


def with_operations_around(model: Any) -> Any:
    total = 0.0
    for number in range(ROUNDS):
        x = ns.tensor(array(2, 4, seed=number), name="x")
        total += float(np.mean(model(x * 2.0)).numpy())
    return total


def of_its_own_results(model: Any) -> Any:
    x = ns.tensor(array(2, 4))
    for _ in range(ROUNDS):
        x = model(x)
    return x.numpy()


def compared_with_the_result_before(model: Any) -> Any:
    x, moved = ns.tensor(array(2, 4)), 0.0
    for _ in range(ROUNDS):
        before, x = x, model(x)
        moved += float(np.sum(x - before).numpy())
    return moved


def of_growing_sequences(model: Any) -> Any:
    return [model(ns.tensor(array(1 + number % 7, 4))).numpy() for number in range(ROUNDS)]


def with_all_results_kept(model: Any) -> Any:
    kept = [model(ns.tensor(array(2, 4, seed=number))) for number in range(ROUNDS)]
    return (kept[0] + kept[1] * kept[-1]).numpy()


def with_all_arguments_kept(model: Any) -> Any:
    given = [ns.tensor(array(2, 4, seed=number)) for number in range(ROUNDS)]
    for x in given:
        model(x)
    return (given[0] - given[1] + given[-1]).numpy()


def from_a_generator(model: Any) -> Any:
    def results() -> Iterator[Any]:
        for number in range(ROUNDS):
            yield model(ns.tensor(array(2, 4, seed=number))), number

    return [y.numpy() * number for y, number in results()]


def that_raise_now_and_then(model: Any) -> Any:
    done = 0
    for number in range(ROUNDS):
        try:
            model(ns.tensor(array(2, 4 if number % 3 else 5)))
            done += 1
        except ns.NodescopeError:
            pass
    return done


def with_weights_that_change(model: Any) -> Any:
    results = []
    for _ in range(LOOPED + 8):  # each write looks for references to the parameter
        for parameter in model.parameters():
            parameter *= 0.99
        results.append(model(ns.tensor(array(2, 4))).numpy())
    return results


def compared_with_the_argument_before(model: Any) -> Any:
    before, moved = ns.tensor(array(2, 4)), 0.0
    for number in range(ROUNDS):
        x = ns.tensor(array(2, 4, seed=number))
        moved += float(np.sum(model(x) * model(x - before)).numpy())
        before = x
    return moved


def whose_values_are_written_to(model: Any) -> Any:
    x, results = ns.tensor(array(2, 4)), []
    for number in range(LOOPED + 8):
        y = model(x)
        y += 1.0
        x[0] = float(number)
        results.append(y.numpy())
    return results


def of_data_in_a_list(model: Any) -> Any:
    data = [ns.tensor(array(2, 4, seed=number)) for number in range(ROUNDS // 2)]
    return [model(x).numpy() for _ in range(2) for x in data]


def of_several_models(model: Any) -> Any:
    models = [model, Block(), Block()]
    totals = []
    for number in range(ROUNDS // 3):
        x = ns.tensor(array(2, 4, seed=number))
        one, *others = [block(x) for block in models]
        totals.append(np.sum(one - others[0] * others[1]).numpy())
    return totals


def from_two_lines(model: Any) -> Any:
    def evaluate() -> list[Any]:
        return [np.mean(model(ns.tensor(array(2, 4)))).numpy() for _ in range(ROUNDS // 2)]

    return evaluate(), evaluate()


def whose_results_refer_to_themselves(model: Any) -> Any:
    class Cyclic(Block):
        def forward(self, x: Any) -> Any:
            results: list[Any] = [model(x)]
            return [*results, results, results.append(results)]

    cyclic = Cyclic()
    return [cyclic(ns.tensor(array(2, 4)))[0].numpy() for _ in range(ROUNDS)]


PROGRAMS = [
    in_a_loop, with_operations_around, of_its_own_results, compared_with_the_result_before,
    of_growing_sequences, with_all_results_kept, with_all_arguments_kept, from_a_generator,
    that_raise_now_and_then, with_weights_that_change, compared_with_the_argument_before,
    whose_values_are_written_to, of_data_in_a_list, of_several_models, from_two_lines,
    whose_results_refer_to_themselves,
]  # fmt: skip


@pytest.fixture(params=["in the core", "in Python"])
def road(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where operations are observed."""
    if request.param == "in Python":
        monkeypatch.setattr(native, "Calls", None)
    else:
        assert native.Calls is not None


@pytest.mark.usefixtures("road")
@pytest.mark.parametrize("after_steps", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_calls_of_a_model_have_few_nodes_with_true_inputs(
    program: Callable[[Any], Any], after_steps: bool
) -> None:
    def run() -> Any:
        model = Block()
        if after_steps:
            train(model)
        with ns.no_grad(), ns.name_scope("evaluation"):
            return program(model)

    free = run()
    with observed() as events:
        seen = run()
    np.testing.assert_equal(seen, free)
    assert_true_inputs(events)
    assert len([name for _, name in defined(events) if name.startswith("evaluation")]) < 40


@pytest.mark.usefixtures("road")
@pytest.mark.parametrize("tape", [False, True])
def test_training_keeps_its_nodes_whatever_runs_between_its_epochs(tape: bool) -> None:
    model, other = Block(), Block()
    with observed() as events:
        many = []
        for epoch in range(6):
            before = len(events.all)
            train(model)
            for event in events.all[before:]:
                assert epoch < 2 or not (isinstance(event, GraphExtended) and event.nodes)
            with contextlib.nullcontext() if tape else ns.no_grad():
                for number in range(4):
                    np.mean(model(ns.tensor(array(2, 4, seed=number))))
                    np.mean(other(ns.tensor(array(2, 4, seed=number))) * 2.0)
            many.append(len(defined(events)))
    assert_true_inputs(events)
    assert many[2:] == many[2:3] * 4


def made_in_a_comprehension() -> list[Any]:
    return [ns.tensor(array(2, 4, seed=number)) for number in range(7)]


def computed_in_a_loop() -> list[Any]:
    return [np.tanh(x) * 2.0 for x in made_in_a_comprehension()]


def returned_by_a_model() -> list[Any]:
    model = Block()
    with ns.no_grad():
        return [model(x) for x in made_in_a_comprehension()]


def in_several_results() -> list[Any]:
    model = Branches()
    with ns.no_grad():
        return [model(x)["parts"][1] for x in made_in_a_comprehension()]


@pytest.mark.usefixtures("road")
@pytest.mark.parametrize("after_steps", [False, True])
@pytest.mark.parametrize(
    "batches",
    [made_in_a_comprehension, computed_in_a_loop, returned_by_a_model, in_several_results],
)
def test_steps_take_what_loops_outside_have_made(
    batches: Callable[[], list[Any]], after_steps: bool
) -> None:
    with observed() as events:
        if after_steps:
            train(Block())
        made = batches()
        changes = []
        for _ in range(4):
            for x in ns.steps(made):
                np.sum(np.sin(x) * x)
            changes.append(sum(len(event.nodes) for event in events.of(GraphExtended)))
    assert_true_inputs(events)
    # In each epoch, nodes take the latest result itself once, and leaves otherwise.
    assert changes[-1] - changes[-2] <= (0 if batches is made_in_a_comprehension else 6)


def test_a_loop_in_a_model_is_unrolled_in_one_call_at_most() -> None:
    for rounds, most in ((5, 40), (4 * LOOPED, 6 * LOOPED)):
        model = Recurrent(rounds)
        with observed() as events, ns.no_grad():
            for number in range(8):
                model(ns.tensor(array(2, 4, seed=number)))
        assert_true_inputs(events)
        assert len(defined(events)) < most


def test_calls_from_other_lines_and_of_other_models_have_other_nodes() -> None:
    one, other = Block(), Block()
    with observed() as events, ns.no_grad():
        for number in range(5):
            x = ns.tensor(array(2, 4, seed=number))
            for model in (one, other):
                model(x)
            one(x)
    assert_true_inputs(events)
    names = [name for _, name in defined(events)]
    assert sum(name.rpartition("/")[2].startswith("matmul") for name in names) == 6


def test_steps_that_begin_in_a_call_go_on_after_it() -> None:
    class Trainer(Block):
        def forward(self, x: Any) -> Any:
            for _ in ns.steps(range(3)):
                x = super().forward(x)
            return x

    model = Trainer()
    with observed() as events, ns.no_grad():
        for _ in range(3):
            model(ns.tensor(array(2, 4)))
    assert_true_inputs(events)
    assert len(defined(events)) < 40
    assert [event.step for event in events.of(NodeFinished)][-1] == 9


def test_threads_have_nodes_of_their_own() -> None:
    model = Block()

    def evaluate() -> None:
        with ns.no_grad():
            for number in range(20):
                model(ns.tensor(array(2, 4, seed=number)))

    with observed() as events:
        evaluate()
        threads = [threading.Thread(target=evaluate) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        evaluate()
    assert len(events.of(NodeFinished)) > 4 * 20 * 6
    by_thread: dict[int, set[int]] = {}
    for event in events.of(NodeFinished):
        if event.node.op == "matmul":
            by_thread.setdefault(event.thread, set()).add(event.node.id)
    assert len(by_thread) > 1
    assert all(len(nodes) <= 3 * LOOPED for nodes in by_thread.values())


@pytest.mark.parametrize("within", [False, True])
def test_a_compiled_function_has_few_nodes_after_steps(within: bool) -> None:
    doubled = ns.compile(lambda x: np.tanh(x) * 2.0)

    class Model(nn.Module):
        def forward(self, x: Any) -> Any:
            return doubled(x)

    model = Model()
    with observed() as events, ns.no_grad():
        for _ in ns.steps(range(3)):
            doubled(ns.tensor(array(2, 4)))
        for number in range(ROUNDS):
            (model if within else doubled)(ns.tensor(array(2, 4, seed=number)))
    assert_true_inputs(events)
    assert len([name for _, name in defined(events) if "tanh" in name]) == 2


def test_what_a_tape_holds_keeps_its_nodes_when_a_model_returns_it() -> None:
    class Same(nn.Module):
        def forward(self, x: Any) -> Any:
            return x

    same, w = Same(), ns.parameter(array(4, 4), name="w")
    with observed() as events:
        hidden = []
        for number in range(3):
            hidden.append(np.tanh(ns.tensor(array(2, 4, seed=number)) @ w))
            with ns.no_grad():
                same(hidden[-1])
        np.sum(hidden[0] * hidden[1] * hidden[2]).backward()
    assert_true_inputs(events)
    assert [name for _, name in defined(events) if name.startswith("tanh")] == [
        "tanh", "tanh_1", "tanh_2",
    ]  # fmt: skip


@pytest.mark.parametrize("after_steps", [False, True])
def test_results_of_compiled_functions_are_told_apart(after_steps: bool) -> None:
    doubled = ns.compile(lambda x: np.tanh(x) * 2.0)
    with observed() as events:
        if after_steps:
            train(Block())
        results = [doubled(ns.tensor(array(2, 4, seed=number))) for number in range(3)]
        np.sum(results[0] - results[1] * results[2])
    assert_true_inputs(events)


def test_results_that_a_compiled_function_makes_or_passes_on() -> None:
    made = ns.compile(lambda x: (x * 2.0, ns.tensor([1.0, 2.0]), x))
    with observed() as events:
        for number in range(4):
            first, second, same = made(ns.tensor(array(2, seed=number)))
            np.sum(first * second + same)
    assert_true_inputs(events)


@pytest.mark.usefixtures("road")
def test_a_step_reads_each_leaf_once() -> None:
    with observed() as events:
        kept = [np.tanh(ns.tensor(array(2, 4)))]
        kept += [np.tanh(ns.tensor(array(2, 4, seed=number))) for number in range(1, 4)]
        before = len(events.all)
        for _ in ns.steps(range(4)):
            kept[1] + kept[2]
    assert_true_inputs(events)
    ran = [event for event in events.all[before:] if isinstance(event, NodeFinished)]
    assert [event.node.op for event in ran] == ["tensor", "tensor", "add"] * 4
    assert len({event.node.id for event in ran}) == 3


@pytest.mark.usefixtures("road")
@pytest.mark.parametrize("left_out", [(2, 4, 6, 8), (1, 4), (4, 8), ()])
def test_steps_that_run_unobserved_lose_no_leaf(left_out: tuple[int, ...]) -> None:
    with observed() as events:
        events.bus.leaves_out = lambda step, _: int(step in left_out)
        kept = [np.tanh(ns.tensor(array(2, 4, seed=number))) for number in range(4)]
        for _ in range(2):
            for x in ns.steps(kept):
                np.sum(np.sin(x) * x)
            np.sum(kept[0] * kept[3])
    assert_true_inputs(events)


def test_what_is_read_anew_outside_of_steps_is_not_remembered() -> None:
    with observed(), ns.no_grad():
        model, kept = Block(), [ns.tensor(array(2, 4))] * 3
        tracer = dispatch_mode.attending()
        many = []
        for number in range(2 * ROUNDS):
            kept = [np.tanh(kept[0] * 0.5) + kept[2], *kept[:2]]
            model(kept[1])
            if number >= ROUNDS:
                many.append(len(tracer.used))
    assert len(set(many)) == 1


def test_a_compiled_function_in_a_loop_in_a_model_has_few_nodes() -> None:
    doubled = ns.compile(lambda x: np.tanh(x) * 2.0)

    class Model(nn.Module):
        def forward(self, x: Any) -> Any:
            for _ in range(ROUNDS):
                x = doubled(x)
            return x

    model = Model()
    with observed() as events, ns.no_grad():
        for number in range(3):
            model(ns.tensor(array(2, 4, seed=number)))
    assert_true_inputs(events)
    assert len(defined(events)) < 5 * LOOPED


def test_an_interrupted_call_leaves_the_counts_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = Block()
    begin = Emitter.begin_call

    def interrupted(self: Emitter, *, varied: bool) -> Any:
        begin(self, varied=varied)
        raise KeyboardInterrupt

    def evaluate() -> None:
        for number in range(4):
            model(ns.tensor(array(2, 4, seed=number)))

    with observed() as events, ns.no_grad():
        evaluate()
        monkeypatch.setattr(Emitter, "begin_call", interrupted)
        with pytest.raises(KeyboardInterrupt):
            evaluate()
        monkeypatch.setattr(Emitter, "begin_call", begin)
        evaluate()
        many = len(defined(events))
        evaluate()
        tracer = dispatch_mode.attending()
        assert tracer.emitter.outside is None
        assert not tracer.emitter.marked
    assert_true_inputs(events)
    assert len(defined(events)) - many < 8  # the nodes of another line
