"""Heads of the audit log: signed, published to a file, a webhook and a time-stamp server, and compared with the log."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import stat
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from typer.testing import CliRunner, Result

from tests.service.conftest import opened, serving
from tests.service.receiving import receiving
from tests.service.time_stamping import needs_openssl, stamping
from tribunal.commands import app
from tribunal.errors import BadInput
from tribunal.service.replica import webhooks as endpoints
from tribunal.service.replica.head_publishing import HeadPublisher, append_line, parse_targets
from tribunal.store.audit import chained, content, page, read_written_head
from tribunal.store.audit_heads import make_key
from tribunal.store.engine import Store
from tribunal.store.tables import audit, audit_head, published_heads

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


async def run(database: str, *words: str, ends: int = 0, secret: str = "") -> Result:
    told = {"TRIBUNAL_DATABASE": database, "TRIBUNAL_SERVE_PUBLISH_SECRET": secret}
    done = await asyncio.to_thread(lambda: CliRunner().invoke(app, ["audit", *words], env=told))
    assert done.exit_code == ends, done.output
    return done


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


async def write_anew(store: Store) -> None:
    """Write the whole log anew, as somebody might who can write to the database: each entry follows from the last."""
    previous = "0" * 64
    async with store.transaction() as connection:
        for row in await page(store):
            row |= {"name": "somebody else", "previous": previous}
            previous = row["hash"] = chained(previous, row["seq"], content(row))
            await connection.execute(update(audit).where(audit.c.seq == row["seq"]).values(**row))
        await connection.execute(update(audit_head).values(hash=previous))


@pytest.mark.long
async def test_a_signed_head_finds_a_log_that_was_written_anew(database: str, tmp_path: Path) -> None:
    key, heads = tmp_path / "head.key", tmp_path / "heads.jsonl"
    await run(database, "key", str(key))
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    private = key.read_text().splitlines()[1]
    assert "is there already" in (await run(database, "key", str(key), ends=2)).stderr
    signed = ("verify", "--heads", str(heads), "--public-key", f"{key}.pub")
    async with opened(database) as store:
        for number in range(2):
            await endpoints.add_webhook(store, f"https://example.com/{number}")
            with heads.open("a") as file:
                file.write((await run(database, "head", "--sign", str(key))).stdout)
        whole = await run(database, *signed)
        assert whole.stdout.splitlines()[-1] == "2 heads compared with the log, none wrong; 2 signed by the key"
        unchecked = await run(database, "verify", "--heads", str(heads))
        assert "signatures or time-stamps unchecked" in unchecked.stderr
        kept = heads.read_text()
        first, second = lines(heads)
        forged = [
            ({**first, "hash": second["hash"]}, "the log has another entry of this number"),
            ({**first, "at": "2020-01-01T00:00:00+00:00"}, "its signature isn't one of the key"),
            ({**first, "signature": None}, "isn't signed"),
            ({**first, "seq": 9}, "the log has no such entry any more"),
        ]
        for head, why in forged:
            heads.write_text(json.dumps(head) + "\n")
            found = (await run(database, *signed, ends=1)).stdout.splitlines()[-2]
            assert found.startswith(f"{heads}, line 1: head {head['seq']}: {why}"), found
        heads.write_text(kept[:-20])
        assert "1 line of the file cut off" in (await run(database, *signed)).stderr
        heads.write_text(kept)
        await write_anew(store)
        assert (await run(database, "verify")).exit_code == 0, "the documented limit of a log without a head elsewhere"
        assert "it was written anew" in (await run(database, *signed, ends=1)).stdout
    key.chmod(0o640)
    refused = (await run(database, "head", "--sign", str(key), ends=2)).stderr
    assert f"others may read this private key; chmod 600 {key}" in refused
    for words, says in (
        (("head", "--sign", f"{key}.pub"), "chmod 600"),
        (("verify", "--public-key", f"{key}.pub"), "belongs to --heads"),
        (("verify", "--heads", str(heads), "--public-key", str(key)), "is no Ed25519 public key"),
        (("verify", "--heads", str(tmp_path / "none")), "can't be read"),
    ):  # fmt: skip
        error = (await run(database, *words, ends=2)).stderr
        assert (says in error, error.count("\n"), private in error) == (True, 1, False), error


@pytest.mark.long
@needs_openssl
async def test_the_command_publishes_everywhere(database: str, tmp_path: Path) -> None:
    heads, key = tmp_path / "heads.jsonl", tmp_path / "head.key"
    await run(database, "key", str(key))
    async with opened(database) as store, receiving() as receiver, stamping(tmp_path) as stamps:
        nothing = await run(database, "publish", "--to", f"file:{heads}", ends=2)
        assert "there is no head to publish" in nothing.stderr
        await endpoints.add_webhook(store, "https://example.com/")
        end = await read_written_head(store)
        assert end is not None
        to = [f"file:{heads}", receiver.url, f"rfc3161:{stamps.url}"]
        places = [word for place in to for word in ("--to", place)]
        done = await run(database, "publish", *places, "--sign", str(key), "--http", secret=SECRET)
        assert done.stdout.count(f"head {end.seq}: ") == done.stdout.count(": published") == 3
        told = receiver.read(0, SECRET)
        assert (told["type"], told["data"]["hash"]) == ("audit.head", end.hash)
        plain, stamped = lines(heads)
        assert (plain["seq"], plain["hash"], stamped["hash"]) == (end.seq, end.hash, end.hash)
        verify = ("verify", "--heads", str(heads), "--public-key", f"{key}.pub", "--tsa-certificates")
        checked = (await run(database, *verify, str(stamps.certificates))).stdout.splitlines()[-1]
        assert checked.startswith("2 heads compared with the log, none wrong; 2 signed by the key; 1 time-stamped, the")
        other = tmp_path / "other"
        other.mkdir()
        async with stamping(other) as strangers:
            distrusted = await run(database, *verify, str(strangers.certificates), ends=1)
            assert "line 2: head 1: its time-stamp can't be trusted" in distrusted.stdout
        for status in (500, 302):
            receiver.answers = [status]
            failed = await run(database, "publish", "--to", receiver.url, "--http", ends=1)
            assert f"not published: answered {status}" in failed.stdout
    for place, says in (
        (f"rfc3161:{stamps.url}", "name a file:PATH, too"), ("ftp://a", "is no place"), ("http://a/", "has no TLS"),
        ("https://a:b@example.com/", "holds a user"), (f"file:{tmp_path}", "can't be written"),
    ):  # fmt: skip
        error = (await run(database, "publish", "--to", place, ends=2)).stderr
        assert (says in error, error.count("\n")) == (True, 1), error


@needs_openssl
async def test_what_fails_is_tried_again_and_no_head_is_published_twice(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tribunal.service.replica.head_publishing._RETRY_SECONDS", 0.0)
    heads = tmp_path / "heads.jsonl"
    async with (
        opened(database) as one,
        opened(database) as other,
        receiving() as receiver,
        stamping(tmp_path, answers=[503]) as stamps,
    ):
        receiver.answers = [500, 200]
        targets = parse_targets([f"file:{heads}", receiver.url, f"rfc3161:{stamps.url}"], http=True)
        both = [HeadPublisher(each, targets, secret=SECRET) for each in (one, other)]
        await both[0].publish_due()
        assert lines(heads) == [], "an empty log has no head"
        await endpoints.add_webhook(one, "https://example.com/")
        with caplog.at_level(logging.WARNING):
            await asyncio.gather(*(each.publish_due() for each in both))
            await asyncio.gather(*(each.publish_due() for each in both))
            await asyncio.gather(*(each.publish_due() for each in both))
        assert sorted(each.split("): ")[1] for each in caplog.messages) == ["answered 500", "answered 503"]
        assert receiver.url not in caplog.text
        assert [("token" in each) for each in lines(heads)] == [False, True]
        assert len(receiver.came) == 2
        await endpoints.add_webhook(one, "https://example.com/2")
        await both[0].publish_due()
        assert len(lines(heads)) == 2, "the next one is due in an hour"
        await asyncio.gather(*(each.publish_due(stopping=True) for each in both))
        assert [each["seq"] for each in lines(heads)] == [1, 1, 2, 2]
        assert len(receiver.came) == 3
        for row in await one.fetch_rows(published_heads.select()):
            assert (row["seq"], row["claimed"]) == (2, 2)


async def test_a_service_publishes_at_once_and_at_its_stop(database: str, tmp_path: Path) -> None:
    heads = tmp_path / "heads.jsonl"
    async with opened(database) as store:
        await endpoints.add_webhook(store, "https://example.com/")
        options = {"publish_head": (f"file:{heads}", "https://127.0.0.1:9/nobody"), "graph": "baseline"}
        async with serving(database, **options) as client:
            async with asyncio.timeout(60):
                while not heads.read_text():
                    await asyncio.sleep(0.05)
            assert (await client.post("/v1/judge?wait=60", json={"text": "Good morning!"})).status_code == 200
        end = await read_written_head(store)
    assert end is not None
    assert [each["seq"] for each in lines(heads)] == [1, end.seq] == [1, 3]


def test_a_line_that_was_cut_off_spoils_no_other(tmp_path: Path) -> None:
    file = tmp_path / "heads"
    file.write_text('{"seq": 1, "ha')
    append_line(file, "{}")
    append_line(file, "{}")
    assert file.read_text() == '{"seq": 1, "ha\n{}\n{}\n'


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"publish_key": "head.key"}, "publish_key: .*head.key: others may read this private key; chmod 600"),
        ({"publish_key": "none.key"}, "publish_key: .*none.key: can't be read: .*tribunal audit key makes one"),
        (
            {"publish_secret": "secret-words"},
            "publish_secret: is no secret of a webhook; it is whsec_ and base64 of 24 bytes or more$",
        ),
        ({"publish_head": ("rfc3161:https://a.example/",)}, "publish_head: .*name a file:PATH, too"),
    ],
)
async def test_a_service_starts_with_right_options_alone(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    make_key(tmp_path / "head.key")
    (tmp_path / "head.key").chmod(0o644)
    given = {"publish_head": (f"file:{tmp_path / 'heads'}",), **options}
    if "publish_key" in given:
        given["publish_key"] = tmp_path / given["publish_key"]
    with pytest.raises(BadInput, match=says):
        async with serving(f"sqlite:///{tmp_path / 'service.sqlite'}", **given):
            pass
