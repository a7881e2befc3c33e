"""Options and fixtures of all tests: ``--depth``, ``--no-batching``, ``--planted`` and others.

``--depth`` selects how much runs (see `tests.depth`); ``--no-repeats`` leaves out what
``make test`` runs in the same way (see `tests.repeated`); ``--no-batching`` makes each case a test
(see `tests.parts`); ``--planted NAME`` plants a fault in the compiler for the whole session;
``--slow-page FACTOR`` slows the browser (see `tests.e2e.slowness`); ``--new-interpreters`` concerns
commands that tests start (see `tests.forked`).

Invariant: after each test, the program's mode is the same as before.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

import nodescope as ns
from nodescope.debug.project_settings import VARIABLE
from tests import depth, forked, order, parts, repeated

TESTS = Path(__file__).parent

# A busy machine is slow. Benchmarks measure time; examples do not.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--depth", choices=depth.DEPTHS, default="usual",
        help="how much of what is drawn at random is run; deep: all of it, and the marked tests",
    )  # fmt: skip
    parser.addoption(
        "--no-repeats", action="store_true",
        help="leave out tests that are the same at the depth usual; see tests/repeated",
    )  # fmt: skip
    parser.addoption(
        "--no-batching", action="store_true",
        help="make a test of each case, where one test runs many; see tests/parts",
    )  # fmt: skip
    parser.addoption(
        "--planted", metavar="NAME",
        help="run with a fault planted into the compiler; see tests/conformance/planted",
    )  # fmt: skip
    parser.addoption(
        "--new-interpreters", action="store_true",
        help="start commands of nodescope anew instead of forking them; see tests/forked",
    )  # fmt: skip
    parser.addoption(
        "--slow-page", metavar="FACTOR", type=float, default=1,
        help="slow the browser by this factor, and delay what it is told; see tests/e2e/slowness",
    )  # fmt: skip


@pytest.hookimpl(trylast=True)  # Run after Hypothesis has loaded the requested profile.
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "deep: is run by `make test-deep`, not by `make test`")
    config.addinivalue_line(
        "markers", "one_in(n): `make test` runs one in n of its cases, `make test-deep` all"
    )
    config.addinivalue_line(
        "markers",
        "ray: an adapter's test with Ray's programs; `make test` runs the other adapters'",
    )
    config.addinivalue_line(
        "markers", "needs(...): the capabilities that an adapter's test is about"
    )
    depth.choose(config.getoption("--depth"))
    parts.choose(config.getoption("--no-batching"))
    forked.choose(sys.platform == "linux" and not config.getoption("--new-interpreters"))
    # A shell's background process ignores Ctrl-C, and programs that tests start would inherit
    # that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    full = hypothesis.settings.default.max_examples
    hypothesis.settings.register_profile("to depth", max_examples=depth.examples(full))
    hypothesis.settings.load_profile("to depth")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """At the depth ``quick``, do not collect folders whose tests start processes.

    Nor, with ``--no-repeats``, modules all of whose tests would be repeated.
    """
    here = collection_path.relative_to(TESTS).as_posix() if TESTS in collection_path.parents else ""
    if depth.leaves_out(here):
        return True
    if here.endswith(".py") and _leaves_out_repeats(config):
        same = repeated.same_at_every_depth(collection_path)
        return True if same and not repeated.has_marked(collection_path) else None
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect garbage less often: thousands of test items are made, which all live to the end.

    Looking at them in every collection would be wasted time; a tenth as many collections suffice.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.set_threshold(*(10 * threshold for threshold in gc.get_threshold()))
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests marked as deep, or repeated ones, except those named on the command line.

    The others are ordered so that all workers finish at about the same time.
    """
    usual = set(map(id, _usual(items)))
    left_out: list[pytest.Item] = []
    if not depth.is_deep() and not _names_tests(config):
        left_out = [item for item in items if id(item) not in usual]
    elif _leaves_out_repeats(config):
        left_out = [
            item for item in items if id(item) in usual and repeated.same_at_every_depth(item.path)
        ]
    if left_out:
        gone = set(map(id, left_out))
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if id(item) not in gone]
    items[:] = order.dealt(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def _names_tests(config: pytest.Config) -> bool:
    return any("::" in argument for argument in config.args)


def _leaves_out_repeats(config: pytest.Config) -> bool:
    asked = depth.is_deep() and bool(config.getoption("--no-repeats"))
    return asked and not _names_tests(config)


def _usual(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests that are not deep; of a test with ``one_in(n)``, every nth case."""
    counts: dict[str, int] = {}
    usual: list[pytest.Item] = []
    for item in items:
        if item.get_closest_marker("deep"):
            continue
        mark = item.get_closest_marker("one_in")
        if mark is not None:
            test = item.nodeid.partition("[")[0]
            case = counts[test] = counts.get(test, -1) + 1
            if case % mark.args[0]:
                continue
        usual.append(item)
    return usual


@pytest.fixture(scope="session", autouse=True)
def planted_fault(request: pytest.FixtureRequest) -> Iterator[None]:
    """Plant the requested fault for the whole session."""
    name = request.config.getoption("--planted")
    if not name:
        yield
        return
    from tests.conformance.planted import PLANTED, all_planted

    all_planted()
    with pytest.MonkeyPatch.context() as patch:
        PLANTED.get(name).plant(patch)
        yield


@pytest.fixture(scope="session", autouse=True)
def nothing_kept_beside_the_samples() -> Iterator[None]:
    """Keep breakpoints that a test saves away from the next test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "none")
        yield


@pytest.fixture(scope="session", autouse=True)
def folders_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the ownership of recordings, and a waiting server's address, in this worker's folders.

    They are neither the user's nor those of tests that run at the same time.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        yield


MODE = ns.get_mode()


@pytest.fixture(autouse=True)
def mode_as_at_first() -> None:
    """Restore the program's mode, which samples that run in this process set."""
    ns.set_mode(MODE)


@pytest.fixture(autouse=True)
def no_dispatch_mode_left() -> Iterator[None]:
    """Check that no observer of PyTorch's operators is left after the test."""
    yield
    if (torch := sys.modules.get("torch")) is not None:
        modes = torch.utils._python_dispatch._get_current_dispatch_mode_stack()
        assert not modes, f"left on the stack of dispatch modes: {modes}"
