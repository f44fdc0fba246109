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
from simlab.explore.controls import SIMULATED, hold_panel
from simlab.explore.laboratory import WORKER, Laboratory
from simlab.explore.page import POLICY, page_file, served_page
from simlab.explore.panel_runs import ACTIONS, BLOCK_SEEDS, fill_up
from simlab.explore.results import Results, refuse_log, result_controls
from simlab.explore.weights import register_files
from simlab.llm.training.folder import RUN
from simlab.text import shortened

HOST = "127.0.0.1"
USUAL_PORT = 8737  # always the same, so that a link to the page outlives a restart
HEADERS = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}
LARGEST_WORK = 2**27  # actions x seeds x steps of one block
BANK_ACTIONS = 32  # of each prompt
SEEDS_AHEAD = 2**16  # of a block, from the first seed
RESULT_NAME = re.compile(r"\w[\w .()+-]{0,99}\.(nc|json)")


def same_page(app: ASGIApp, port: int) -> ASGIApp:
    """Pass on the page's own requests alone, by Host and Origin (against DNS rebinding), and add ``HEADERS``."""
    hosts = {f"{name}:{port}" for name in (HOST, "localhost")}

    async def answer_same_page(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
            await send(message)

        chosen = app
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            host, origin = headers.get("host", ""), headers.get("origin", "")
            if host not in hosts or (origin and origin.removeprefix("http://") not in hosts):
                chosen = _refusal(403, "the request comes from another page; allowed: this server's own page")
        await chosen(scope, receive, send_with_headers)

    return answer_same_page


def application(port: int, laboratory: Laboratory, results: Results | None = None) -> ASGIApp:
    """Return the page's server: page, status, ``/simulate`` (events of ``laboratory``), answers, results, ``/open``."""
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

    async def status(_: Request) -> Response:
        return JSONResponse({"to_compile": laboratory.to_compile})

    async def simulate(request: Request) -> Response:
        body, notes = read_job(await request.json())

        async def lines() -> AsyncIterator[bytes]:
            yield json.dumps({"event": "accepted", "held": notes}).encode() + b"\n"
            async with contextlib.aclosing(laboratory.events(body)) as events:
                async for event in events:
                    yield json.dumps(event).encode() + b"\n"

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def questions(request: Request) -> Response:
        path, bodies = request.url.path.removeprefix("/"), await request.json()
        find_answer = functools.partial(answer, path) if path in QUESTIONS else opened.answer
        return JSONResponse(await run_in_threadpool(lambda: [find_answer(body) for body in bodies]))

    async def open_file(request: Request) -> Response:
        return JSONResponse({"settings": await _open_dropped(request, opened)})

    routes = [
        Route("/", page),
        Route("/page/{name}", file),
        Route("/status", status),
        Route("/simulate", simulate, methods=["POST"]),
        *(Route(f"/{path}", questions, methods=["POST"]) for path in (*QUESTIONS, "result")),
        Route("/open", open_file, methods=["POST"]),
    ]
    of_another_form = (ValueError, TypeError, LookupError, AttributeError, RecursionError, ClientDisconnect)
    handlers: Any = {
        **dict.fromkeys(of_another_form, lambda _, error: _refusal(400, f"the request cannot be read: {error!r}")),
        InputError: lambda _, error: _refusal(400, str(error)),
        HTTPException: lambda request, error: _refusal(error.status_code, f"{request.url.path}: {error.detail}"),
        Exception: lambda _, error: _refusal(500, f"the server failed: {type(error).__name__}"),
    }
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    app.router.redirect_slashes = False  # a path that is nearly one of these is none
    return same_page(app, port)


def _refusal(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status)


def read_job(body: Any) -> tuple[dict[str, Any], list[str]]:
    """Return a job for the simulating process, held to its ranges and ``LARGEST_WORK``, and notes on what was held."""
    panel = body["panel"]
    check_choice("panel", panel, SIMULATED)
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
    return {"panel": panel, "settings": settings, "first": first}, notes


async def _open_dropped(request: Request, results: Results) -> dict[str, Any]:
    """Open the file of a request as a result; return the settings of the panel of results that show it."""
    name = request.query_params.get("name", "")
    refuse_log(name)
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


def listen(port: int | None) -> tuple[socket.socket, str]:
    """Return a socket of the loopback interface, 0 for any free port, and a note if ``USUAL_PORT`` (None) is taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, USUAL_PORT if port is None else port))
        listener.listen(128)  # now: two servers may share an address that is only bound
    except OSError as error:
        listener.close()
        if port is None:
            return listen(0)[0], f"port {USUAL_PORT} is taken; "
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"port = {port} cannot be used: {reason}; allowed: a free one, or 0 for any") from None
    return listener, ""


def serve(
    port: int | None, *, browser: bool, view: str = "", estimators: tuple[str, ...] = (), files: tuple[Path, ...] = ()
) -> None:
    """Serve the page until Ctrl-C or SIGTERM; ``view`` is the part of the address after its #."""
    register_files(estimators)
    results = Results(files)
    listener, note = listen(port)
    port = listener.getsockname()[1]
    address = f"http://{HOST}:{port}/" + (f"#{view}" if view else "")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    server = ExplorerServer(port, Laboratory((*WORKER, *estimators)), results)
    print(f"explorer  {address}  ({note}Ctrl-C stops it)", flush=True)
    if browser and (sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))):
        webbrowser.open(address)
    # uvicorn stops at a signal, and then hands the signal on.
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener])
    print("stopped")
