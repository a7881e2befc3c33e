"""The whole application: no route is open, every answer is protected, the page is served."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from starlette.routing import Mount, WebSocketRoute
from websockets.exceptions import InvalidStatus

from nodescope_server.app import App, Config, create_app
from tests.server.support import BEARER, Live, serving
from tests.unencrypted import NO_CERTIFICATES

PORT = 7711
HERE = f"127.0.0.1:{PORT}"
VERBS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY")


@pytest.fixture
def page_folder(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><title>the page</title>")
    (tmp_path / "assets" / "index-abc123.js").write_text("export {}")
    (tmp_path / "favicon.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    return tmp_path


@pytest.fixture
def app(page_folder: Path) -> App:
    return create_app(Config(port=PORT, bearer=BEARER, page=page_folder))


def ask(app: App, verb: str, path: str, **headers: str) -> httpx.Response:
    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HERE}") as http:
            return await http.request(verb, path, headers={"Host": HERE, **headers})

    return asyncio.run(run())


def walk(routes: Any) -> Iterator[str]:
    """Every path of the route table, with values for its parameters."""
    for route in routes:
        original = getattr(route, "original_router", None)
        if original is not None:  # Newer versions store included routers here.
            yield from walk(original.routes)
        elif isinstance(route, Mount):
            yield from (f"{route.path}/", f"{route.path}/assets/index-abc123.js")
        elif not isinstance(route, WebSocketRoute):
            yield (
                route.path.replace("{run}", "0" * 16).replace("{node}", "1").replace("{value}", "1")
            )


def test_no_route_and_no_verb_is_open(app: App) -> None:
    paths = sorted({*walk(app.routes), *app.openapi()["paths"], "/", "/favicon.svg", "/nothing"})
    assert len(paths) > 12
    own = f"http://{HERE}"
    cookie = f"nodescope_{PORT}={app.keys.cookie}"
    for path in paths:
        for verb in VERBS:
            assert ask(app, verb, path).status_code == 401, (verb, path)
            assert ask(app, verb, path, Cookie=f"nodescope_{PORT}=x").status_code == 401
            assert ask(app, verb, path, Cookie=cookie, Host="evil:7711").status_code == 400
            assert ask(app, verb, path, Cookie=cookie, Origin="http://evil").status_code == 403
            if verb not in ("GET", "HEAD"):
                assert ask(app, verb, path, Cookie=cookie).status_code == 403
                # Pages cannot change anything by request, not even nodescope's own page,
                answer = ask(app, verb, path, Cookie=cookie, Origin=own)
                # except that it may send a file to open; this one is empty.
                sent = path == "/api/library" and verb == "POST"
                assert answer.status_code in ((409,) if sent else (403, 404, 405)), (verb, path)


def test_no_socket_is_open(live: Live) -> None:
    paths = [route.path for route in live.app.routes if isinstance(route, WebSocketRoute)]
    assert sorted(paths) == ["/api/stream", "/link"]
    bearer = {"Authorization": f"Bearer {BEARER}"}
    for path in [*paths, "/", "/api/runs", "/nothing"]:
        for headers, status in (
            ({}, 401),
            ({"Origin": live.base}, 401),
            ({**live.cookie, "Origin": "http://evil"}, 403),
            ({**bearer, "Origin": "http://evil"}, 403),
            (live.cookie, 403),
        ):
            with pytest.raises(InvalidStatus) as caught:
                live.socket(path, headers)
            assert caught.value.response.status_code == status, (path, headers)


def test_a_form_of_another_site_changes_nothing(app: App) -> None:
    cookie = f"nodescope_{PORT}={app.keys.cookie}"
    answer = ask(app, "POST", "/api/tokens", Cookie=cookie, Origin="http://evil")
    assert answer.status_code == 403


def test_the_page_and_how_long_it_is_kept(app: App) -> None:
    cookie = f"nodescope_{PORT}={app.keys.cookie}"
    index = ask(app, "GET", "/", Cookie=cookie)
    assert index.status_code == 200
    assert "the page" in index.text
    assert index.headers["cache-control"] == "no-store"
    script = ask(app, "GET", "/assets/index-abc123.js", Cookie=cookie)
    assert script.status_code == 200
    assert "immutable" in script.headers["cache-control"]
    assert "private" in script.headers["cache-control"]
    assert "javascript" in script.headers["content-type"]
    for path in ("/nothing", "/assets/..%2f..%2fsecret", "/..%2findex.html", "/assets/"):
        answer = ask(app, "GET", path, Cookie=cookie)
        assert answer.status_code == 404
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_files_outside_the_page_are_not_served(app: App, page_folder: Path) -> None:
    secret = page_folder.parent / f"{page_folder.name}-secret.txt"
    secret.write_text("secret")
    try:
        cookie = f"nodescope_{PORT}={app.keys.cookie}"
        (page_folder / "assets" / "link.txt").symlink_to(secret)
        for path in (f"/..%2f{secret.name}", f"/%2e%2e/{secret.name}", "/assets/link.txt"):
            answer = ask(app, "GET", path, Cookie=cookie)
            assert answer.status_code == 404, path
    finally:
        secret.unlink()


def test_a_page_that_is_not_built_says_how_to_build_it(tmp_path: Path) -> None:
    app = create_app(Config(port=PORT, bearer=BEARER, page=tmp_path / "none"))
    answer = ask(app, "GET", "/", Cookie=f"nodescope_{PORT}={app.keys.cookie}")
    assert answer.status_code == 503
    assert "make setup" in answer.text


def test_faults_are_answered_behind_the_guard_too(app: App) -> None:
    @app.get("/api/fault", include_in_schema=False)
    async def fault() -> None:
        raise ZeroDivisionError("inside")

    app.router.routes.insert(0, app.router.routes.pop())  # Routed before the page.

    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HERE}") as http:
            return await http.get("/api/fault", headers={"Authorization": f"Bearer {BEARER}"})

    answer = asyncio.run(run())
    assert answer.status_code == 500
    assert answer.json()["error"] == "nodescope failed here (ZeroDivisionError)"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


def test_the_printed_address_works_once(page_folder: Path) -> None:
    with (
        serving(page=page_folder) as live,
        httpx.Client(base_url=live.base, verify=NO_CERTIFICATES) as browser,
    ):
        link = f"/?token={live.app.keys.mint()}"
        assert browser.get(link, follow_redirects=True).text.endswith("the page</title>")
        assert browser.get("/").status_code == 200  # As on a reload.
        assert browser.get("/api/runs").json() == {"runs": []}
        refused = httpx.get(live.base + link, verify=NO_CERTIFICATES)
        assert refused.status_code == 403
        assert "used already" in refused.text
        assert msgspec.json.decode(
            httpx.get(f"{live.base}/api/runs", verify=NO_CERTIFICATES).content
        )["error"]
