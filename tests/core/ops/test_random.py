"""Random draws: repetition, independence, distributions, errors."""

from __future__ import annotations

import copy
import hashlib
import subprocess
import sys
import threading

import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import (
    DomainError,
    DtypeError,
    GradientError,
    NodescopeError,
    ShapeError,
    UsageError,
)

N = 40_000

PROGRAM = """
import hashlib, numpy as np, nodescope as ns
k = ns.random.key(3)
a, b, c = ns.random.split(ns.random.fold_in(k, 5), 3)
g = ns.random.Generator(9)
parts = [ns.random.normal(a, (5,)), ns.random.integers(b, 0, 99, (5,)),
         ns.random.categorical(c, np.zeros(4), shape=(6,)), g.normal(size=3), g.permutation(7)]
print(hashlib.sha256(b"".join(p.numpy().tobytes() for p in parts)).hexdigest())
"""


def mean_is(x: ns.Tensor, expected: float, spread: float) -> None:
    """Within five standard errors."""
    assert float(np.mean(x.numpy())) == pytest.approx(expected, abs=5 * spread / np.sqrt(x.size))


def test_the_same_key_gives_the_same_numbers_in_every_process_and_thread() -> None:
    results = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert len(results) == 1
    key = ns.random.key(4)
    want = ns.random.normal(key, (100,)).numpy().tobytes()
    seen: list[bytes] = []

    def draw() -> None:
        for other in range(20):
            ns.random.uniform(ns.random.key(other), (3,))
            seen.append(ns.random.normal(key, (100,)).numpy().tobytes())

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {want}
    assert len(seen) == 80


def test_a_draw_is_philox_of_its_key() -> None:
    """The stream is NumPy's own, so its published quality holds for ours."""
    key = ns.random.key(11)
    numpy = np.random.Generator(np.random.Philox(key=key.numpy()))
    assert np.array_equal(ns.random.normal(key, (9,)).numpy(), numpy.standard_normal(9))


def test_keys_and_draws_share_nothing() -> None:
    key = ns.random.key(0)
    words = [key.numpy().tobytes()]
    words += [part.numpy().tobytes() for part in ns.random.split(key, 50)]
    words += [ns.random.fold_in(key, i).numpy().tobytes() for i in range(50)]
    words += [ns.random.key(i).numpy().tobytes() for i in range(1, 50)]
    words.append(ns.random.integers(key, 0, 2**64, (2,), np.uint64).numpy().tobytes())
    assert len(set(words)) == len(words)
    children = [ns.random.normal(part, (N // 20,)).numpy() for part in ns.random.split(key, 20)]
    correlation = np.corrcoef([*children, ns.random.normal(key, (N // 20,)).numpy()])
    assert np.abs(correlation - np.eye(21)).max() < 5 / np.sqrt(N // 20)


def test_splitting_unpacks_and_folding_takes_tensors() -> None:
    first, two = ns.random.split(ns.random.key(1))
    assert first.shape == two.shape == (2,)
    assert first.dtype == np.uint64
    folded = ns.random.fold_in(first, ns.tensor(7))
    assert np.array_equal(folded.numpy(), ns.random.fold_in(first, 7).numpy())
    assert not np.array_equal(folded.numpy(), ns.random.fold_in(first, -7).numpy())


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_continuous_draws_have_their_moments(dtype: str) -> None:
    key = ns.random.key(17)
    draws = ns.random
    u = draws.uniform(key, (N,), dtype)
    assert u.dtype == dtype
    assert 0 <= u.numpy().min() < u.numpy().max() < 1
    mean_is(u.astype("float64"), 0.5, 12**-0.5)
    z = draws.normal(key, (N,), dtype).astype("float64")
    mean_is(z, 0, 1)
    mean_is(z * z, 1, 2**0.5)
    e = draws.exponential(key, (N,), dtype).astype("float64")
    mean_is(e, 1, 1)
    g = draws.gumbel(key, (N,), dtype).astype("float64")
    mean_is(g, np.euler_gamma, np.pi / 6**0.5)
    a = draws.gamma(key, 2.5, (N,), dtype).astype("float64")
    mean_is(a, 2.5, 2.5**0.5)


@pytest.mark.parametrize(
    ("low", "high"), [(-2, 2), (-0.1, 0.2), (1, 9), (4, 5), (8, np.inf), (-np.inf, -3), (-1, 30)]
)
def test_truncated_normal_stays_inside_and_has_its_mean(low: float, high: float) -> None:
    x = ns.random.truncated_normal(ns.random.key(8), low, high, (N,)).numpy()
    assert low <= x.min() <= x.max() <= high
    grid = np.linspace(max(low, -40), min(high, 40), 400_001)
    weight = np.exp(-0.5 * (grid**2 - np.min(grid**2)))
    mean = np.sum(grid * weight) / np.sum(weight)
    assert x.mean() == pytest.approx(mean, abs=5 * x.std() / np.sqrt(N))


def test_discrete_draws_have_their_frequencies() -> None:
    key = ns.random.key(2)
    p = np.array([0.1, 0.0, 0.6, 0.3])
    with np.errstate(divide="ignore"):
        logits = np.log(p) + 3
    several = ns.random.categorical(key, np.tile(logits[:, None], 2), 0, (N, 2)).numpy()
    for result in (
        ns.random.categorical(key, logits, shape=(N,)).numpy(),
        several[:, 0],
        several[:, 1],
        ns.random.choice(key, 4, N, p=p).numpy(),
    ):
        share = np.bincount(result, minlength=4) / N
        assert np.abs(share - p).max() < 5 * 0.5 / np.sqrt(N)
        assert share[1] == 0
    dice = ns.random.integers(key, 1, 6, (N,), endpoint=True).numpy()
    assert np.abs(np.bincount(dice, minlength=7)[1:] / N - 1 / 6).max() < 5 * 0.4 / np.sqrt(N)
    coins = ns.random.bernoulli(key, ns.tensor([0.0, 0.2, 1.0]), (N, 3)).numpy()
    assert coins.dtype == bool
    assert not coins[:, 0].any()
    assert coins[:, 2].all()
    assert coins[:, 1].mean() == pytest.approx(0.2, abs=5 * 0.4 / np.sqrt(N))


def test_permutations_and_choices_take_slices() -> None:
    key = ns.random.key(6)
    order = ns.random.permutation(key, 100).numpy()
    assert sorted(order) == list(range(100))
    assert not np.array_equal(order, np.arange(100))
    x = ns.parameter(np.arange(12.0).reshape(3, 4), name="x")
    mixed = ns.random.permutation(key, x, axis=1)
    assert np.array_equal(np.sort(mixed.numpy(), axis=1), x.numpy())
    few = ns.random.choice(key, x, 3, replace=False, axis=1)
    assert few.shape == (3, 3)
    assert len(set(few.numpy()[0])) == 3
    np.sum(few).backward()
    assert sorted(x.grad.numpy()[0]) == [0, 1, 1, 1]
    assert ns.random.choice(key, ns.tensor([5.0, 6.0])).numpy() in (5.0, 6.0)
    again = ns.random.choice(key, 3, 3, replace=False, p=[0.5, 0.25, 0.25]).numpy()
    assert sorted(again) == [0, 1, 2]


def test_location_and_scale_have_gradients() -> None:
    mean, std = ns.parameter(0.5, name="mean"), ns.parameter(2.0, name="std")
    key = ns.random.key(5)
    z = ns.random.normal(key, (8,)).numpy()
    np.sum(ns.random.normal(key, (8,), mean=mean, std=std)).backward()
    assert mean.grad.item() == 8
    assert std.grad.item() == pytest.approx(z.sum())
    assert not ns.random.normal(key, (8,)).requires_grad


def test_what_has_no_rule_is_refused() -> None:
    alpha = ns.parameter(2.0, name="alpha")
    drawn = ns.random.gamma(ns.random.key(0), alpha, (3,))
    with pytest.raises(GradientError, match=r"no gradient.*stop_gradient"):
        np.sum(drawn).backward()


def test_a_generator_moves_on_and_repeats_from_its_seed() -> None:
    left_one, two = ns.random.Generator(3), ns.random.default_rng(3)
    first, second = left_one.normal(size=4).numpy(), left_one.normal(size=4).numpy()
    assert not np.array_equal(first, second)
    assert np.array_equal(first, two.normal(size=4).numpy())
    assert np.array_equal(second, two.normal(size=4).numpy())
    assert left_one.state.dtype == np.uint64
    assert not left_one.state.requires_grad
    again = copy.deepcopy(left_one)
    assert again.state.name == left_one.state.name
    assert np.array_equal(again.random(3).numpy(), copy.copy(left_one).random(3).numpy())
    a, b = left_one.spawn(2)
    assert not np.array_equal(a.random(3).numpy(), b.random(3).numpy())


def test_a_generator_takes_the_arguments_of_numpy() -> None:
    generator, numpy_generator = ns.random.Generator(1), np.random.default_rng(1)
    calls = [
        ("random", (), {}), ("random", (3,), {"dtype": np.float32}), ("uniform", (2, 5), {}),
        ("uniform", (), {"low": [0, 1], "high": 3}), ("standard_normal", ((2, 3),), {}),
        ("normal", (np.zeros(3), 2), {}), ("integers", (5,), {}),
        ("integers", (0, [3, 9], 2), {"endpoint": True}), ("exponential", (2.0, (2,)), {}),
        ("standard_exponential", (), {}), ("standard_gamma", ([1.0, 2.0],), {}),
        ("gamma", (2.0, 3.0), {"size": 4}), ("gumbel", (0, 2, 3), {}), ("permutation", (5,), {}),
        ("choice", (5,), {"size": (2, 2)}), ("choice", ([1.0, 2.0], 2, False), {}),
    ]  # fmt: skip
    for name, args, kwargs in calls:
        result = getattr(generator, name)(*args, **kwargs)
        expected = np.asarray(getattr(numpy_generator, name)(*args, **kwargs))
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype), name
    assert generator.bernoulli(0.3, 4).shape == (4,)
    assert generator.categorical(np.zeros((2, 3))).shape == (2,)
    assert generator.truncated_normal(size=3).shape == (3,)


KEY = np.arange(2, dtype=np.uint64)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda r: r.key(-1), UsageError, "not a seed"),
        (lambda r: r.key(True), UsageError, "not a seed"),
        (lambda r: r.Generator(1.5), UsageError, "seed"),
        (lambda r: r.Generator(np.zeros(2)), UsageError, "an integer or a key, not float64"),
        (lambda r: r.normal(np.arange(2)), DtypeError, "a key is uint64, not int64"),
        (lambda r: r.normal(7), ShapeError, r"a key has shape \(2,\)"),
        (lambda r: r.normal(r.split(KEY, 3)), ShapeError, r"a key has shape \(2,\), not \(3, 2\)"),
        (lambda r: r.normal(KEY, (-1,)), ShapeError, "negative size"),
        (lambda r: r.normal(KEY, (2,), "int64"), DtypeError, "does not support int64"),
        (lambda r: r.integers(KEY, 3, 3, (2,)), DomainError, "low is included"),
        (lambda r: r.integers(KEY, [3, 9], 5), DomainError, "low is included"),
        (lambda r: r.integers(KEY, [3, 9], 5, (3,)), ShapeError, "do not broadcast"),
        (lambda r: r.integers(KEY, 0, 5, (3,), "float32"), DtypeError, "does not support float32"),
        (lambda r: r.bernoulli(KEY, 1.5), DomainError, "between 0 and 1"),
        (lambda r: r.bernoulli(KEY, np.array([0.5, np.nan])), DomainError, "between 0 and 1"),
        (lambda r: r.gamma(KEY, -1.0), DomainError, "negative"),
        (lambda r: r.truncated_normal(KEY, 2, 1), DomainError, "nothing between"),
        (lambda r: r.choice(KEY, 3, 5, replace=False), ShapeError, "5 of 3"),
        (lambda r: r.choice(KEY, 2, 5, p=[0.3, 0.3]), DomainError, "sum to 1"),
        (lambda r: r.choice(KEY, 3, 5, p=[0.5, 0.5]), ShapeError, "p has shape"),
        (lambda r: r.categorical(KEY, [np.nan, 0]), DomainError, "NaN"),
        (lambda r: r.categorical(KEY, [-np.inf] * 2), DomainError, "every class"),
        (lambda r: r.categorical(KEY, np.zeros((2, 0))), ShapeError, "no classes"),
        (lambda r: r.fold_in(KEY, 1.5), DtypeError, "an integer"),
        (lambda r: r.fold_in(KEY, [1]), ShapeError, "one number"),
        (lambda r: r.permutation(KEY, np.zeros(3), 1), ShapeError, "no axis 1"),
    ],
)
def test_mistakes_are_named_with_the_users_line(
    call: object, error: type[NodescopeError], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        call(ns.random)  # type: ignore[operator]
    assert "test_random.py:" in caught.value.source


def test_numbers_do_not_change_between_versions() -> None:
    """What a key's children are; a change here would break people's runs."""
    key = ns.random.fold_in(ns.random.key(2024), 3)
    children = ns.random.split(key, 2)
    assert hashlib.sha256(children.numpy().tobytes()).hexdigest()[:16] == "13a577e8c5b0f75d"
