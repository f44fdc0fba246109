"""Take result files that are dropped on the page: bounded in size and time, and removed when the server ends."""

import asyncio
import re
import shutil
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request

from simlab.errors import InputError
from simlab.explore.refused import Refused
from simlab.explore.results import Results
from simlab.explore.results_controls import controls_of
from simlab.llm.training.folder import RUN
from simlab.text import shortened

LARGEST_FILE = 512 * 1024**2  # bytes; larger ones open with: simlab explore FILE
FILE_SECONDS = 120.0  # in which it must have come
CONTENT = "application/octet-stream"
NAME = re.compile(r"\w[\w .()+-]{0,99}\.(nc|json)")


class Dropped:
    """Keeps dropped files in a folder, and opens them among some results; one file at a time."""

    def __init__(self, results: Results, folder: Path):
        self.results, self.folder = results, folder
        self.taking = asyncio.Lock()

    async def take(self, request: Request) -> dict[str, Any]:
        """Open the file that a request holds; its name is the query's ``name``.

        Returns:
            ``settings`` of the panel of results that show the file.

        Raises:
            InputError: for a name or a file that is no result's, and for more than ``MOST_FILES``.
            Refused: for another content type, a file that is too large or too slow, and while another one is taken.
        """
        name = checked_name(request.query_params.get("name", ""))
        if request.headers.get("content-type", "") != CONTENT:
            raise Refused(400, f"the content type is not allowed; allowed: {CONTENT}")
        if self.taking.locked():
            raise Refused(503, "another file is being opened; try again in a moment")
        async with self.taking:
            self.results.check_room()
            path = self.folder / str(len(self.results.all)) / name
            path.parent.mkdir()
            try:
                await _received(request, path)
                number = await run_in_threadpool(self.results.add, path)
            except BaseException as error:
                shutil.rmtree(path.parent, ignore_errors=True)
                if isinstance(error, InputError):
                    raise InputError(str(error).replace(str(path), name)) from None
                raise
        return {"settings": self._settings(number)}

    def _settings(self, number: int) -> dict[str, Any]:
        """What the controls of this result alone have at first, and its own name among all."""
        described = self.results.described()
        own = {control.name: control.default for control in controls_of([described[number]])}
        return own | {"results.file": f"{number + 1}: {described[number]['name']}"}


def checked_name(name: str) -> str:
    """The name of a dropped file, without any folder.

    Raises:
        InputError: for a name that no result has.
    """
    if name == RUN:
        raise InputError(f"{RUN} is a part of a run; allowed: its whole folder, by simlab explore FOLDER")
    if not NAME.fullmatch(name):
        raise InputError(
            f"name = {shortened(name)} is no result's; allowed: up to 100 letters, digits, spaces and ._()+-, "
            "ending in .nc or .json"
        )
    return name


async def _received(request: Request, path: Path) -> None:
    size = 0
    try:
        async with asyncio.timeout(FILE_SECONDS):
            with path.open("xb") as file:
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > LARGEST_FILE:
                        raise Refused(
                            413,
                            f"the file is too large; allowed: up to {LARGEST_FILE >> 20} MiB; larger ones open with: "
                            "simlab explore FILE",
                        )
                    file.write(chunk)
    except TimeoutError:
        raise Refused(408, f"the file came too slowly; allowed: up to {FILE_SECONDS:g} s") from None
    except ClientDisconnect:
        raise Refused(400, "the file broke off") from None
