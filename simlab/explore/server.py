"""Serve the page and its simulations over HTTP, on the loopback interface only."""

import contextlib
import functools
import json
import os
import re
import shutil
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
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from simlab.errors import InputError, check_choice, check_whole
from simlab.explore.answers import QUESTIONS, answer
from simlab.explore.block import ACTIONS, BLOCK_SEEDS, fill_up
from simlab.explore.controls import SIMULATED, check_plain, hold_panel
from simlab.explore.laboratory import WORKER, Laboratory
from simlab.explore.page import POLICY, page_file, plotly_script, served_page
from simlab.explore.results import Results, result_controls
from simlab.explore.weights import register_files
from simlab.llm.training.folder import RUN
from simlab.text import read_number, shortened

HOST = "127.0.0.1"
USUAL_PORT = 8737  # always the same, so that a link to the page outlives a restart
HEADERS = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}
JOB_ENTRIES = ("panel", "settings", "first", "page")
LARGEST_WORK = 2**27  # actions x seeds x steps of one block
BANK_ACTIONS = 32  # of each prompt
SEEDS_AHEAD = 2**16  # of a block, from the first seed
RESULT_NAME = re.compile(r"\w[\w .()+-]{0,99}\.(nc|json)")


class SamePage:
    """Passes on requests of the page itself alone, and adds ``HEADERS`` to the answers.

    A page of another origin sends its own Origin, and a name that was made to point here (DNS rebinding) its own Host.
    """

    def __init__(self, app: ASGIApp, port: int):
        self.app = app
        self.hosts = {f"{name}:{port}" for name in (HOST, "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
            await send(message)

        app = self.app
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            host, origin = headers.get("host", ""), headers.get("origin", "")
            if host not in self.hosts or (origin and origin.removeprefix("http://") not in self.hosts):
                app = _refusal(403, "the request comes from another page; allowed: this server's own page")
        await app(scope, receive, send_with_headers)


def application(port: int, laboratory: Laboratory, results: Results | None = None) -> SamePage:
    """Return the page's server at a port.

    Routes: ``/`` the page, ``/page/NAME`` its files, ``/plotly.js``, ``/status``; ``POST /simulate`` with a job, whose
    answer is a stream of events (see ``worker``); ``POST`` of a list of questions to ``/masses``, ``/formula`` and
    ``/bank`` (see ``answers``) and to ``/result``; and ``POST /open?name=NAME`` with a file to open as a result.
    """
    opened = results or Results()

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await laboratory.start()
        with tempfile.TemporaryDirectory(prefix="simlab-explore-", ignore_cleanup_errors=True) as folder:
            app.state.folder = Path(folder)
            yield
        await laboratory.stop()

    async def page(_: Request) -> Response:
        return Response(served_page(opened.describe()), media_type="text/html")

    async def file(request: Request) -> Response:
        content = page_file(request.path_params["name"])
        if content is None:
            raise HTTPException(404)
        return Response(content[0], media_type=content[1])

    async def plotly(_: Request) -> Response:
        return Response(plotly_script(), media_type="text/javascript")

    async def status(_: Request) -> Response:
        running, waiting = laboratory.running is not None, len(laboratory.waiting)
        return JSONResponse({"to_compile": laboratory.to_compile, "running": running, "waiting": waiting})

    async def simulate(request: Request) -> Response:
        body, notes, page = read_job(await _json(request))
        job = laboratory.submit(body, page)

        async def lines() -> AsyncIterator[bytes]:
            yield json.dumps({"event": "accepted", "held": notes}).encode() + b"\n"
            async with contextlib.aclosing(laboratory.events(job)) as events:
                async for event in events:
                    yield json.dumps(event).encode() + b"\n"

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def questions(request: Request) -> Response:
        path, bodies = request.url.path.removeprefix("/"), await _json(request)
        if not isinstance(bodies, list):
            raise InputError("the request is no list; allowed: a list of questions")
        find_answer = functools.partial(answer, path) if path in QUESTIONS else opened.answer
        return JSONResponse(await run_in_threadpool(lambda: [find_answer(body) for body in bodies]))

    async def open_file(request: Request) -> Response:
        return JSONResponse({"settings": await _open_dropped(request, opened)})

    routes = [
        Route("/", page),
        Route("/page/{name}", file),
        Route("/plotly.js", plotly),
        Route("/status", status),
        Route("/simulate", simulate, methods=["POST"]),
        *(Route(f"/{path}", questions, methods=["POST"]) for path in (*QUESTIONS, "result")),
        Route("/open", open_file, methods=["POST"]),
    ]
    handlers: Any = {
        InputError: lambda _, error: _refusal(400, str(error)),
        HTTPException: lambda request, error: _refusal(error.status_code, f"{request.url.path}: {error.detail}"),
        Exception: lambda _, error: _refusal(500, f"the server failed: {type(error).__name__}"),
    }
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    app.router.redirect_slashes = False  # a path that is nearly one of these is none
    return SamePage(app, port)


def _refusal(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status)


async def _json(request: Request) -> Any:
    """Return the JSON of a body, its numbers finite and of bounded length."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        body = await request.body()
        return json.loads(body, parse_int=read_number, parse_float=read_number, parse_constant=refuse)
    except InputError:
        raise
    except (ValueError, RecursionError, ClientDisconnect):
        raise InputError("the request is no JSON") from None


def read_job(body: Any) -> tuple[dict[str, Any], list[str], str]:
    """Read a request to simulate; its settings are held to their ranges and to ``LARGEST_WORK``.

    Returns:
        The job for the simulating process (panel, settings, first seed), notes on settings that were held, and the
        name that the page has given itself, "" for none.

    Raises:
        InputError: for a request of another form, an unknown setting, or a value that cannot be read.
    """
    if not isinstance(body, dict) or "panel" not in body:
        raise InputError(f"the request is no object with a panel; allowed: {', '.join(JOB_ENTRIES)}")
    for name in body:
        check_choice("entry", name, JOB_ENTRIES)
    panel, page = body["panel"], body.get("page", "")
    check_choice("panel", panel, SIMULATED)
    check_plain("page", page)
    settings, notes = hold_panel(panel, body.get("settings", {}))
    first = body.get("first", settings["seed"])
    check_whole("first", first, settings["seed"], settings["seed"] + SEEDS_AHEAD)
    actions = 1
    if panel == "run":
        actions = fill_up(settings["actions"], ACTIONS)
    elif panel == "bank":
        actions = settings["prompts"] * max(BANK_ACTIONS, settings["group_size"])
    most = LARGEST_WORK // (BLOCK_SEEDS * actions)
    if settings["steps"] > most:
        notes.append(f"steps = {settings['steps']} are too many for {actions} actions; held at {most}")
        settings["steps"] = most
    return {"panel": panel, "settings": settings, "first": first}, notes, str(page)


async def _open_dropped(request: Request, results: Results) -> dict[str, Any]:
    """Open the file of a request as a result; return the settings of the panel of results that show it."""
    name = request.query_params.get("name", "")
    if name == RUN or not RESULT_NAME.fullmatch(name):
        raise InputError(
            f"name = {shortened(name)} is no result's; allowed: up to 100 letters, digits, spaces and ._()+-, "
            "ending in .nc or .json; a run opens by its folder: simlab explore FOLDER"
        )
    folder = Path(tempfile.mkdtemp(dir=request.app.state.folder))
    try:
        with (folder / name).open("xb") as file:
            async for chunk in request.stream():
                file.write(chunk)
        number = await run_in_threadpool(results.add, folder / name)
    except (InputError, ClientDisconnect) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise InputError(str(error).replace(str(folder / name), name) or f"{name} broke off") from None
    described = results.describe()[number]
    defaults = {control.name: control.default for control in result_controls([described])}
    return defaults | {"results.file": f"{number + 1}: {described['name']}"}


# Starting and stopping


class ExplorerServer(uvicorn.Server):
    """The page's server; it ends its simulations first when it stops, so that nobody waits for them."""

    def __init__(self, port: int, laboratory: Laboratory, results: Results | None = None):
        self.laboratory = laboratory
        app = application(port, laboratory, results)
        super().__init__(uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop, also amid simulations."""
        await self.laboratory.stop()
        await super().shutdown(sockets)


def listen(port: int) -> socket.socket:
    """Return a socket that listens on the loopback interface.

    Raises:
        InputError: for a port that is taken or not allowed.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(128)  # now: two servers may share an address that is only bound
    except OSError as error:
        listener.close()
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"port = {port} cannot be used: {reason}; allowed: a free one, or 0 for any") from None
    return listener


def listen_as_usual() -> tuple[socket.socket, str]:
    """Listen at ``USUAL_PORT``, or at any free port if that one is taken, which a note says."""
    try:
        return listen(USUAL_PORT), ""
    except InputError:
        return listen(0), f"port {USUAL_PORT} is taken; "


def serve(
    port: int | None, *, browser: bool, view: str = "", estimators: tuple[str, ...] = (), files: tuple[Path, ...] = ()
) -> None:
    """Serve the page until Ctrl-C or SIGTERM, and print its address.

    Args:
        port: the port of the loopback interface; 0 takes a free one, None ``USUAL_PORT`` or else a free one.
        browser: True to open a browser, where there is a display.
        view: the part of the address after its #.
        estimators: estimators of the user's own files, ``FILE.py:NAME``.
        files: results that the page shows.

    Raises:
        InputError: for a port that is taken, and for what is no such estimator or result.
    """
    register_files(estimators)
    results = Results(files)
    listener, note = listen_as_usual() if port is None else (listen(port), "")
    port = listener.getsockname()[1]
    address = f"http://{HOST}:{port}/" + (f"#{view}" if view else "")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)
    server = ExplorerServer(port, Laboratory((*WORKER, *estimators)), results)
    print(f"explorer  {address}  ({note}Ctrl-C stops it)", flush=True)
    if browser and (sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))):
        webbrowser.open(address)
    # uvicorn stops at a signal, and then hands the signal on.
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener])
    print("stopped")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
