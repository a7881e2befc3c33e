"""Comparisons and compiled functions by REST."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nodescope.record.recording import Recording
from tests.core.compare.programs import both, training
from tests.server.support import Live


@pytest.fixture
def ids(live: Live, tmp_path: Path) -> tuple[str, str]:
    """The ids of an eager and a compiled run that the server has opened."""
    results = []
    for item in both(tmp_path, training()):
        item.close()
        asyncio.run(live.app.runs.open(item.path))
        with Recording.open(item.path) as recording:
            results.append(recording.run().id)
    return results[0], results[1]


def test_two_runs_are_compared(live: Live, ids: tuple[str, str]) -> None:
    ids_given = {"eager": ids[0], "compiled": ids[1]}
    answer = live.get("/api/compare", params=ids_given)
    assert answer.status_code == 200, answer.text
    answered = answer.json()
    assert (answered["eager"], answered["compiled"]) == ids
    (function,) = answered["functions"]
    assert function["steps"] == [1, 2, 3]
    tanh = next(node for node in function["nodes"] if node["op"] == "tanh")
    assert tanh["name"] == "layer/tanh"
    assert tanh["matched"] == "name"
    # The second answer comes from memory and is the same.
    assert live.get("/api/compare", params=ids_given).json() == answered
    node = next(item for item in function["nodes"] if item["op"] == "matmul")
    more = live.get(
        "/api/compare/history", params={**ids_given, "owner": function["owner"], "node": node["id"]}
    ).json()
    assert more["steps"] == [1, 2, 3]
    assert all(item["equal"] for item in more["measures"])


def test_each_stage_has_its_graph(live: Live, ids: tuple[str, str]) -> None:
    (function,) = live.get(f"/api/runs/{ids[1]}/functions").json()["functions"]
    assert function["stages"][0]["name"] == "traced"
    for stage in function["stages"]:
        stage_graph = live.get(f"/api/runs/{ids[1]}/captured/{stage['graph']}").json()
        assert stage_graph["owner"] == function["owner"]
        inner = [node for node in stage_graph["graph"]["nodes"] if node["family"] != "leaf"]
        assert len(inner) == stage["nodes"]
        assert all(node["origin"] for node in inner if stage["name"] == "traced")
    assert stage_graph["stage"] == "final"


def test_what_is_not_there(live: Live, ids: tuple[str, str]) -> None:
    assert live.get(f"/api/runs/{ids[0]}/functions").json() == {"functions": []}
    missing = live.get(f"/api/runs/{ids[1]}/captured/999")
    assert missing.status_code == 404
    assert "no captured graph 999" in missing.json()["error"]
    backwards = live.get("/api/compare", params={"eager": ids[1], "compiled": ids[0]})
    assert backwards.status_code == 409
    assert "no compiled function" in backwards.json()["error"]
    assert "ns.compile" in backwards.json()["hint"]
    query = {"eager": ids[0], "compiled": ids[1], "owner": "nobody", "node": 1}
    unknown = live.get("/api/compare/history", params=query)
    assert unknown.status_code == 409
    assert live.get("/api/compare").status_code == 422
