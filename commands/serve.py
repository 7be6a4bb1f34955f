"""`tribunal serve`: the HTTP service; `tribunal migrate` makes its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tribunal.commands.errors import ending_well
from tribunal.terminal import say

Database = Annotated[
    str | None,
    typer.Option(
        envvar="TRIBUNAL_DATABASE",
        metavar="URL",
        help="postgresql://user@host/name; without it a SQLite file in the data folder.",
    ),
]


def installed() -> None:
    """See that what the service is made of is there.

    Raises:
        BadInput: it isn't; with the command that installs it.
    """
    from importlib.util import find_spec

    from tribunal.errors import BadInput

    if missing := next((name for name in ("fastapi", "sqlalchemy", "alembic") if find_spec(name) is None), None):
        raise BadInput(f"service: {missing} is not installed; pip install 'tribunal[service]'")


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.")] = 8080,
    database: Database = None,
    graph: Annotated[str, typer.Option(help="The graph that judges where a request names none.")] = "tribunal",
    in_flight: Annotated[int, typer.Option(help="Posts that are judged at the same time.")] = 64,
    queue: Annotated[int, typer.Option(help="Posts that may wait; more are refused with 429.")] = 1000,
    takeover: Annotated[
        float, typer.Option(help="Seconds of silence after which another replica counts as dead.")
    ] = 30.0,
    prices: Annotated[Path | None, typer.Option(help="The price table (TOML) for budgets in money.")] = None,
) -> None:
    """Answer other programs over HTTP. /docs on its address shows every route."""
    with ending_well():
        installed()
        from tribunal.service.replica.options import ServiceOptions
        from tribunal.service.serving import run

        run(
            ServiceOptions(
                host=host,
                port=port,
                database=database,
                graph=graph,
                in_flight=in_flight,
                queue=queue,
                takeover=takeover,
                prices=prices,
            )
        )


def migrate(database: Database = None) -> None:
    """Make or update the tables of the service's database. Do it once before a new version starts."""
    with ending_well():
        installed()
        from tribunal.store.engine import upgrade

        say(f"the tables are of version {upgrade(database)}")
