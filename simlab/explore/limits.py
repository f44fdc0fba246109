"""Refuse requests before they are read: those of other pages, and those whose bodies are too large or too slow."""

import asyncio
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from simlab.explore.refused import Refused

LARGEST_BODY = 16 * 1024  # bytes of a request
BODY_SECONDS = 10.0  # in which it must have come
LARGEST_PATH = 256
RETRY_SECONDS = 1


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
        host, origins = headers.get("host", ""), headers.getlist("origin")
        if host not in self.hosts:
            return refusal(403, f"host {host[:80]!r} is not this server; allowed: {', '.join(sorted(self.hosts))}")
        for origin in origins:
            if origin not in {f"http://{name}" for name in self.hosts}:
                return refusal(403, f"origin {origin[:80]!r} is another page's; allowed: this server's own page")
        if len(scope["path"]) > LARGEST_PATH:
            return refusal(414, f"the path has {len(scope['path'])} characters; allowed: up to {LARGEST_PATH}")
        return None


async def body_of(request: Request) -> bytes:
    """The bytes of a request.

    Raises:
        Refused: for another content type than JSON, or a body that is too large, too slow or breaks off.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refused(400, "the content type is not allowed; allowed: application/json")
    body = b""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > LARGEST_BODY:
                    raise Refused(413, f"the request is too large; allowed: up to {LARGEST_BODY} bytes")
    except TimeoutError:
        raise Refused(408, f"the request came too slowly; allowed: up to {BODY_SECONDS:g} s") from None
    except ClientDisconnect:
        raise Refused(400, "the request broke off") from None
    return body
