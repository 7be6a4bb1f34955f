"""The application: FastAPI over a replica."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from sqlalchemy.exc import DataError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Scope

from tribunal.errors import BadInput
from tribunal.service.bounds import Bounded
from tribunal.service.desk import doors, pages
from tribunal.service.desk import routes as desk
from tribunal.service.document import Documented
from tribunal.service.dropins import coop, moderations, perspective
from tribunal.service.dropins.errors import answer
from tribunal.service.replica.away import AWAY
from tribunal.service.replica.house import house
from tribunal.service.replica.options import ServiceOptions
from tribunal.service.replica.problems import Problem
from tribunal.service.routes import (
    appeals,
    audit,
    batches,
    cases,
    erasing,
    explanations,
    figures,
    judge,
    reviews,
    second_opinions,
    seen,
    webhooks,
)
from tribunal.service.seeing.middleware import Noted
from tribunal.service.seeing.sight import Sight

_KINDS = {404: "not_found", 405: "bad_input", 408: "timeout", 413: "too_large", 415: "wrong_type"}


def create_app(options: ServiceOptions) -> FastAPI:
    """The application of one replica, which opens when it starts and closes when it stops."""
    sight = Sight(posts=options.log_posts)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        try:
            async with house(options, sight) as app.state.house:
                yield
        except BadInput as error:
            app.state.refused = error
            raise
        finally:
            await sight.close()

    app = Documented(
        title="Tribunal",
        summary="Decides whether a social-media post is hate speech, and shows why.",
        version=version("tribunal"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.show_document()
    app.include_router(judge.router)
    app.include_router(cases.router)
    app.include_router(explanations.router)
    app.include_router(erasing.router)
    app.include_router(reviews.router)
    app.include_router(appeals.router)
    app.include_router(second_opinions.router)
    app.include_router(figures.router)
    app.include_router(batches.router)
    app.include_router(webhooks.router)
    app.include_router(audit.router)
    app.include_router(perspective.router)
    app.include_router(moderations.router)
    app.include_router(coop.router)
    app.include_router(seen.router)
    app.include_router(desk.router)
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(doors.SignInFirst, doors.to_sign_in)
    app.add_exception_handler(BadInput, _bad_input)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(DataError, _unstorable)
    for away in AWAY:
        app.add_exception_handler(away, _away)
    app.add_exception_handler(HTTPException, _http)
    app.state.sight, app.state.refused = sight, None
    app.add_middleware(Bounded, options=options)
    app.add_middleware(Noted, sight=sight, sorry=_sorry)  # the last that is added is the outermost
    return app


def _answer(request: Request, problem: Problem) -> Response:
    """In the shape of whoever asked: a page for the desk's people, JSON for programs."""
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    return pages.sorry(request, problem) if f"{path}/".startswith(f"{pages.DESK}/") else answer(request, problem)


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)  # noqa: S101 (what it is registered for)
    return _answer(request, error)


def _sorry(scope: Scope, message: str) -> ASGIApp:
    return _answer(Request(scope), Problem("internal", message))


async def _bad_input(request: Request, error: Exception) -> Response:
    return await _problem(request, Problem("bad_input", str(error)))


async def _unstorable(request: Request, _: Exception) -> Response:
    return await _problem(
        request, Problem("bad_input", "the request holds a character that no database takes, such as NUL")
    )


async def _away(request: Request, _: Exception) -> Response:
    return await _problem(
        request, Problem("unavailable", "the database doesn't answer; send it again in a moment", retry_after=1)
    )


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        at, why = first["loc"][-1], first["ctx"]["error"]
        return await _problem(request, Problem("bad_input", f"body: is not JSON: {why}, at character {at}"))
    where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    return await _problem(request, Problem("bad_input", f"{where}: {first['msg']}"))


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    kind = _KINDS.get(error.status_code, "bad_input")
    problem = Problem(kind, str(error.detail))
    problem.status = error.status_code
    answered = _answer(request, problem)
    answered.headers.update(error.headers or {})
    return answered
