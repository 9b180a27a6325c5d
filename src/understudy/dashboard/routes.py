"""What the page asks for, and what it is answered."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from sse_starlette import EventSourceResponse, JSONServerSentEvent
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from understudy.dashboard import answers
from understudy.dashboard.hub import Hub, Listener, UnreadableRun
from understudy.dashboard.runs import RunInfo
from understudy.views.wire import packed, plain

PING = 15  # seconds: how soon a lost connection is noticed
LARGE = 2**14  # bytes from which on an answer is compressed
MOST_IDS = 60  # sparklines in one answer
BINARY = "application/octet-stream"
Answer = Callable[[Hub, Request], Any]


class NotThere(Exception):
    """What was asked for is not there."""


def routes(hub: Hub) -> list[Route]:
    """All addresses below ``/api``."""
    asked: Mapping[str, Answer] = {
        "/api/overview": lambda hub, _: answers.overview(hub),
        "/api/sparklines": _sparklines,
        "/api/runs/{run}": lambda hub, asked: answers.about_run(hub, _run(hub, asked)),
        "/api/runs/{run}/columns": _columns,
        "/api/runs/{run}/map": _map,
        "/api/runs/{run}/rounds/{t:int}": _cast,
        "/api/runs/{run}/clients": _clients,
        "/api/runs/{run}/arrays": lambda hub, asked: answers.arrays(hub, _run(hub, asked)),
        "/api/studies/{study}/comparison": _comparison,
    }
    found = [Route(path, _served(hub, answer)) for path, answer in asked.items()]
    return [*found, Route("/api/events", _events(hub))]


def _served(hub: Hub, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
    """An answer that is worked out beside the event loop; what goes wrong is told in words."""

    async def endpoint(asked: Request) -> Response:
        try:
            if not hub.listeners:  # nobody looks for changes meanwhile
                await hub.news()
            found = await run_in_threadpool(answer, hub, asked)
        except NotThere as error:
            return _json({"error": str(error)}, asked, 404)
        except UnreadableRun as error:
            # nothing is wrong with the server: this is what there is to show
            return _json({"error": str(error), "unreadable": True}, asked, 200)
        except ValueError as error:
            return _json({"error": str(error)}, asked, 400)
        if isinstance(found, bytes):
            return _zipped(found, BINARY, asked)
        return _json(found, asked)

    return endpoint


def _json(value: Any, asked: Request, status: int = 200) -> Response:
    return _zipped(json.dumps(plain(value)).encode(), "application/json", asked, status)


def _zipped(body: bytes, kind: str, asked: Request, status: int = 200) -> Response:
    headers = {}
    if len(body) > LARGE and "gzip" in asked.headers.get("accept-encoding", ""):
        body, headers = gzip.compress(body, 1), {"content-encoding": "gzip"}
    return Response(body, status, headers, kind)


# -- one answer each -------------------------------------------------------------------------------


def _run(hub: Hub, asked: Request) -> RunInfo:
    """The run that an address names: by what it is called here, never by where it is."""
    found = hub.runs.get(asked.path_params["run"])
    if found is None:
        raise NotThere("There is no such run (any more).")
    return found


def _columns(hub: Hub, asked: Request) -> bytes:
    run = _run(hub, asked)
    head, arrays = answers.columns(hub, run, _number(asked, "since", 0), _number(asked, "epoch", 0))
    return packed(head, arrays)


def _map(hub: Hub, asked: Request) -> bytes:
    window = {name: _number(asked, name, None) for name in ("first", "last", "top", "bottom")}
    rows, columns = _number(asked, "rows", 2000) or 1, _number(asked, "columns", 2000) or 1
    order = asked.query_params.get("order", "number")
    head, arrays = answers.cell_map(
        hub, _run(hub, asked), order=order, rows=min(rows, 4000), columns=min(columns, 4000),
        **window,
    )  # fmt: skip
    return packed(head, arrays)


def _cast(hub: Hub, asked: Request) -> dict[str, Any]:
    found = answers.cast(hub, _run(hub, asked), int(asked.path_params["t"]))
    if found is None:
        raise NotThere("There is no such round (any more).")
    return found


def _clients(hub: Hub, asked: Request) -> dict[str, Any]:
    search = asked.query_params.get("search", "")[:200]
    return answers.clients(hub, _run(hub, asked), search)


def _sparklines(hub: Hub, asked: Request) -> bytes:
    names = asked.query_params.get("runs", "").split(",")[:MOST_IDS]
    runs = [hub.runs[name] for name in names if name in hub.runs]
    found = {run.id: answers.sparkline(hub, run) for run in runs}
    head = {"warned": answers.warned(hub, runs), "kinds": {run: of[0] for run, of in found.items()}}
    return packed(head, {run: values for run, (_, values) in found.items()})


def _comparison(hub: Hub, asked: Request) -> Mapping[str, Any]:
    of_study = [run for run in hub.runs.values() if run.study_id == asked.path_params["study"]]
    if not of_study:
        raise NotThere("There is no such study (any more).")
    given = asked.query_params
    return answers.comparison(
        of_study[0],
        [name for name in given.getlist("strategy") if name],
        given.get("metric") or None,
        given.get("baseline") or None,
    )


def _number(asked: Request, name: str, default: int | None) -> int | None:
    text = asked.query_params.get(name)
    if text is None or text == "":
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise ValueError(f"{name}: expected a number from 0 on, got {text[:40]!r}")
    return int(text)


def _events(hub: Hub) -> Callable[[Request], Awaitable[Response]]:
    """What changes, as it changes; whoever connects, or connects again, is told how all is now."""

    async def endpoint(asked: Request) -> Response:
        wanted = [name for name in asked.query_params.get("runs", "").split(",") if name]
        return EventSourceResponse(_stream(hub, wanted or None), ping=PING)

    return endpoint


async def _stream(hub: Hub, wanted: list[str] | None) -> AsyncIterator[JSONServerSentEvent]:
    await hub.news()
    listener = Listener(wanted)
    hub.listeners.add(listener)
    try:
        names: set[str] = set(hub.runs if wanted is None else wanted)
        while True:
            # one event for whatever happened meanwhile: who reads slowly is told less often
            told = [answers.brief(hub, hub.runs[name]) for name in names if name in hub.runs]
            gone = [name for name in names if name and name not in hub.runs]
            yield JSONServerSentEvent(plain({"runs": told, "gone": gone}), event="changed")
            await listener.event.wait()
            listener.event.clear()
            names, listener.changed = listener.changed, set()
            await asyncio.sleep(0)
    finally:
        hub.listeners.discard(listener)
