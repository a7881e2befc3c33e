"""The list of recordings: its entries, and requests with their ids."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import nodescope as ns
from tests.server.support import WAIT_S, Live, Program, serving
from tests.unencrypted import NO_CERTIFICATES


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with recordings: one that this server made, another one, and a damaged one."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    directory = tmp_path / "here"
    (directory / ".nodescope" / "runs").mkdir(parents=True)
    record(directory / ".nodescope" / "runs" / "own.nscope")
    record(tmp_path / "else.nscope")
    shutil.copy(tmp_path / "else.nscope", directory / "sent.nscope")
    (directory / "cut.nscope").write_bytes((directory / "sent.nscope").read_bytes()[:5000])
    (directory / "notes.txt").write_text("no recording")
    return directory


def record(path: Path) -> None:
    with ns.record(path):
        for _ in ns.steps(range(3)):
            np.exp(ns.tensor([1.0]))


@pytest.fixture
def listing(folder: Path) -> Iterator[Live]:
    with serving(folder=folder) as live:
        yield live


def all_entries(live: Live) -> list[dict[str, Any]]:
    """The list once all entries have been read."""
    while True:
        answer = live.get("/api/library").json()
        if not answer["pending"]:
            return list(answer["entries"])


def shelf(live: Live) -> dict[str, Any]:
    """The list by file name, for tests with unique names."""
    return {entry["file"]: entry for entry in all_entries(live)}


def ask(live: Live, method: str, path: str, origin: str | None = "") -> httpx.Response:
    """Ask, as the page does."""
    headers = dict(live.cookie)
    if origin is not None:
        headers["Origin"] = origin or live.base
    return httpx.request(
        method, live.base + path, headers=headers, timeout=WAIT_S, verify=NO_CERTIFICATES
    )


def test_what_is_listed(listing: Live) -> None:
    entries = shelf(listing)
    assert set(entries) == {"own.nscope", "else.nscope", "sent.nscope", "cut.nscope"}
    own = entries["own.nscope"]
    assert (own["here"], own["ours"], own["run"], own["live"]) == (True, True, "", False)
    assert (own["glance"]["steps"], own["glance"]["outcome"]) == (3, "finished")
    assert [entries[item]["here"] for item in ("sent.nscope", "else.nscope")] == [True, False]
    assert [entries[item]["ours"] for item in ("sent.nscope", "else.nscope")] == [False, True]
    assert entries["cut.nscope"]["glance"]["outcome"] == "unreadable"
    again = shelf(listing)
    assert {item["id"] for item in again.values()} == {entry["id"] for entry in entries.values()}


def test_a_recording_is_opened_by_its_id_and_summarised(listing: Live) -> None:
    entry = shelf(listing)["sent.nscope"]
    opened = ask(listing, "POST", f"/api/library/{entry['id']}/open")
    run = opened.json()["run"]
    assert (opened.status_code, run["state"]) == (200, "recorded")
    assert shelf(listing)["sent.nscope"]["run"] == run["id"]
    summary = listing.get(f"/api/runs/{run['id']}/summary").json()
    assert summary["summary"]["steps"] == 3
    assert summary["commands"][0]["line"].startswith("nodescope open ")
    cut = ask(listing, "POST", f"/api/library/{shelf(listing)['cut.nscope']['id']}/open")
    assert cut.status_code == 409


@pytest.mark.parametrize("name", ["0" * 16, "own.nscope", "..%2F..%2Felse.nscope", "own"])
def test_a_name_is_not_an_id(listing: Live, name: str) -> None:
    shelf(listing)
    for method, path in (("POST", f"/api/library/{name}/open"), ("DELETE", f"/api/library/{name}")):
        assert ask(listing, method, path).status_code in (404, 405)
    assert len(shelf(listing)) == 4


def test_only_our_own_can_be_deleted_and_only_by_the_page(listing: Live, folder: Path) -> None:
    entries = shelf(listing)
    own = folder / ".nodescope" / "runs" / "own.nscope"
    path = f"/api/library/{entries['own.nscope']['id']}"
    assert ask(listing, "DELETE", path, origin=None).status_code == 403
    assert ask(listing, "DELETE", path, origin="http://evil.example").status_code == 403
    refused = ask(listing, "DELETE", f"/api/library/{entries['sent.nscope']['id']}")
    assert refused.status_code == 409
    assert "not made by nodescope" in refused.json()["error"]
    assert own.is_file()
    run = ask(listing, "POST", f"{path}/open").json()["run"]["id"]
    assert ask(listing, "DELETE", path).status_code == 200
    assert not own.exists()
    assert listing.get(f"/api/runs/{run}").status_code == 404
    assert "own.nscope" not in shelf(listing)


def test_what_became_a_link_is_left_alone(listing: Live, folder: Path) -> None:
    entry = shelf(listing)["own.nscope"]
    own = folder / ".nodescope" / "runs" / "own.nscope"
    own.unlink()
    own.symlink_to(folder / "notes.txt")
    assert ask(listing, "DELETE", f"/api/library/{entry['id']}").status_code == 409
    assert (folder / "notes.txt").is_file()


def test_a_recording_has_one_entry_by_whichever_way_its_program_came(
    listing: Live, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "way").symlink_to(folder)
    record(tmp_path / "way" / "linked.nscope")
    entry = shelf(listing)["linked.nscope"]
    assert (entry["ours"], entry["here"]) == (True, True)
    run = ask(listing, "POST", f"/api/library/{entry['id']}/open").json()["run"]["id"]
    entries = [item for item in listing.get("/api/library").json()["entries"]
               if item["file"] == "linked.nscope"]  # fmt: skip
    assert [e["run"] for e in entries] == [run]
    assert ask(listing, "DELETE", f"/api/library/{entry['id']}").status_code == 200
    assert listing.get(f"/api/runs/{run}").status_code == 404


def test_a_live_program_is_in_the_list(live: Live, new_program: Callable[..., Program]) -> None:
    program = new_program()
    program.commit()
    # Match by run: recordings of other tests have the same file name.
    (entry,) = (entry for entry in all_entries(live) if entry["run"] == program.run.id)
    assert (entry["live"], entry["ours"]) == (True, False)
    assert entry["glance"]["outcome"] == "running"
    assert ask(live, "DELETE", f"/api/library/{entry['id']}").status_code == 409
