"""Cases as tasks for Label Studio, and what annotators chose there: taken in as decisions, or as a data set."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import httpx
from lxml import etree  # type: ignore[import-untyped]

from tests.court import court_script
from tests.doubles import ScriptedServer
from tests.service.conftest import check_exit
from tests.service.decided_here import UNSURE, courtroom, decided, judged, ran, run
from tests.service.live import listening
from tests.service.test_review_export import picture
from tribunal.eval.datasets import open_dataset


def annotated(task: dict[str, Any], *chosen: str, note: str = "", **more: Any) -> dict[str, Any]:
    """A task as Label Studio exports it (the format JSON), annotated by as many people as there are choices."""
    annotations = []
    for number, category in enumerate(chosen, start=1):
        result = [
            {
                "id": f"r{number}", "from_name": "category", "to_name": "text", "type": "choices", "origin": "manual",
                "value": {"choices": [category]},
            },
            {
                "id": f"n{number}", "from_name": "note", "to_name": "text", "type": "textarea", "origin": "manual",
                "value": {"text": [note]},
            },
        ]  # fmt: skip
        annotations.append({
            "id": number, "completed_by": number, "result": result if note else result[:1], "was_cancelled": False,
            "ground_truth": False, "lead_time": 4.2, **more,
        })  # fmt: skip
    return {
        "id": 1,
        "data": task["data"],
        "annotations": annotations,
        "predictions": [],
        "project": 1,
        "inner_id": 1,
    }


async def test_cases_that_wait_are_tasks(database: str, tmp_path: Path) -> None:
    async with courtroom(database) as (client, _):
        waits = await judged(client, text='<View>"post-one"', language="en", image=picture())
        done = await decided(client, "NotHate", text="post-two")
    out = tmp_path / "tasks"
    await ran(
        "review", "export", "--format", "label-studio", "--out", str(out), "--database", database
    )
    [task] = json.loads((out / "tasks.json").read_text("utf-8"))
    data = task["data"]
    assert (data["case"], data["text"], data["language"]) == (waits, '<View>"post-one"', "en")
    assert data["image"].startswith("/data/local-files/?d=images/")
    assert (out / "images" / data["image"].rpartition("/")[2]).is_file()
    [said] = task["predictions"]
    assert (said["score"], said["result"][0]["value"]) == (0.4, {"choices": ["Religious"]})
    view = etree.fromstring((out / "interface.xml").read_text("utf-8"))
    shown = {each.get("value") for each in view if each.tag in ("Text", "Image")}
    assert shown == {"$conversation", "$text", "$image"}
    assert {each[1:] for each in shown} <= data.keys(), "Label Studio refuses a task that lacks one"
    await run(
        "review",
        "export",
        "--format",
        "label-studio",
        "--decided",
        "--out",
        str(out),
        "--database",
        database,
    )
    [task] = json.loads((out / "tasks.json").read_text("utf-8"))
    assert (task["data"]["case"], task["annotations"][0]["result"][0]["value"]) == (
        done,
        {"choices": ["NotHate"]},
    )


async def test_labels_are_decisions_at_a_service(database: str, tmp_path: Path) -> None:
    async with ScriptedServer(court_script(explicit=True, judge=UNSURE)) as server:
        os.environ["OPENAI_BASE_URL"] = (
            f"{server.url}/v1"  # taken away again before the next test (conftest)
        )
        async with (
            listening(database, settings={"model": "openai:scripted"}) as url,
            httpx.AsyncClient(base_url=url, timeout=60) as client,
        ):
            ids = [await judged(client, text=f"post number {place}") for place in range(5)]
            out, labelled = tmp_path / "tasks", tmp_path / "export.json"
            await run(
                "review",
                "export",
                "--format",
                "label-studio",
                "--out",
                str(out),
                "--database",
                database,
            )
            tasks = {
                task["data"]["case"]: task
                for task in json.loads((out / "tasks.json").read_text("utf-8"))
            }
            exported = [
                annotated(tasks[ids[0]], "NotHate", note="a quotation"),
                annotated(tasks[ids[1]], "Religious"),
                annotated(tasks[ids[2]], "NotHate", "Racist"),
                annotated(tasks[ids[3]], "Nonsense"),
                annotated(tasks[ids[4]], "NotHate", was_cancelled=True),
            ]
            labelled.write_text(json.dumps(exported))
            done = await run("review", "import", str(labelled), "--service", url)
            assert done.exit_code == 1
            assert "2 cases decided, 1 refused, 2 not decided" in done.output
            records = [(await client.get(f"/v1/cases/{case}")).json()["record"] for case in ids]
    said = [
        (record["outcome"], record["category"], (record["review"] or {})["action"])
        for record in records
    ]
    assert said == [
        ("verdict", "NotHate", "edit"), ("verdict", "Religious", "accept"),
        *[("pending", None, None)] * 3,
    ]  # fmt: skip
    assert records[0]["explanation"] == "a quotation"
    assert records[0]["review"]["reviewer"].startswith("Label Studio 1")


async def test_labels_are_decisions_in_the_docket_or_a_data_set(tmp_path: Path) -> None:
    async with ScriptedServer(court_script(explicit=True, judge=UNSURE)) as server:
        os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
        judged_here = await run(
            "judge",
            "post-one",
            "--graph",
            "tribunal",
            "--review",
            "--model",
            "openai:scripted",
            "--json",
            "--keep",
        )
        assert judged_here.exit_code == 5, judged_here.output
        thread = json.loads(judged_here.stdout)["thread"]
        out, labelled = tmp_path / "tasks", tmp_path / "export.json"
        await ran("review", "export", "--format", "label-studio", "--out", str(out))
        [task] = json.loads((out / "tasks.json").read_text("utf-8"))
        assert (task["data"]["thread"], task["data"]["text"]) == (thread, "post-one")
        labelled.write_text(json.dumps([annotated(task, "NotHate", note="a quotation")]))
        await ran(
            "review", "import", str(labelled), "--as-dataset", str(tmp_path / "labels.parquet")
        )
        [sample] = open_dataset("table", tmp_path / "labels.parquet")
        assert (sample.text, sample.gold and sample.gold.positive) == ("post-one", False)
        done = await run("review", "import", str(labelled))
        check_exit(done, 0, "1 case decided")
        record = json.loads((await run("review", "show", thread, "--json")).stdout)
        assert (record["category"], record["explanation"], record["review"]["action"]) == (
            "NotHate", "a quotation", "edit",
        )  # fmt: skip
