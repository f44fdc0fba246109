"""Serve the page and its simulations over HTTP, on the loopback interface only."""

import contextlib
import json
import os
import signal
import socket
import sys
import tempfile
import webbrowser
from collections.abc import AsyncIterator
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from simlab.errors import InputError
from simlab.explore.assets import page_file, plotly_script
from simlab.explore.dropped import Dropped
from simlab.explore.html import POLICY, served_page
from simlab.explore.laboratory import Laboratory
from simlab.explore.limits import Guard, body_of, refusal
from simlab.explore.line import Job
from simlab.explore.mass_request import answered
from simlab.explore.own import register_files
from simlab.explore.process import WORKER
from simlab.explore.reading import asked_of, json_of
from simlab.explore.refused import Refused
from simlab.explore.results import Results

HOST = "127.0.0.1"
USUAL_PORT = 8737  # always the same, so that a link to the page outlives a restart
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-cache",
}


def application(port: int, laboratory: Laboratory, results: Results | None = None) -> Guard:
    """What the page's server answers, at a port.

    Routes: ``/`` the page, ``/page/NAME`` its files, ``/plotly.js``, ``/status``, and ``POST /simulate`` with a job,
    which answers with events, a line of JSON each (see ``worker``), ``POST /result`` with a slice of a result,
    ``POST /masses`` with an estimator that has no closed form, and ``POST /open?name=NAME`` with a file that is opened
    as a result.
    """
    opened = results or Results()

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await laboratory.start()
        with tempfile.TemporaryDirectory(prefix="simlab-explore-", ignore_cleanup_errors=True) as folder:
            app.state.dropped = Dropped(opened, Path(folder))
            yield
        await laboratory.stop()

    async def page(_: Request) -> Response:
        return Response(served_page(opened.described()), media_type="text/html")

    async def file(request: Request) -> Response:
        found = page_file(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        content, kind = found
        return Response(content, media_type=kind)

    async def plotly(_: Request) -> Response:
        return Response(plotly_script(), media_type="text/javascript", headers={"Cache-Control": "max-age=86400"})

    async def status(_: Request) -> Response:
        line, left = laboratory.line, laboratory.process.to_compile
        return JSONResponse({"to_compile": left, "running": line.running is not None, "waiting": len(line.waiting)})

    async def simulate(request: Request) -> Response:
        asked = asked_of(json_of(await body_of(request)))
        job = laboratory.submit(asked.job, asked.page)
        return StreamingResponse(_lines(laboratory, job, asked.held), media_type="application/x-ndjson")

    async def result(request: Request) -> Response:
        asked = json_of(await body_of(request))
        return JSONResponse(await run_in_threadpool(opened.answer, asked))

    async def masses(request: Request) -> Response:
        asked = json_of(await body_of(request))
        return JSONResponse(await run_in_threadpool(answered, asked))

    async def open_file(request: Request) -> Response:
        return JSONResponse(await request.app.state.dropped.take(request))

    routes = [
        Route("/", page),
        Route("/page/{name}", file),
        Route("/plotly.js", plotly),
        Route("/status", status),
        Route("/simulate", simulate, methods=["POST"]),
        Route("/result", result, methods=["POST"]),
        Route("/masses", masses, methods=["POST"]),
        Route("/open", open_file, methods=["POST"]),
    ]
    handlers: Any = {Refused: _refused, InputError: _bad_input, HTTPException: _unknown, Exception: _failed}
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    app.router.redirect_slashes = False  # a path that is nearly one of these is nothing
    return Guard(app, port, HEADERS)


async def _lines(laboratory: Laboratory, job: Job, said: list[str]) -> AsyncIterator[bytes]:
    yield _line({"event": "accepted", "held": said})
    async with contextlib.aclosing(laboratory.events(job)) as events:
        async for event in events:
            yield _line(event)


def _line(event: dict[str, Any]) -> bytes:
    return json.dumps(event).encode() + b"\n"


async def _refused(_: Request, error: Refused) -> Response:
    return refusal(error.status, str(error))


async def _bad_input(_: Request, error: InputError) -> Response:
    return refusal(400, str(error))


async def _unknown(request: Request, error: HTTPException) -> Response:
    if error.status_code == 404:
        return refusal(
            404,
            f"{request.url.path!r} is nothing here; allowed: /, /page/NAME, /plotly.js, /status, /simulate, /result, "
            "/masses, /open",
        )
    return refusal(error.status_code, f"{request.method} {request.url.path}: {error.detail}")


async def _failed(_: Request, error: Exception) -> Response:
    return refusal(500, f"the server failed: {type(error).__name__}")


class Server(uvicorn.Server):
    """The page's server at a port; it ends its simulations first, so that nobody waits for them when it stops."""

    def __init__(self, port: int, laboratory: Laboratory, results: Results | None = None):
        self.laboratory = laboratory
        super().__init__(
            uvicorn.Config(
                application(port, laboratory, results),
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,  # nobody stands before this server, so such headers are forged
                timeout_graceful_shutdown=1,
            )
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop, also amid simulations."""
        await self.laboratory.stop()
        await super().shutdown(sockets)


def listening(port: int) -> socket.socket:
    """A socket on the loopback interface.

    Raises:
        InputError: for a port that is taken or not allowed.
    """
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HOST, port))
        # Two servers may share an address that is only bound; one that listens has it to itself.
        found.listen(128)
    except OSError as error:
        found.close()
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"port = {port} cannot be used: {reason}; allowed: a free one, or 0 for any") from None
    return found


def listening_as_usual() -> tuple[socket.socket, str]:
    """A socket at ``USUAL_PORT``, or at any free port if that one is taken, and what is to be said of it."""
    try:
        return listening(USUAL_PORT), ""
    except InputError:
        return listening(0), f"port {USUAL_PORT} is taken; "


def serve(
    port: int | None, *, browser: bool, view: str = "", own: tuple[str, ...] = (), files: tuple[Path, ...] = ()
) -> None:
    """Serve the page until Ctrl-C or SIGTERM, and print its address.

    Args:
        port: the port of the loopback interface; 0 takes a free one, None ``USUAL_PORT`` or else a free one.
        browser: whether to open a browser, where there is a display.
        view: what follows the # of the address.
        own: estimators of the user's own files, ``FILE.py:NAME``.
        files: results of sweeps that the page shows.

    Raises:
        InputError: for a port that is taken, and for what is no such estimator or result.
    """
    register_files(own)
    results = Results(files)
    found, said = listening_as_usual() if port is None else (listening(port), "")
    port = found.getsockname()[1]
    address = f"http://{HOST}:{port}/" + (f"#{view}" if view else "")
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    server = Server(port, Laboratory((*WORKER, *own)), results)
    print(f"explorer  {address}  ({said}Ctrl-C stops it)", flush=True)
    if browser and has_display():
        webbrowser.open(address)
    # uvicorn stops at a signal, and then hands the signal on.
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[found])
    print("stopped")


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def has_display() -> bool:
    """Whether a browser would have somewhere to open."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
