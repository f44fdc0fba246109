"""What the server refuses before it does any work, and what it holds a simulation to."""

import json
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from simlab.errors import InputError, check_choice, check_whole
from simlab.explore.settings import LARGEST_SEED, hold_panel
from simlab.explore.shapes import ACTIONS, LANES, filled_to

LARGEST_BODY = 16 * 1024  # bytes of a request
LARGEST_PATH = 256
MOST_WAITING = 32  # jobs that wait for the simulating process
JOB_SECONDS = 20.0  # of one block of seeds, after which its process is stopped
COMPILE_SECONDS = 300.0
RETRY_SECONDS = 1
LARGEST_WORK = 2**27  # actions x seeds x steps of one block
SEEDS_AHEAD = 2**16  # by which a block may lie behind the first seed


class Refused(Exception):
    """A request that is answered with a status and one line."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


def refusal(status: int, message: str) -> JSONResponse:
    """The answer to a refused request."""
    headers = {"Retry-After": str(RETRY_SECONDS)} if status == 503 else None
    return JSONResponse({"error": message}, status, headers)


class Guard:
    """Lets through what comes from the page itself, and adds the headers that keep the page to itself.

    A page of another origin cannot reach the server: its requests carry their own Origin, and a name that was made to
    point here carries its own Host.
    """

    def __init__(self, app: ASGIApp, port: int, headers: dict[str, str]):
        self.app, self.headers = app, [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *self.headers]
            await send(message)

        refused = self._refused(scope)
        await (refused or self.app)(scope, receive, send_with_headers)

    def _refused(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self.hosts:
            return refusal(403, f"host {host[:80]!r} is not this server; allowed: {', '.join(sorted(self.hosts))}")
        if origin is not None and origin not in {f"http://{name}" for name in self.hosts}:
            return refusal(403, f"origin {origin[:80]!r} is another page's; allowed: this server's own page")
        if len(scope["path"]) > LARGEST_PATH:
            return refusal(414, f"the path has {len(scope['path'])} characters; allowed: up to {LARGEST_PATH}")
        return None


async def body_of(request: Request) -> Any:
    """The JSON of a request.

    Raises:
        Refused: for a body that is too large, or no JSON.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise Refused(400, "the content type is not application/json")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY:
            raise Refused(413, f"the request is too large; allowed: up to {LARGEST_BODY} bytes")
    try:
        return json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Refused(400, "the request is no JSON") from None


def _no_constant(name: str) -> None:
    raise ValueError(name)


def job_of(body: Any) -> tuple[dict[str, Any], list[str]]:
    """The job that a request asks for, held to the ranges of its settings and to ``LARGEST_WORK``, and what was held.

    Raises:
        InputError: for a request of another form, an unknown setting, or a value that cannot be read.
    """
    if not isinstance(body, dict) or body.keys() - {"panel", "settings", "first"} or "panel" not in body:
        raise InputError("a request holds other things than panel, settings and first")
    check_choice("panel", body["panel"], ("run", "tree"))
    settings, said = hold_panel(body["panel"], body.get("settings", {}))
    first = body.get("first", settings["seed"])
    check_whole("first", first, 0)
    if not 0 <= first - settings["seed"] <= SEEDS_AHEAD or first > LARGEST_SEED:
        raise InputError(f"first = {first} lies too far from seed = {settings['seed']}; allowed: {SEEDS_AHEAD} ahead")
    if body["panel"] == "run":
        said += _hold_work(settings)
    return {"panel": body["panel"], "settings": settings, "first": first}, said


def _hold_work(settings: dict[str, Any]) -> list[str]:
    """Shorten a run of many actions, and say so."""
    most = LARGEST_WORK // (LANES * filled_to(settings["actions"], ACTIONS))
    if settings["steps"] <= most:
        return []
    said = f"steps = {settings['steps']} are too many for {settings['actions']} actions; held at {most}"
    settings["steps"] = most
    return [said]
