"""The application: FastAPI over a replica."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from tribunal.errors import BadInput
from tribunal.service.replica.house import house
from tribunal.service.replica.options import ServiceOptions
from tribunal.service.replica.problems import Problem
from tribunal.service.routes import cases, judge

_KINDS = {404: "not_found", 405: "bad_input", 413: "too_large", 415: "wrong_type"}


def create_app(options: ServiceOptions) -> FastAPI:
    """The application of one replica, which opens when it starts and closes when it stops."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with house(options) as app.state.house:
            yield

    app = FastAPI(
        title="Tribunal",
        summary="Decides whether a social-media post is hate speech, and shows why.",
        version=version("tribunal"),
        lifespan=lifespan,
        redoc_url=None,
    )
    app.include_router(judge.router)
    app.include_router(cases.router)
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(BadInput, _bad_input)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    return app


async def _problem(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Problem)  # noqa: S101 (what it is registered for)
    return JSONResponse(error.body(), error.status, error.headers())


async def _bad_input(request: Request, error: Exception) -> JSONResponse:
    return await _problem(request, Problem("bad_input", str(error)))


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    return await _problem(request, Problem("bad_input", f"{where}: {first['msg']}"))


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101
    kind = _KINDS.get(error.status_code, "bad_input")
    shape = Problem(kind, str(error.detail))
    return JSONResponse(shape.body(), error.status_code, dict(error.headers or {}))
