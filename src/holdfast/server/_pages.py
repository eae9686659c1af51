"""The web page: files that were built beforehand, served as they are."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

_PLAIN = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Holdfast</title>'
    '<h1>Holdfast</h1><p>The server is up. <a href="docs">The API</a></p></html>'
)


def routes() -> list[Route | Mount]:
    """The page, if this installation has it; else one that says where the API is."""
    static = _static()
    if static is None:
        return [Route("/", _plain)]
    index = HTMLResponse((static / "index.html").read_bytes())

    async def page(request: Request) -> Response:
        request.scope["endpoint_path"] = "/"
        return index

    return [Route("/", page), Mount("/assets", StaticFiles(directory=static / "assets", follow_symlink=False))]


async def _plain(request: Request) -> Response:
    request.scope["endpoint_path"] = "/"
    return HTMLResponse(_PLAIN)


def _static() -> Path | None:
    found = importlib.util.find_spec("holdfast")
    places = [Path(place) / "web" / "static" for place in (found.submodule_search_locations or [])] if found else []
    return next((place for place in places if (place / "index.html").is_file()), None)
