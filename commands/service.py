"""`tribunal service`: API keys, webhooks and database tables of the HTTP service."""

from __future__ import annotations

from typing import Annotated

import typer

from tribunal.clock import database_now
from tribunal.commands.database import run_in_store
from tribunal.commands.shared_options import Database
from tribunal.commands.webhooks import app as webhooks_app
from tribunal.errors import BadInput
from tribunal.terminal import say
from tribunal.times import format_date, moment_of, seconds_of

app = typer.Typer(help="Manage the service: API keys, webhooks, database tables.", no_args_is_help=True)


@app.command("migrate")
def migrate(database: Database = None) -> None:
    """Create or update the tables of the database. Run it once before a new version starts."""
    from tribunal.store.engine import upgrade

    say(f"database tables: version {upgrade(database)}")


keys_app = typer.Typer(help="Make, list, rotate and revoke API keys.", no_args_is_help=True)
app.add_typer(keys_app, name="keys")
app.add_typer(webhooks_app, name="webhooks")


Expires = Annotated[
    str | None, typer.Option(metavar="90d|DATE", help="When the key ends: after this time, or as a date begins (UTC).")
]


@keys_app.command("add")
def add_key(
    name: Annotated[str, typer.Argument(help="The owner of the key.")],
    scope: Annotated[list[str], typer.Option(help="judge, review, lead, audit or admin; may be given several times.")],
    per_minute: Annotated[int | None, typer.Option(min=1, help="Requests a minute.")] = None,
    daily_calls: Annotated[int | None, typer.Option(min=1, help="Model calls a day.")] = None,
    daily_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens a day, in and out.")] = None,
    daily_money: Annotated[float | None, typer.Option(min=0, help="Money a day, by the price table of serve.")] = None,
    expires: Expires = None,
    priority: Annotated[
        int, typer.Option(min=-100, max=100, help="Of its posts in the queue: the higher goes first.")
    ] = 0,
    database: Database = None,
) -> None:
    """Make a key and print it. It is shown this once; only a hash of it is kept."""
    from tribunal.service.replica import keys

    limits = keys.KeyLimits(
        per_minute=per_minute, daily_calls=daily_calls, daily_tokens=daily_tokens, daily_money=daily_money
    )
    end = _end_of_key(expires)
    say(run_in_store(database, lambda store: keys.add_key(store, name, scope, limits, end, priority)))


def _end_of_key(expires: str | None) -> float | None:
    """Return when a key ends, in seconds of the epoch; raise BadInput if that is no time to come."""
    try:
        return None if expires is None else moment_of(expires, database_now())
    except ValueError as error:
        raise BadInput(f"--expires: {error}") from None


@keys_app.command("list")
def list_keys(database: Database = None) -> None:
    """List the keys: id, name, scopes, limits, priority, date, end, and whether revoked or expired."""
    from tribunal.service.replica import keys

    now = database_now()
    for row in run_in_store(database, keys.list_keys):
        limits = ", ".join(f"{name} {row[name]:g}" for name in keys.KeyLimits.model_fields if row[name] is not None)
        limits = f"{limits or 'no limits'}  priority {row['priority']}" if row["priority"] else limits
        since, ends = format_date(row["created"]), row["expires"]
        has_expired = ends is not None and ends <= now
        states = ["revoked" if row["revoked"] else "expired" if has_expired else "active"]
        if ends is not None:
            states.append(f"{'ended' if has_expired else 'ends'} {format_date(ends)}")
        if row["old_expires"] is not None and row["old_expires"] > now:
            states.append(f"its old secret works until {format_date(row['old_expires'])}")
        parts = [row["id"], row["name"], ", ".join(row["scopes"]), limits or "no limits", f"since {since}", *states]
        say("  ".join(parts))


@keys_app.command("rotate")
def rotate_key(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as tribunal service keys list shows it.")],
    overlap: Annotated[
        str, typer.Option(metavar="TIME", help="How long the old key still works; 0 ends it and its desk sessions now.")
    ] = "7d",
    expires: Expires = None,
    database: Database = None,
) -> None:
    """Print a new key in place of an old one, with its id, name, scopes, limits, usage, cases, batches and sessions.

    A key that ends lives as long again, unless --expires says otherwise.
    """
    from tribunal.service.replica import keys

    try:
        seconds = seconds_of(overlap)
    except ValueError as error:
        raise BadInput(f"--overlap: {error}") from None
    end = _end_of_key(expires)
    made, old_ends = run_in_store(database, lambda store: keys.rotate_key(store, key_id, seconds, end))
    say(made)
    works = f"works until {format_date(old_ends)}" if old_ends > database_now() else "opens nothing any more"
    say(f"{key_id}: the old key {works}", aside=True)


@keys_app.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as tribunal service keys list shows it.")],
    database: Database = None,
) -> None:
    """Revoke a key: from now on it is refused."""
    from tribunal.service.replica import keys

    run_in_store(database, lambda store: keys.revoke_key(store, key_id))
    say(f"{key_id}: revoked")
