"""`tribunal service`: API keys, webhooks and database tables of the HTTP service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option, Typer

from tribunal.commands.database import run_in_store
from tribunal.commands.shared_options import Database
from tribunal.core.text import count_noun
from tribunal.core.times import database_now, format_date, moment_of, seconds_of
from tribunal.errors import BadInput
from tribunal.process.terminal import say

if TYPE_CHECKING:
    from tribunal.store.engine import Store

app = Typer(help="Manage the service: API keys, webhooks, database tables.", no_args_is_help=True)


@app.command("migrate")
def migrate(database: Database = None) -> None:
    """Create or update the tables of the database. Run it once before a new version starts."""
    from tribunal.store.engine import upgrade

    say(f"database tables: version {upgrade(database)}")


keys_app = Typer(help="Make, list, rotate and revoke API keys.", no_args_is_help=True)
app.add_typer(keys_app, name="keys")


Expires = Annotated[
    str | None,
    Option(
        metavar="90d|DATE", help="When the key ends: after this time, or as a date begins (UTC)."
    ),
]


@keys_app.command("add")
def add_key(
    name: Annotated[str, Argument(help="The owner of the key.")],
    scope: Annotated[
        list[str], Option(help="judge, review, lead, audit or admin; may be given several times.")
    ],
    per_minute: Annotated[int | None, Option(min=1, help="Requests a minute.")] = None,
    daily_calls: Annotated[int | None, Option(min=1, help="Model calls a day.")] = None,
    daily_tokens: Annotated[int | None, Option(min=1, help="Tokens a day, in and out.")] = None,
    daily_money: Annotated[
        float | None, Option(min=0, help="Money a day, by the price table of serve.")
    ] = None,
    expires: Expires = None,
    priority: Annotated[
        int, Option(min=-100, max=100, help="Of its posts in the queue: the higher goes first.")
    ] = 0,
    database: Database = None,
) -> None:
    """Make a key and print it. It is shown this once; only a hash of it is kept."""
    from tribunal.service.replica import keys

    limits = keys.KeyLimits(
        per_minute=per_minute,
        daily_calls=daily_calls,
        daily_tokens=daily_tokens,
        daily_money=daily_money,
    )
    end = _end_of_key(expires)
    say(
        run_in_store(
            database, lambda store: keys.add_key(store, name, scope, limits, end, priority)
        )
    )


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
        limits = ", ".join(
            f"{name} {row[name]:g}" for name in keys.KeyLimits.model_fields if row[name] is not None
        )
        limits = (
            f"{limits or 'no limits'}  priority {row['priority']}" if row["priority"] else limits
        )
        since = format_date(row["created"])
        ends = row["expires"]
        has_expired = ends is not None and ends <= now
        states = ["revoked" if row["revoked"] else "expired" if has_expired else "active"]
        if ends is not None:
            states.append(f"{'ended' if has_expired else 'ends'} {format_date(ends)}")
        if row["old_expires"] is not None and row["old_expires"] > now:
            states.append(f"its old secret works until {format_date(row['old_expires'])}")
        parts = [
            row["id"],
            row["name"],
            ", ".join(row["scopes"]),
            limits or "no limits",
            f"since {since}",
            *states,
        ]
        say("  ".join(parts))


@keys_app.command("rotate")
def rotate_key(
    key_id: Annotated[
        str, Argument(metavar="ID", help="The key's id, as tribunal service keys list shows it.")
    ],
    overlap: Annotated[
        str,
        Option(
            metavar="TIME",
            help="How long the old key still works; 0 ends it and its desk sessions now.",
        ),
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
    made, old_ends = run_in_store(
        database, lambda store: keys.rotate_key(store, key_id, seconds, end)
    )
    say(made)
    works = (
        f"works until {format_date(old_ends)}"
        if old_ends > database_now()
        else "opens nothing any more"
    )
    say(f"{key_id}: the old key {works}", aside=True)


@keys_app.command("revoke")
def revoke_key(
    key_id: Annotated[
        str, Argument(metavar="ID", help="The key's id, as tribunal service keys list shows it.")
    ],
    database: Database = None,
) -> None:
    """Revoke a key: from now on it is refused."""
    from tribunal.service.replica import keys

    run_in_store(database, lambda store: keys.revoke_key(store, key_id))
    say(f"{key_id}: revoked")


# Webhooks: where the service sends word of cases that end, and what could not be sent

webhooks_app = Typer(
    help="Add, list, test and remove webhooks; send failed messages again.", no_args_is_help=True
)
app.add_typer(webhooks_app, name="webhooks")
_PAGE = 200  # failed messages that are read at a time
_TIMEOUT = 20.0  # seconds that a test may take
WebhookId = Annotated[
    str,
    Argument(metavar="ID", help="The webhook's id, as tribunal service webhooks list shows it."),
]


@webhooks_app.command("add")
def add_webhook(
    url: Annotated[str, Argument(metavar="URL", help="Where messages are sent: https://…")],
    event: Annotated[
        list[str] | None,
        Option(
            help="case.decided, case.pending, case.appealed, case.escalated, case.expiring, case.failed, …; may be "
            "given several times. Default: all."
        ),
    ] = None,
    with_record: Annotated[
        bool,
        Option("--with-record", help="Send the whole record, with the words of the post."),
    ] = False,
    http: Annotated[bool, Option("--http", help="Accept an address without TLS.")] = False,
    database: Database = None,
) -> None:
    """Add a webhook and print the secret that signs its messages. It is shown only once."""
    from tribunal.service.replica import webhooks as endpoints

    webhook_id, secret = run_in_store(
        database,
        lambda store: endpoints.add_webhook(
            store, url, event or None, with_record=with_record, http=http
        ),
    )
    say(f"{webhook_id} added. Its secret:", aside=True)
    say(secret)


@webhooks_app.command("list")
def list_webhooks(
    failed: Annotated[
        bool, Option("--failed", help="List the messages that could not be delivered instead.")
    ] = False,
    database: Database = None,
) -> None:
    """List the webhooks: id, address, types, with or without the record, date, and whether disabled."""
    from tribunal.service.replica import webhooks as endpoints

    if failed:
        _list_failed_messages(database)
        return
    for row in run_in_store(database, endpoints.list_webhooks):
        record = "with record" if row["with_record"] else "without record"
        since = format_date(row["created"])
        state = "disabled" if row["disabled"] else "active"
        say(
            f"{row['id']}  {row['url']}  {', '.join(row['events'])}  {record}  since {since}  {state}"
        )


def _list_failed_messages(database: str | None) -> None:
    """List the messages that could not be delivered: id, webhook, type, case, attempts, time, and error."""
    from tribunal.docket.outbox import Outbox

    async def print_messages(store: Store) -> None:
        before = None
        while page := await Outbox(store).list_messages(status="dead", before=before, limit=_PAGE):
            for row in page:
                about = f"{row['event']}  {row['case_id'] or ''}"
                attempts = count_noun(row["attempts"], "attempt")
                since = format_date(row["finished"])
                say(
                    f"{row['id']}  {row['webhook_id']}  {about}  {attempts}  {since}  {row['error']}"
                )
            before = page[-1]["id"]

    run_in_store(database, print_messages)


@webhooks_app.command("remove")
def remove_webhook(webhook_id: WebhookId, database: Database = None) -> None:
    """Remove a webhook, and every message that waits for it."""
    from tribunal.service.replica import webhooks as endpoints

    run_in_store(database, lambda store: endpoints.remove_webhook(store, webhook_id))
    say(f"{webhook_id} removed")


@webhooks_app.command("test")
def try_webhook(
    webhook_id: WebhookId,
    enable: Annotated[
        bool, Option("--enable", help="Enable it again first: it answered 410 and was disabled.")
    ] = False,
    database: Database = None,
) -> None:
    """Send a message of the type webhook.test and print the answer. Exit status 1: it was not accepted."""
    from tribunal.service.replica import webhooks as endpoints

    if enable:
        run_in_store(database, lambda store: endpoints.enable_webhook(store, webhook_id))
        say(f"{webhook_id} enabled")
    answer = run_in_store(
        database, lambda store: endpoints.send_test_message(store, webhook_id, _TIMEOUT)
    )
    say(f"{webhook_id}: {answer.error or f'answered {answer.status}'}")
    if answer.error is not None:
        raise Exit(1)


@webhooks_app.command("replay")
def replay_messages(
    message_id: Annotated[str | None, Argument(metavar="ID", help="A failed message.")] = None,
    every: Annotated[
        bool, Option("--all", help="All failed messages of enabled webhooks.")
    ] = False,
    database: Database = None,
) -> None:
    """Send failed messages again, under the same ids. A running service sends them."""
    from tribunal.docket.outbox import Outbox

    if (message_id is None) != every:
        raise BadInput("give the id of a failed message, or --all")
    number = run_in_store(database, lambda store: Outbox(store).replay(message_id))
    say(f"{count_noun(number, 'message')} will be sent again")
