"""What all tests share: ``--planted NAME`` puts a fault into the compiler for a whole run.

Invariant: no test leaves the program's mode other than it found it.
"""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis
import pytest

import nodescope as ns
from nodescope.debug.saved import VARIABLE

# A busy machine is slow: how long an example takes is for the benchmarks to tell.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--planted", metavar="NAME",
        help="run with a fault planted into the compiler; see tests/conformance/planted",
    )  # fmt: skip


@pytest.fixture(scope="session", autouse=True)
def planted_fault(request: pytest.FixtureRequest) -> Iterator[None]:
    """The fault that was asked for, for the whole session."""
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
    """Breakpoints that one test sets are not there in the next."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "none")
        yield


@pytest.fixture(scope="session", autouse=True)
def a_state_folder_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Which recordings are ours is not noted in the folder of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


MODE = ns.get_mode()


@pytest.fixture(autouse=True)
def mode_as_at_first() -> None:
    """Samples that run in this process, perhaps in a fixture, set the mode of the program."""
    ns.set_mode(MODE)
