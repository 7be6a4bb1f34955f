"""`tribunal service webhooks`: where the service sends word of cases that end, and what could not be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tribunal.commands.database import run_in_store
from tribunal.commands.shared_options import Database
from tribunal.errors import BadInput
from tribunal.terminal import say
from tribunal.text import count_noun
from tribunal.times import format_date

if TYPE_CHECKING:
    from tribunal.store.engine import Store

app = typer.Typer(help="Add, list, test and remove webhooks; send failed messages again.", no_args_is_help=True)
_PAGE = 200  # failed messages that are read at a time
_TIMEOUT = 20.0  # seconds that a test may take
WebhookId = Annotated[
    str, typer.Argument(metavar="ID", help="The webhook's id, as tribunal service webhooks list shows it.")
]


@app.command("add")
def add_webhook(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where messages are sent: https://…")],
    event: Annotated[
        list[str] | None,
        typer.Option(
            help="case.decided, case.pending, case.appealed, case.escalated, case.expiring, case.failed, …; may be "
            "given several times. Default: all."
        ),
    ] = None,
    with_record: Annotated[
        bool,
        typer.Option("--with-record", help="Send the whole record, with the words of the post."),
    ] = False,
    http: Annotated[bool, typer.Option("--http", help="Accept an address without TLS.")] = False,
    database: Database = None,
) -> None:
    """Add a webhook and print the secret that signs its messages. It is shown only once."""
    from tribunal.service.replica import webhooks as endpoints

    webhook_id, secret = run_in_store(
        database,
        lambda store: endpoints.add_webhook(store, url, event or None, with_record=with_record, http=http),
    )
    say(f"{webhook_id} added. Its secret:", aside=True)
    say(secret)


@app.command("list")
def list_webhooks(
    failed: Annotated[
        bool, typer.Option("--failed", help="List the messages that could not be delivered instead.")
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
        since, state = format_date(row["created"]), "disabled" if row["disabled"] else "active"
        say(f"{row['id']}  {row['url']}  {', '.join(row['events'])}  {record}  since {since}  {state}")


def _list_failed_messages(database: str | None) -> None:
    """List the messages that could not be delivered: id, webhook, type, case, attempts, time, and error."""
    from tribunal.cases.outbox import Outbox

    async def print_messages(store: Store) -> None:
        before = None
        while page := await Outbox(store).list_messages(status="dead", before=before, limit=_PAGE):
            for row in page:
                about = f"{row['event']}  {row['case_id'] or ''}"
                attempts, since = count_noun(row["attempts"], "attempt"), format_date(row["finished"])
                say(f"{row['id']}  {row['webhook_id']}  {about}  {attempts}  {since}  {row['error']}")
            before = page[-1]["id"]

    run_in_store(database, print_messages)


@app.command("remove")
def remove_webhook(webhook_id: WebhookId, database: Database = None) -> None:
    """Remove a webhook, and every message that waits for it."""
    from tribunal.service.replica import webhooks as endpoints

    run_in_store(database, lambda store: endpoints.remove_webhook(store, webhook_id))
    say(f"{webhook_id} removed")


@app.command("test")
def try_webhook(
    webhook_id: WebhookId,
    enable: Annotated[
        bool, typer.Option("--enable", help="Enable it again first: it answered 410 and was disabled.")
    ] = False,
    database: Database = None,
) -> None:
    """Send a message of the type webhook.test and print the answer. Exit status 1: it was not accepted."""
    from tribunal.service.replica import webhooks as endpoints

    if enable:
        run_in_store(database, lambda store: endpoints.enable_webhook(store, webhook_id))
        say(f"{webhook_id} enabled")
    answer = run_in_store(database, lambda store: endpoints.send_test_message(store, webhook_id, _TIMEOUT))
    say(f"{webhook_id}: {answer.error or f'answered {answer.status}'}")
    if answer.error is not None:
        raise typer.Exit(1)


@app.command("replay")
def replay_messages(
    message_id: Annotated[str | None, typer.Argument(metavar="ID", help="A failed message.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All failed messages of enabled webhooks.")] = False,
    database: Database = None,
) -> None:
    """Send failed messages again, under the same ids. A running service sends them."""
    from tribunal.cases.outbox import Outbox

    if (message_id is None) != every:
        raise BadInput("give the id of a failed message, or --all")
    number = run_in_store(database, lambda store: Outbox(store).replay(message_id))
    say(f"{count_noun(number, 'message')} will be sent again")
