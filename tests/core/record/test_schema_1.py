"""Recordings of schema 1 open, show what they showed, and are not changed by that."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from nodescope.debug.replay import Replay
from nodescope.ir.capabilities import ENGINE
from nodescope.record.compiled_functions import functions
from nodescope.record.recording import Recording
from tests.core.debug.replay.checking import check
from tests.fixtures import schema_1
from tests.fixtures.schema_1.views import comparison, views

FOLDER = Path(str(schema_1.__file__)).parent
NAMES = ("values", "eager", "compiled", "failure")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recordings, unpacked."""
    result = tmp_path_factory.mktemp("schema_1")
    for name in NAMES:
        packed = FOLDER / f"{name}.nscope.xz"
        (result / f"{name}.nscope").write_bytes(lzma.decompress(packed.read_bytes()))
    return result


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    """What the version that made them showed."""
    return json.loads(lzma.decompress((FOLDER / "golden.json.xz").read_bytes()))


def before_updates(now: list[Any], then: list[Any]) -> tuple[list[Any], list[Any]]:
    """Chains of causes up to the first update of a weight.

    The version that made the recordings continued with the weight's own past; now the chain
    continues with the causes of the update.
    """
    ends = [
        next((place for place, cause in enumerate(chain) if cause[1] == "updated"), len(chain))
        for chain in now
    ]
    assert any(end < len(chain) for end, chain in zip(ends, now, strict=True)) or now == then
    return tuple(  # type: ignore[return-value]
        [
            chain[:end] if end < len(current) else chain
            for chain, current, end in zip(chains, now, ends, strict=True)
        ]
        for chains in (now, then)
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_view_shows_what_it_showed(name: str, folder: Path, golden: dict[str, Any]) -> None:
    path = folder / f"{name}.nscope"
    before = path.read_bytes()
    shown = json.loads(json.dumps(views(path)))
    assert shown.keys() == golden[name].keys()
    shown["why"], golden[name]["why"] = before_updates(shown["why"], golden[name]["why"])
    for view, content in golden[name].items():
        assert shown[view] == content, view
    assert path.read_bytes() == before
    assert {other.stem for other in folder.iterdir()} == set(NAMES)


def test_the_comparison_of_two_is_what_it_was(folder: Path, golden: dict[str, Any]) -> None:
    result = comparison(folder / "eager.nscope", folder / "compiled.nscope")
    assert json.loads(json.dumps(result)) == golden["comparison"]


def test_nodes_have_the_roles_and_attributes_that_are_recorded_now(folder: Path) -> None:
    with Recording.open(folder / "values.nscope") as recording:
        assert recording.schema == 1
        info = recording.run()
        (framework,) = info.frameworks
        assert (framework.dialect, framework.capabilities) == ("nodescope", ENGINE)
        nodes = {row.node.name: row.node for row in recording.nodes()}
    assert nodes["hidden/w"].is_weight
    assert nodes["x"].role == "input"
    assert nodes["assign"].writes == ((0, 0),)
    indices = [node.attrs["index"] for node in nodes.values() if node.op == "getitem"]
    assert (slice(None, None, 2),) in [index[:1] for index in indices]
    assert (Ellipsis, -1, None) in indices


def test_bodies_of_compiled_functions_can_be_run_again(folder: Path) -> None:
    with Recording.open(folder / "compiled.nscope") as recording:
        (function, *_) = functions(recording)
        assert any(node.op == "scan" for node in function.traced.nodes)
        replay = Replay(recording)
        checked = check(replay)
    assert checked.compared > 0
    assert not checked.differences


def test_what_is_whole_of_a_damaged_one_is_still_of_schema_1(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "values.nscope").read_bytes()
    cut = tmp_path / "cut.nscope"
    cut.write_bytes(whole[: len(whole) // 2])
    with Recording.open(cut) as recording:
        assert recording.schema == 1
        assert "the intact part is shown" in recording.note
        assert {row.node.role for row in recording.nodes()} >= {"op", "parameter"}
