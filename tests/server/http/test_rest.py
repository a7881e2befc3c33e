"""REST: requests of programs without a socket, and the answers for missing things."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodescope.errors import ExportError
from nodescope.export import export, exporters
from nodescope.export.isolated import Limits
from nodescope.ir.dtypes import bfloat16
from nodescope_server import __version__
from nodescope_server.http import rest
from nodescope_server.http.exports import AT_ONCE, FORMATS, MAX_WAITING, Exports, Selection
from tests.depth import examples
from tests.parts import in_parts
from tests.server.support import WAIT_S, Live, Page, Program, serving
from tests.unencrypted import NO_CERTIFICATES

ROUTES = (
    "/api/runs/{run}",
    "/api/runs/{run}/graph",
    "/api/runs/{run}/nodes/1",
    "/api/runs/{run}/nodes/1/history",
    "/api/runs/{run}/values/101",
    "/api/runs/{run}/values/101.npy",
    "/api/runs/{run}/source?file=a.py",
    "/api/runs/{run}/logs",
    "/api/runs/{run}/summary",
    "/api/runs/{run}/export.svg",
    "/api/runs/{run}/export.dot",
    "/api/runs/{run}/export/mermaid",
    "/api/runs/{run}/functions",
    "/api/runs/{run}/captured/1",
    "/api/compare?eager={run}&compiled={run}",
    "/api/compare/history?eager={run}&compiled={run}&owner=f&node=1",
)


@pytest.fixture
def recorded(program: Program, page: Page) -> Program:
    """A program with one node that ran twice, whose records have arrived."""
    page.subscribe(program.run.id)
    node = program.define("exp")
    program.define("log", (101,))
    program.execute(node, np.array([[1.0, np.nan], [np.inf, -np.inf]]))
    program.execute(node, np.array([[1.0, 2.0], [3.0, 4.0]]))
    program.log("one")
    program.log("two")
    page.records_until(program.commit())
    return program


def get(live: Live, program: Program, rest_of_path: str, **params: Any) -> Any:
    answer = live.get(f"/api/runs/{program.run.id}{rest_of_path}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_health_and_runs(live: Live, recorded: Program) -> None:
    assert live.get("/api/health").json() == {"status": "ok", "version": __version__, "protocol": 1}
    (run,) = live.get("/api/runs").json()["runs"]
    assert run["id"] == recorded.run.id
    detail = get(live, recorded, "")
    assert detail["run"]["state"] == "live"
    assert detail["seq"] == recorded.commit()


def test_graph_nodes_and_history(live: Live, recorded: Program) -> None:
    graph = get(live, recorded, "/graph")
    assert [item["op"] for item in graph["nodes"]] == ["exp", "log"]
    assert {row["value"]["id"]: row["producer"] for row in graph["values"]}[101] == 1
    node = get(live, recorded, "/nodes/1")
    assert node["times"] == 2
    assert node["outputs"][0]["value"]["id"] == 101
    assert get(live, recorded, "/nodes/2")["inputs"][0]["value"]["id"] == 101
    assert get(live, recorded, "/nodes/2")["latest"] is None
    history = get(live, recorded, "/nodes/1/history")
    assert history["total"] == len(history["executions"]) == len(history["points"]) == 2


def test_the_graph_of_a_step_has_its_shapes(live: Live, program: Program, page: Page) -> None:
    page.subscribe(program.run.id)
    node = program.define("exp")
    for step, rows in ((1, 8), (2, 5)):
        program.step(step)
        program.execute(node, np.ones((rows, 3)), step=step)
    program.define("log", (101,))
    page.records_until(program.commit())

    def shapes(**params: int) -> list[list[int]]:
        result = get(live, program, "/graph", **params)
        return [item["value"]["spec"]["shape"] for item in result["values"]]

    assert shapes(step=1) == [[8, 3]]
    assert sorted(shapes(step=2)) == sorted(shapes()) == [[2, 3], [5, 3]]  # Step 2 has not ended.
    assert len(get(live, program, "/graph", step=1)["nodes"]) == 1
    assert live.get(f"/api/runs/{program.run.id}/graph?step=-1").status_code == 422


def test_values_name_what_json_can_not(live: Live, recorded: Program) -> None:
    first = get(live, recorded, "/nodes/1/history")["executions"][0]["seq"]
    value = get(live, recorded, "/values/101", seq=first)
    assert value["elements"] == [[1.0, "NaN"], ["Infinity", "-Infinity"]]
    assert get(live, recorded, "/values/101", row=1, cols=1)["elements"] == [[3.0]]


def test_a_value_as_a_numpy_file(live: Live, recorded: Program) -> None:
    answer = live.get(f"/api/runs/{recorded.run.id}/values/101.npy")
    assert answer.status_code == 200
    assert "attachment" in answer.headers["content-disposition"]
    array = np.load(io.BytesIO(answer.content), allow_pickle=False)
    assert array.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_bfloat16_leaves_as_float32(live: Live, program: Program, page: Page) -> None:
    node = program.define()
    program.execute(node, np.array([[1.5, np.nan], [-2.0, 0.0]], bfloat16()))
    program.commit()
    page.subscribe(program.run.id)
    value = node.outputs[0]
    answer = live.get(f"/api/runs/{program.run.id}/values/{value}.npy")
    assert answer.status_code == 200, answer.text
    array = np.load(io.BytesIO(answer.content), allow_pickle=False)
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, np.array([[1.5, np.nan], [-2.0, 0.0]], np.float32))
    shown = get(live, program, f"/values/{value}")
    assert shown["spec"]["dtype"] == "bfloat16"
    assert shown["elements"] == [[1.5, "NaN"], [-2.0, 0.0]]
    assert (shown["summary"]["nan_count"], shown["summary"]["zero_count"]) == (1, 1)


@pytest.mark.parametrize(("kind", "starts"), [("svg", "<"), ("dot", "digraph")])
def test_exports_are_files_to_keep(live: Live, recorded: Program, kind: str, starts: str) -> None:
    answer = live.get(f"/api/runs/{recorded.run.id}/export.{kind}")
    assert answer.status_code == 200, answer.text
    assert f'filename="{recorded.run.id}.{kind}"' in answer.headers["content-disposition"]
    assert starts in answer.text[:500]


def test_the_exports_of_the_server_are_those_of_the_command() -> None:
    with pytest.raises(ExportError):
        export("none.nscope", "none.unknown")
    suffixes = {name: suffix for name, (suffix, _) in FORMATS.items()}
    assert suffixes == {name: exporters.get(name).suffix for name in exporters}


def test_an_export_takes_scopes_and_a_theme(live: Live, recorded: Program) -> None:
    path = f"/api/runs/{recorded.run.id}/export/mermaid"
    query = {"theme": "dark", "expand": "listed", "open": ["net", "a\0b", "gone"]}
    answer = live.get(path, params=query)
    assert answer.status_code == 200, answer.text
    assert "theme: dark" in answer.text
    assert f'filename="{recorded.run.id}.mmd"' in answer.headers["content-disposition"]
    assert live.get(path, params={"expand": "1", "scope": "none"}).status_code == 409
    assert live.get(path, params={"expand": "x"}).status_code == 422
    assert live.get(path.replace("mermaid", "exe")).status_code == 422


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["svg", "dot"])
def test_a_picture_is_of_the_step_that_was_requested(
    live: Live, program: Program, kind: str
) -> None:
    program.step(1)
    node = program.define("exp")
    program.execute(node, step=1)
    program.step(2)
    program.define("tanh", node.outputs)
    program.commit()
    path = f"/api/runs/{program.run.id}/export.{kind}"
    first = live.get(path, params={"step": 1})
    assert "end of step 1" in first.text
    assert ("exp" in first.text, "tanh" in first.text) == (True, False)
    assert f'filename="{program.run.id}-step-1.{kind}"' in first.headers["content-disposition"]
    last = live.get(path)
    assert "last state (step 2)" in last.text
    assert "tanh" in last.text
    wrong = live.get(path, params={"step": 3})
    assert wrong.status_code == 409
    assert wrong.json() == {"error": "no step 3", "hint": "steps 1 to 2 are recorded"}


def test_logs_by_page(live: Live, recorded: Program) -> None:
    (first,) = get(live, recorded, "/logs", limit=1)["logs"]
    assert first["text"] == "one"
    (second,) = get(live, recorded, "/logs", after=first["seq"])["logs"]
    assert second["text"] == "two"


@pytest.fixture(scope="module")
def idle() -> Iterator[Live]:
    """A server without a run, for requests that change nothing."""
    with serving() as running:
        yield running


@in_parts(2)
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "run", ["0123456789abcdef", "x", "..%2f..%2fetc", "%00", "<b>", "a" * 9000]
)
def test_an_unknown_run_is_not_found(idle: Live, route: str, run: str) -> None:
    answer = idle.get(route.format(run=run))
    assert answer.status_code == 404
    assert answer.json()["error"]
    assert "<b>" not in answer.text


@pytest.mark.parametrize(
    "path", ["/nodes/99", "/nodes/99/history", "/values/99", "/values/99.npy", "/source?file=no.py",
             "/source?file=../../../../etc/passwd", "/nothing", "/export.pdf"]
)  # fmt: skip
def test_an_unknown_thing_is_not_found(live: Live, recorded: Program, path: str) -> None:
    answer = live.get(f"/api/runs/{recorded.run.id}{path}")
    assert answer.status_code == 404
    assert answer.json()["error"]


@pytest.mark.parametrize(
    "path", ["/nodes/one", "/nodes/-1", f"/values/{2**70}", "/values/101?seq=-3",
             "/values/101?rows=0", "/logs?limit=x", "/export.svg?engine=rm"]
)  # fmt: skip
def test_invalid_parameters_are_named(live: Live, recorded: Program, path: str) -> None:
    answer = live.get(f"/api/runs/{recorded.run.id}{path}")
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(("path.", "query."))


def test_the_description_describes_every_answer(live: Live) -> None:
    described = live.get("/api/openapi.json").json()
    schemas = described["components"]["schemas"]
    assert {item.__name__ for item in rest.TYPES} <= set(schemas)
    for path, verbs in described["paths"].items():
        for verb in verbs.values():
            assert verb["summary"], path
            for answer in verb["responses"].values():
                for content in answer.get("content", {}).values():
                    ref = content.get("schema", {}).get("$ref", "")
                    assert not ref or ref.rpartition("/")[2] in schemas


def test_a_program_can_let_another_browser_in(live: Live) -> None:
    import httpx

    bearer = {"Authorization": "Bearer bearer-of-the-test"}
    url = httpx.post(f"{live.base}/api/tokens", headers=bearer, verify=NO_CERTIFICATES).json()[
        "url"
    ]
    assert httpx.get(url, verify=NO_CERTIFICATES).status_code == 303
    live.app.keys.came_back()
    assert httpx.get(url, verify=NO_CERTIFICATES).status_code == 403


@pytest.mark.deep
@given(
    path=st.text(max_size=40),
    query=st.dictionaries(
        st.sampled_from(["seq", "row", "limit", "after", "file", "engine", "index"]),
        st.one_of(st.integers(), st.text(max_size=20)),
        max_size=3,
    ),
    route=st.sampled_from(ROUTES),
)
@settings(
    deadline=None,
    max_examples=examples(150),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_no_request_breaks_the_server(
    live: Live, recorded: Program, path: str, query: dict[str, Any], route: str
) -> None:
    from urllib.parse import quote, urlencode

    asked = route.format(run=recorded.run.id).partition("?")[0]
    options = urlencode(query, errors="replace")
    for item in (f"{asked}?{options}", f"{asked}/{quote(path, safe='', errors='replace')}"):
        assert live.get(item).status_code < 500


def test_an_export_beyond_its_limits_is_an_answer_and_the_server_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "Exports", lambda: Exports(Limits(seconds=0.0)))
    with serving() as live:
        program = Program(live, tmp_path)
        program.connect()
        assert program.socket is not None
        program.execute(program.define())
        program.commit()
        answer = live.get(f"/api/runs/{program.run.id}/export.svg")
        assert answer.status_code == 409
        assert "takes more than 0 s" in answer.json()["error"]
        assert live.get("/api/health").status_code == 200
        program.recorder.close()
        program.socket.close()


def test_exports_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    running: list[str] = []

    def render(self: Exports, recording: str, kind: str, selection: Selection) -> bytes:
        running.append(recording)
        assert released.wait(WAIT_S)
        return b""

    async def ask() -> list[bytes | BaseException]:
        exports = Exports()
        requests = [exports.render("x", "svg") for _ in range(AT_ONCE + MAX_WAITING + 1)]
        *tasks, late = [asyncio.ensure_future(item) for item in requests]
        with pytest.raises(ExportError, match="try again later"):
            await late
        assert len(running) <= AT_ONCE
        released.set()
        return await asyncio.gather(*tasks)

    monkeypatch.setattr(Exports, "_render", render)
    assert asyncio.run(ask()) == [b""] * (AT_ONCE + MAX_WAITING)
