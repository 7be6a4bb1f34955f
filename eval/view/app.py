"""The pages over HTTP: GET alone, and for browsers that came here by a name that no stranger can point elsewhere."""

from __future__ import annotations

import ipaddress
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from tribunal.cases.page_files import HEADERS, KEPT_LONG, MEDIA_TYPES, read_page_file
from tribunal.errors import BadInput
from tribunal.eval.view.cases import SampleMoved
from tribunal.eval.view.pages import PageMissing, Pages, render_problem
from tribunal.eval.view.rendering import ASSETS, asset_address

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from tribunal.eval.view.viewed_runs import ViewedRuns


def create_app(runs: ViewedRuns, names: Collection[str] = ()) -> ASGIApp:
    """Return the application.

    Args:
        runs: the runs, whose reading has begun.
        names: what this machine may be called in an address, beside `localhost` and numbers.
    """
    pages = Pages(runs)
    answers: dict[str, Callable[..., Any]] = {
        "/": pages.list_runs,
        "/samples": pages.list_samples,
        "/sample": pages.show_sample,
        "/pairs": partial(pages.list_samples, runs=2),
        "/pair": partial(pages.show_sample, runs=2),
        "/line": pages.show_line,
        "/image/{run:int}/{row:int}": pages.show_image,
        "/favicon.ico": lambda request: Response(status_code=204, headers=HEADERS),
        **{asset_address(name): partial(_answer_asset, name) for name in ASSETS},
    }
    problems: dict[Any, Any] = {
        404: lambda request, error: render_problem(404, "Page not found", "This address does not exist."),
        BadInput: lambda request, error: render_problem(400, "Can't be shown", str(error)),
        PageMissing: lambda request, error: render_problem(404, "Page not found", str(error)),
        SampleMoved: lambda request, error: render_problem(
            409, "The run changed", "Its results changed while this page was made. Reload it."
        ),
    }
    app = Starlette(
        routes=[Route(path, answer) for path, answer in answers.items()],
        exception_handlers=problems,
    )
    return _HostGuard(app, {"localhost", *(name.casefold() for name in names)})


class _HostGuard:
    """Refuses what isn't a GET, and a Host that is a stranger's name: by one, a page of theirs could read ours."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer: ASGIApp = self._app
        if scope["type"] == "http":
            host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
            if not self._is_our_host(host):
                answer = render_problem(
                    421, "Unknown host name", f"Open it by its IP address or as localhost, not as {host[:100]!r}."
                )
            elif scope["method"] not in ("GET", "HEAD"):
                answer = render_problem(405, "Read only", "These pages can't be changed.")
        await answer(scope, receive, send)

    def _is_our_host(self, host: str) -> bool:
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if name.casefold() in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _answer_asset(name: str, request: Request) -> Response:
    read, kind = read_page_file(str(__package__), name), MEDIA_TYPES[name.rpartition(".")[2]]
    return Response(read, media_type=kind, headers={**HEADERS, **KEPT_LONG})
