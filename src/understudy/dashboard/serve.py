"""Serves the dashboard until it is interrupted."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from understudy.dashboard.app import dashboard_app
from understudy.dashboard.security import EVERYWHERE, new_token, refuse_open

GRACE = 1  # seconds that open pages have when the server ends


def serve(
    given: Sequence[Path],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    ready: Callable[[str], None] = print,
) -> None:
    """Serve until the process is interrupted.

    Parameters
    ----------
    given : sequence of path
        What to show; see `understudy.dashboard.places.Places`.
    host : str
        The address to listen at; another than this machine's own needs a `token`.
    port : int
        0: a free one.
    token : str, optional
        The secret in the address; by default a random one.
    ready : function of str
        Called with the address once it can be opened.
    """
    refuse_open(host, token)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listening:
        port = listening.getsockname()[1]
        secret = token or new_token()
        shown = "127.0.0.1" if host in EVERYWHERE else host
        shown = f"[{shown}]" if ":" in shown else shown
        app = dashboard_app(given, token=secret, host=host, port=port)
        config = uvicorn.Config(
            app,
            log_level="warning",
            ws="none",  # nothing here uses them
            access_log=False,  # addresses have the token in them
            server_header=False,
            timeout_graceful_shutdown=GRACE,
        )
        ready(f"http://{shown}:{port}/?token={secret}")
        uvicorn.Server(config).run(sockets=[listening])
