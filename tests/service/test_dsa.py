"""Statements of reasons: made of decided cases, held to the register's rules, and sent to one that speaks its form."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from sqlalchemy import select, update
from typer.testing import Result

from tests.service.conftest import check_exit, get_json, opened, write
from tests.service.decided_here import contested, courtroom, decided, judged, ran, run
from tribunal.store.audit import verify
from tribunal.store.tables import cases, statements

TOKEN = "9|the-platforms-own-token"
TOLD = (
    "--visibility", "CONTENT_REMOVED", "--field", "decision_ground=DECISION_GROUND_INCOMPATIBLE_CONTENT",
    "--field", "incompatible_content_ground=Terms, section 3", "--field", "source_type=SOURCE_VOLUNTARY",
    "--field", "automated_detection=Yes", "--field", "territorial_scope=EU", "--field", "content_date=received",
)  # fmt: skip
# The rules of the register's own validation (GroupedSubmissionsService::multi_rules), written down apart from ours.
LENGTHS = {
    "decision_facts": 5000, "incompatible_content_explanation": 2000, "illegal_content_explanation": 2000,
    "incompatible_content_ground": 500, "illegal_content_legal_ground": 500, "puid": 500, "source_identity": 500,
}  # fmt: skip
REQUIRED = (
    "decision_ground", "content_type", "category", "content_date", "application_date", "decision_facts", "source_type",
    "automated_detection", "automated_decision", "puid",
)  # fmt: skip
ONE_OF = {
    "decision_ground": "DECISION_GROUND_(ILLEGAL|INCOMPATIBLE)_CONTENT",
    "category": "STATEMENT_CATEGORY_(ILLEGAL_OR_HARMFUL_SPEECH|OTHER_VIOLATION_TC)",
    "source_type": "SOURCE_(ARTICLE_16|TRUSTED_FLAGGER|TYPE_OTHER_NOTIFICATION|VOLUNTARY)",
    "automated_detection": "Yes|No",
    "automated_decision": "AUTOMATED_DECISION_(FULLY|PARTIALLY|NOT_AUTOMATED)",
    "content_date": r"\d{4}-\d\d-\d\d", "application_date": r"\d{4}-\d\d-\d\d", "puid": "[a-zA-Z0-9-_]+",
    "content_language": "[A-Z]{2}",
}  # fmt: skip


def faults(statement: dict[str, Any]) -> dict[str, list[str]]:
    """What the register would say of a statement."""
    found = {
        name: [f"The {name} field is required."] for name in REQUIRED if not statement.get(name)
    }
    found |= {
        name: ["is too long"]
        for name, most in LENGTHS.items()
        if len(statement.get(name, "")) > most
    }
    for name, form in ONE_OF.items():
        if name in statement and not re.fullmatch(form, statement[name]):
            found[name] = [f"The selected {name} is invalid."]
    if not any(
        statement.get(f"decision_{each}")
        for each in ("visibility", "monetary", "provision", "account")
    ):
        found["decision_visibility"] = ["The decision visibility field is required."]
    ground = "illegal" if "ILLEGAL" in statement.get("decision_ground", "") else "incompatible"
    if not statement.get(f"{ground}_content_explanation"):
        found[f"{ground}_content_explanation"] = ["is required"]
    if not set(statement["content_type"]) <= {"CONTENT_TYPE_TEXT", "CONTENT_TYPE_IMAGE"}:
        found["content_type"] = ["invalid"]
    return found


def batches(folder: Path) -> list[list[dict[str, Any]]]:
    files = sorted(folder.glob("*.json"))
    return [json.loads(path.read_text("utf-8"))["statements"] for path in files]


async def make(database: str, out: Path, *more: str, told: tuple[str, ...] = TOLD) -> Result:
    return await run("dsa", "statements", "--out", str(out), *told, "--database", database, *more)


async def test_statements_hold_nothing_of_a_post_and_are_made_once(
    database: str, tmp_path: Path
) -> None:
    async with courtroom(database) as (client, _):
        case = await decided(
            client,
            None,
            text="our-post-words of kim@example.org",
            post_id="user-77",
            language="pt-BR",
        )
        await decided(client, "NotHate", text="harmless after all")
        await decided(client, "Racist", text="another post")
        await judged(client, text="it waits")
    done = await make(database, tmp_path / "out", "--since", "2020-01-01", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["statements"] == 2
    [[first, second]] = batches(tmp_path / "out")
    for each in (first, second):
        assert faults(each) == {}
        assert each["automated_decision"] == "AUTOMATED_DECISION_PARTIALLY"
        assert len(each["territorial_scope"]) == 27
        assert each["category_specification"] == ["KEYWORD_HATE_SPEECH"]
    assert first["content_language"] == "PT"
    assert (
        "of the rules (clause 1.4), which is: An attack"
        in first["incompatible_content_explanation"]
    )
    said = json.dumps([first, second])
    for private in ("our-post-words", "kim", "user-77", case, "attacks a faith", "another post"):
        assert private not in said, private
    again = await make(database, tmp_path / "out", "--json")
    told = json.loads(again.stdout)
    assert (told["statements"], told["left_out"]) == (0, {"stated before": 2})
    listed = await run("dsa", "list", "--case", case, "--database", database)
    assert f"{first['puid']}  {case}  made" in listed.stdout
    async with opened(database) as store:
        assert (await verify(store)).fault is None


async def test_what_states_no_reason_has_no_statement(database: str, tmp_path: Path) -> None:
    async with courtroom(database) as (client, _):
        case = await decided(client, None, text="rude words")
        record = await get_json(client, f"/v1/cases/{case}", "record")
    await write(database, update(cases).values(record={**record, "explanation": "", "cues": []}))
    done = json.loads((await make(database, tmp_path / "out", "--json")).stdout)
    left_out = {"without a reason that could be stated: a person should look": 1}
    assert (done["statements"], done["left_out"]) == (0, left_out)


async def test_a_mapping_differs_by_category_and_a_wrong_one_makes_nothing(
    database: str, tmp_path: Path
) -> None:
    async with courtroom(database) as (client, _):
        await decided(client, None, text="post-one")
        await decided(client, "Racist", text="post-two")
    printed = await run("dsa", "statements", "--example-mapping")
    mapping = tmp_path / "mapping.toml"
    mapping.write_text(printed.stdout + '[category.Racist]\nsource_identity = "somebody"\n')
    wrong = await make(database, tmp_path / "out", "--mapping", str(mapping), told=())
    check_exit(wrong, 2, "source_identity: a voluntary decision has no notifier")
    assert batches(tmp_path / "out") == [], "not even those before it"
    mapping.write_text(
        printed.stdout + '[category.Racist]\ndecision_account = "DECISION_ACCOUNT_SUSPENDED"\n'
    )
    done = await make(database, tmp_path / "out", "--mapping", str(mapping), told=())
    assert done.exit_code == 0, done.output
    [[first, second]] = batches(tmp_path / "out")
    assert (
        first["incompatible_content_ground"] == "Terms of service, section 3.2: attacks for a faith"
    )
    assert "decision_account" not in first
    assert second["decision_account"] == "DECISION_ACCOUNT_SUSPENDED"
    mapping.write_text('[all]\ndecision_visibilty = ["x"]\n')
    misspelt = await make(database, tmp_path / "out", "--mapping", str(mapping), told=())
    check_exit(misspelt, 2, "decision_visibilty")


async def test_a_models_reasons_are_told_without_what_they_quote(
    database: str, tmp_path: Path
) -> None:
    async with courtroom(database) as (client, _):
        await decided(client, None, text="It says post-words, and so, dear @kim, my friend")
    done = await make(database, tmp_path / "out", "--explanations")
    assert done.exit_code == 0, done.output
    [[only]] = batches(tmp_path / "out")
    assert only["incompatible_content_explanation"] == "[…] attacks a faith."


class Fake:
    """A register: it checks the token and the rules, refuses a batch whole, and knows each puid once."""

    def __init__(self) -> None:
        self.url = ""
        self.held: dict[str, dict[str, Any]] = {}
        self.sizes: list[int] = []
        self.before: list[Callable[[], web.Response | None]] = []
        self.wrong: set[str] = set()

    async def take(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.json_response({"message": "Unauthenticated."}, status=401)
        bodies = (await request.json())["statements"]
        if self.before and (answer := self.before.pop(0)()) is not None:
            return answer
        self.sizes.append(len(bodies))
        assert 1 <= len(bodies) <= 100
        errors = {f"statement_{at}": faults(each) for at, each in enumerate(bodies) if faults(each)}
        errors |= {
            f"statement_{at}": {"category": ["The selected category is invalid."]}
            for at, each in enumerate(bodies)
            if each["puid"] in self.wrong
        }
        if errors:
            return web.json_response({"errors": errors}, status=422)
        if known := [each["puid"] for each in bodies if each["puid"] in self.held]:
            said = "The platform identifier(s) are not all unique within this call."
            return web.json_response(
                {"message": said, "errors": {"puid": [said], "existing_puids": known}}, status=422
            )
        made = []
        for each in bodies:
            self.held[each["puid"]] = each
            number = len(self.held)
            made.append(
                {
                    **each,
                    "uuid": f"uuid-{number}",
                    "id": number,
                    "permalink": f"{self.url}/{number}",
                }
            )
        return web.json_response({"statements": made}, status=201)


@asynccontextmanager
async def register() -> AsyncIterator[Fake]:
    fake, app = Fake(), web.Application(client_max_size=2**25)
    app.router.add_post("/api/v1/statements", fake.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}/api/v1/statements"
    try:
        yield fake
    finally:
        await runner.cleanup()


async def many(database: str, count: int) -> None:
    """So many cases like one that was decided."""
    async with courtroom(database) as (client, _):
        case = await decided(client, None, text="post-one")
    async with opened(database) as store, store.transaction() as connection:
        row = dict(
            (await connection.execute(select(cases).where(cases.c.id == case))).mappings().one()
        )
        more = [
            {**row, "id": f"case-{place:05}", "finished": row["finished"] + place}
            for place in range(1, count)
        ]
        if more:
            await connection.execute(cases.insert(), more)


async def states(database: str) -> dict[str, int]:
    async with opened(database) as store, store.reading() as connection:
        found: dict[str, int] = {}
        for (status,) in await connection.execute(select(statements.c.status)):
            found[status] = found.get(status, 0) + 1
        return found


async def test_they_are_sent_in_hundreds_and_each_result_is_kept(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIBUNAL_DSA_TOKEN", TOKEN)
    await many(database, 230)
    made = await make(database, tmp_path / "out")
    assert made.exit_code == 0, made.output
    written = batches(tmp_path / "out")
    assert [len(batch) for batch in written] == [100, 100, 30]
    async with register() as fake:
        fake.wrong = {written[0][3]["puid"]}
        fake.held[written[1][7]["puid"]] = written[1][7]
        done = await run("dsa", "send", "--to", fake.url, "--database", database, "--json")
        assert (done.exit_code, json.loads(done.stdout)) == (
            1,
            {"sent": 228, "known": 1, "refused": 1},
        )
        assert fake.sizes == [100, 99, 100, 99, 30], (
            "a batch of which one is wrong is sent again without it"
        )
        assert fake.held[written[2][0]["puid"]] == written[2][0], "what was written is what is sent"
        again = await run("dsa", "send", "--to", fake.url, "--database", database, "--json")
        assert json.loads(again.stdout) == {"sent": 0, "known": 0, "refused": 0}
        assert len(fake.sizes) == 5, "nothing is sent twice"
    assert await states(database) == {"sent": 228, "known": 1, "refused": 1}


async def test_a_register_that_is_busy_or_breaks_off_is_asked_again(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIBUNAL_DSA_TOKEN", TOKEN)
    await many(database, 2)
    async with register() as fake:

        def busy() -> web.Response:
            return web.Response(status=429, headers={"Retry-After": "0"})

        def broken() -> web.Response:
            return web.Response(status=503, headers={"Retry-After": "0"})

        fake.before = [busy, broken]
        done = await make(database, tmp_path / "out", "--send", "--to", fake.url, "--json")
        assert done.exit_code == 0, done.output
        told = json.loads(done.stdout)
        assert (told["statements"], told["sent"], fake.sizes) == (2, 2, [2])
    assert await states(database) == {"sent": 2}


async def test_a_register_that_stays_away_costs_nothing(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIBUNAL_DSA_TOKEN", TOKEN)
    await many(database, 1)
    async with register() as fake:
        fake.before = [lambda: web.Response(status=500, headers={"Retry-After": "0"})] * 2
        failed = await make(
            database, tmp_path / "out", "--send", "--to", fake.url, "--attempts", "2"
        )
        assert failed.exit_code == 2
        assert await states(database) == {"made": 1}
        monkeypatch.setenv("TRIBUNAL_DSA_TOKEN", "9|another")
        denied = await run("dsa", "send", "--to", fake.url, "--database", database)
        check_exit(denied, 2, "the register refused it (401)")
        assert "9|another" not in denied.output
        monkeypatch.setenv("TRIBUNAL_DSA_TOKEN", TOKEN)
        done = await run("dsa", "send", "--to", fake.url, "--database", database, "--json")
        assert json.loads(done.stdout) == {"sent": 1, "known": 0, "refused": 0}


@pytest.mark.parametrize(
    "url", ["http://register.example/api", "ftp://127.0.0.1/x", "https://user@register.example/x"]
)
async def test_a_token_goes_nowhere_where_others_could_read_it(
    sqlite: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIBUNAL_DSA_TOKEN", TOKEN)
    done = await run("dsa", "send", "--to", url, "--database", sqlite)
    check_exit(done, 2, "to: ")
    monkeypatch.delenv("TRIBUNAL_DSA_TOKEN")
    without = await run("dsa", "send", "--to", "https://register.example/x", "--database", sqlite)
    check_exit(without, 2, "set TRIBUNAL_DSA_TOKEN")


async def test_a_case_that_an_appeal_turned_to_hateful_is_of_the_time_of_the_appeal(
    database: str, tmp_path: Path
) -> None:
    async with courtroom(database) as (client, _):
        case = await contested(client, "Racist", text="post-one", post_id="p1")
    await write(
        database, update(cases).where(cases.c.id == case).values(created=1.7e9, finished=1.7e9)
    )
    done = await make(database, tmp_path / "out", "--since", "2026-01-01")
    assert done.exit_code == 0, done.output
    [[only]] = batches(tmp_path / "out")
    assert (only["content_date"], "was contested" in only["decision_facts"]) == ("2023-11-14", True)
    assert only["application_date"] > "2026-01-01"
    assert "kim-note" not in json.dumps(only)


@pytest.mark.long
async def test_an_erased_case_is_told_of_without_its_words(database: str, tmp_path: Path) -> None:
    async with courtroom(database) as (client, _):
        case = await decided(client, None, text="post-one")
    await ran("cases", "forget", "--case", case, "--yes", "--database", database)
    done = await make(database, tmp_path / "out", "--explanations")
    assert done.exit_code == 0, done.output
    [[only]] = batches(tmp_path / "out")
    assert only["content_type"] == ["CONTENT_TYPE_TEXT"]
    assert "attacks a faith" not in json.dumps(only)


async def test_what_is_erased_before_it_was_sent_is_not_sent(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIBUNAL_DSA_TOKEN", TOKEN)
    async with courtroom(database) as (client, _):
        case = await decided(client, None, text="post-one")
    await make(database, tmp_path / "out", "--explanations")
    await ran("cases", "forget", "--case", case, "--yes", "--database", database)
    async with register() as fake:
        done = await run("dsa", "send", "--to", fake.url, "--database", database, "--json")
        assert json.loads(done.stdout) == {"sent": 0, "known": 0, "refused": 0}
        assert fake.held == {}
    listed = json.loads((await run("dsa", "list", "--json", "--database", database)).stdout)
    assert (listed["case_id"], listed["status"], listed["body"]) == (case, "made", None)
