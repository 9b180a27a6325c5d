"""The web application: the page's own files, what it asks for, and the guard before both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from understudy.dashboard.hub import Hub
from understudy.dashboard.places import Places
from understudy.dashboard.routes import routes
from understudy.dashboard.security import TokenGate

KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
PAGES = ("/", "/runs/{name}", "/federations/{name}", "/compare", "/compare/{name}")


def static_files() -> dict[str, bytes]:
    """Name below ``static`` → contents. Only these are ever sent, whatever is asked for."""
    found = {}
    for room in ("understudy.views", "understudy.dashboard"):
        root = Path(str(files(room) / "static"))
        for path in sorted(root.rglob("*")):
            if path.suffix in KINDS:
                found[path.relative_to(root).as_posix()] = path.read_bytes()
    return found


def dashboard_app(
    given: Sequence[Path], *, token: str, host: str = "127.0.0.1", port: int = 0
) -> ASGIApp:
    """The application for some folders.

    Parameters
    ----------
    given : sequence of path
        Runs folders, folders of studies, own folders of runs, or folders that hold such.
    token : str
        The secret in the address; without it nothing is shown.
    host, port
        Where the server listens.
    """
    hub, contents = Hub(Places(given)), static_files()

    async def page(_: Request) -> Response:
        return _file("index.html", contents)

    async def static(asked: Request) -> Response:
        name = asked.path_params["name"]
        if name not in contents:
            return Response("There is no such file.", 404)
        return _file(name, contents)

    @asynccontextmanager
    async def watching(_: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(hub.watch())
        try:
            yield
        finally:
            task.cancel()

    app = Starlette(
        routes=[
            *(Route(path, page) for path in PAGES),
            Route("/static/{name:path}", static),
            *routes(hub),
        ],
        lifespan=watching,
    )
    app.state.hub = hub
    return TokenGate(app, token, host, port)


def _file(name: str, contents: dict[str, bytes]) -> Response:
    kind = KINDS[Path(name).suffix]
    # a page of an older version would not fit the answers of this one
    return Response(contents[name], headers={"content-type": kind, "cache-control": "no-cache"})
