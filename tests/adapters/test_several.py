"""Several adapters in one run: each declares the capabilities of its own nodes."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from nodescope.adapters import attached
from nodescope.debug.report.advice import advise_program, lines
from nodescope.debug.report.run_summary import last_words
from nodescope.ir.capabilities import ENGINE, Framework
from nodescope.record.recording import Recording
from tests.adapters import cases
from tests.adapters.cases import DISTANT
from tests.adapters.driving import recorded
from tests.adapters.foreign import adapter as foreign

LATER = "later_library"


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attached, "_OWN", (cases.ENGINE.adapter, DISTANT.adapter))


@pytest.mark.usefixtures("both")
def test_a_run_of_two_libraries_has_the_capabilities_of_each(tmp_path: Path) -> None:
    recorded(tmp_path / "r.nscope", lambda: (cases.ENGINE.train(), DISTANT.train()))
    with Recording.open(tmp_path / "r.nscope") as recording:
        engine, distant = recording.run().frameworks
        dialects = {row.node.dialect for row in recording.nodes()}
        words = last_words(recording)
    assert (engine.dialect, engine.capabilities) == ("nodescope", ENGINE)
    assert distant == Framework("distant", "0.1", foreign.ADAPTER.capabilities())
    assert dialects == {"nodescope", "distant"}
    assert ", distant 0.1 observed" in words


@pytest.mark.usefixtures("both")
def test_a_library_that_is_imported_later_is_reported_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{LATER}.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(foreign.DistantAdapter, "module", LATER)
    recorded(tmp_path / "never.nscope", lambda: np.ones(1))
    recorded(tmp_path / "later.nscope", lambda: importlib.import_module(LATER))
    monkeypatch.delitem(sys.modules, LATER)
    told = {}
    for name in ("never", "later"):
        with Recording.open(tmp_path / f"{name}.nscope") as recording:
            told[name] = [framework.dialect for framework in recording.run().frameworks]
    assert told == {"never": ["nodescope"], "later": ["nodescope", "distant"]}


@pytest.mark.usefixtures("both")
def test_a_library_that_was_looked_for_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{LATER}.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(foreign.DistantAdapter, "module", LATER)

    def program() -> None:
        # Libraries look for optional ones in this way.
        assert importlib.util.find_spec(LATER) is not None
        importlib.import_module(LATER)

    recorded(tmp_path / "r.nscope", program)
    monkeypatch.delitem(sys.modules, LATER)
    with Recording.open(tmp_path / "r.nscope") as recording:
        frameworks = [framework.dialect for framework in recording.run().frameworks]
    assert frameworks == ["nodescope", "distant"]


@pytest.mark.usefixtures("both")
def test_an_adapter_that_cannot_attach_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object, emitter: object) -> None:
        raise ImportError("a name is missing")

    monkeypatch.setattr(foreign.DistantAdapter, "attach", fail)
    said: list[str] = []
    recorded(tmp_path / "r.nscope", cases.ENGINE.train, say=said.append)
    assert "distant is not observed: ImportError: a name is missing" in "\n".join(said)
    with Recording.open(tmp_path / "r.nscope") as recording:
        assert [framework.dialect for framework in recording.run().frameworks] == ["nodescope"]


def test_advice_names_what_was_observed(tmp_path: Path) -> None:
    frameworks = (Framework("nodescope"), Framework("torch", "2.13"), Framework("ray", "3.0"))
    advice = advise_program(tmp_path / "a.py", frameworks=frameworks)
    assert "Observed, but nothing of it ran: torch 2.13 and ray 3.0." in "\n".join(lines(advice))
    assert "nodescope's tensors" not in "\n".join(lines(advice))
    failed = advise_program(tmp_path / "a.py", frameworks=frameworks, error="ValueError: no")
    assert "torch 2.13 and ray 3.0 had computed nothing" in "\n".join(lines(failed))
    both = "\n".join(lines(advise_program(tmp_path / "a.py", frameworks=frameworks, leaves=1)))
    assert "takes a tensor" in both
    plain = advise_program(tmp_path / "a.py", frameworks=frameworks[:1])
    assert "Observed" not in "\n".join(lines(plain))
