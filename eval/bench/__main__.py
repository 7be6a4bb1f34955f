"""The benchmark: `python -m tribunal.eval.bench`. Prints figures and ratios, as Markdown; fails at nothing.

The model server is a scripted one on loopback, in a process of its own, so that what is measured is this project's
client: processor time per model call (of the whole process, graph included), wall time over the bound, memory.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import platform
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tribunal.eval.bench.bound import bound
from tribunal.eval.doubles.scripted import Reply, Request

TRACKS = ("deep", "fast", "none", "deep")
IN_FLIGHT = (1, 16, 64, 256)
LATENCIES = (0.2, 1.0)


def court(request: Request) -> Reply:
    """The scripted court: each part's answer, steered by `[[track=…]]` in the post."""
    task = request.text.rpartition("# Your part: ")[2]
    track = request.hints.get("track", "none")
    if task.startswith(("the Judge", "the safety classifier", "the first look")):
        sure = 0.5 if task.startswith("the first look") and track != "none" else 0.95
        sure_too = {"confidence": sure} if "- confidence:" in task else {}
        return Reply({"category": "NotHate", "explanation": "the defence stands " * 8, **sure_too})
    if task.startswith(("the Defender", "the Prosecutor, in round")):
        stance = "refute" if task.startswith("the Defender") else "press"
        said = {"cue_id": "C1", "target_group": "religion", "claim": "a claim of some length"}
        return Reply({"arguments": [{**said, "stance": stance, "argument": "an argument that goes on " * 8}]})
    explicit = task.startswith(("the Prosecutor, in a fast", "the Prosecutor's rapid"))
    found = track == ("fast" if explicit else "deep")
    cue = {
        "type": "Direct" if explicit else "Metaphor",
        "target_group": "religion",
        "claim": "a claim of some length",
        "category": "Religious",
        "justification": "a justification of the usual length " * 6,
    }
    return Reply({"cues": [cue] if found else []})


@contextlib.contextmanager
def server(latency: float, script: str = "tribunal.eval.bench.__main__:court") -> Iterator[str]:
    """A scripted model server in a process of its own; gives its base URL."""
    command = [sys.executable, "-m", "tribunal.eval.doubles.scripted", "--latency", str(latency), "--script", script]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None  # noqa: S101 (it was asked for)
        port = json.loads(process.stdout.readline())["port"]
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def posts(number: int) -> Iterator[str]:
    """Posts of the usual length, of which half take the deep dive, a quarter the fast track, a quarter is dismissed."""
    for place in range(number):
        track = TRACKS[place % len(TRACKS)]
        yield f"[[track={track}]] post {place}: " + "some words that a person might have written about their day " * 3


@dataclass
class Measured:
    """What a run took. Times in seconds, memory in MB."""

    posts: int
    calls: int
    wall: float
    bound: float
    cpu: float
    peak: float

    @property
    def cpu_per_call(self) -> float:
        """Milliseconds."""
        return 1000 * self.cpu / max(self.calls, 1)


async def run(number: int, in_flight: int, latency: float, image: str | None = None, **settings: Any) -> Measured:
    """So many posts through `arcade`, at most `in_flight` at once, in order."""
    from tribunal.cases.session import hear, settle
    from tribunal.context import context_from

    context = context_from({"model": "openai:scripted", **settings})
    waiting = posts(number)
    calls: list[int] = [0] * number
    places = iter(range(number))

    async def seat() -> None:
        for text in waiting:
            place = next(places)
            record = await hear(text, image, graph="arcade", context=context)
            if record.outcome != "verdict":
                raise RuntimeError(f"the benchmark's court failed: {record.fault} {record.explanation}")
            calls[place] = len(record.calls)

    await hear("[[track=deep]] warming up", image, graph="arcade", context=context)
    # What the imports left behind would be walked by every full collection; a long run sets it aside.
    settle()
    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(seat() for _ in range(in_flight)))
    took, spent = time.perf_counter() - wall, time.process_time() - cpu
    best = bound((count * latency for count in calls), in_flight)
    return Measured(number, sum(calls), took, best, spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def measure(number: int, in_flight: int, latency: float, image: str | None = None) -> Measured:
    with server(latency) as url:
        os.environ["OPENAI_BASE_URL"] = f"{url}/v1"
        return asyncio.run(run(number, in_flight, latency, image))


def apart(number: int, in_flight: int, latency: float) -> Measured:
    """`measure` in a process of its own, so that its peak of memory is its own."""
    call = "import json, tribunal.eval.bench.__main__ as b; "
    call += f"print(json.dumps(vars(b.measure({number}, {in_flight}, {latency}))))"
    done = subprocess.run([sys.executable, "-c", call], stdout=subprocess.PIPE, text=True, check=True)
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def machine() -> str:
    """The machine's size, and a figure for how quick one of its cores is: adding ten million numbers in Python."""
    started = time.process_time()
    total = 0
    for number in range(10_000_000):
        total += number
    speed = time.process_time() - started
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GB, Python {platform.python_version()}, {platform.system()}; "
        f"ten million additions in a loop take {speed:.2f} s of processor time"
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def calls_section(quick: bool) -> None:
    print("### ARCADE: wall time over the bound, and processor time per call\n")
    rows = []
    for latency in LATENCIES:
        for in_flight in IN_FLIGHT if not quick else (1, 16):
            # As many as make both latencies run about as long: in a short run the first wave alone decides.
            number = in_flight if quick else max(round(3 / latency) * min(in_flight, 64), in_flight, 4)
            got = measure(number, in_flight, latency)
            rows.append(
                (
                    f"{latency:g} s", str(in_flight), str(got.posts), str(got.calls), f"{got.wall:.2f} s",
                    f"{got.bound:.2f} s", f"{got.wall / got.bound:.3f}", f"{got.cpu_per_call:.2f} ms",
                )
            )  # fmt: skip
    table(("per call", "in flight", "posts", "calls", "wall", "bound", "wall / bound", "CPU a call"), rows)


def image_section(quick: bool) -> None:
    from tempfile import TemporaryDirectory

    from PIL import Image

    print("### The same with an image to every post (one 1600 × 1200 photograph, 16 in flight, 200 ms)\n")
    with TemporaryDirectory() as folder:
        path = f"{folder}/noise.png"
        Image.effect_noise((1600, 1200), 64).save(path)
        got = measure(8 if quick else 48, 16, 0.2, path)
    row = (str(got.calls), f"{got.wall / got.bound:.3f}", f"{got.cpu_per_call:.2f} ms", f"{got.peak:.0f} MB")
    table(("calls", "wall / bound", "CPU a call", "peak memory"), [row])


def memory_section(quick: bool) -> None:
    print("### Memory (64 in flight, a server that answers at once)\n")
    rows = []
    for number in (100, 300) if quick else (1_000, 10_000):
        got = apart(number, 64, 0.0)
        rows.append((f"{number:,}", f"{got.peak:.0f} MB", f"{got.calls / got.wall:.0f}", f"{got.cpu_per_call:.2f} ms"))
    table(("posts", "peak memory", "calls a second", "CPU a call"), rows)


def perspectives_section(quick: bool) -> None:
    """KODOLI where it is at hand, else text of its size that is made up on the spot."""
    print("### Perspectives (hashing embedding)\n")
    script = "import json, sys, tribunal.eval.bench.__main__ as b; rows = int(sys.argv[1]);"
    script += "print(json.dumps(b.measure_store(rows)))"
    rows = []
    for number in (2_000,) if quick else (38_525, 40_000, 200_000):
        done = subprocess.run(
            [sys.executable, "-c", script, str(number)], stdout=subprocess.PIPE, text=True, check=True
        )
        got = json.loads(done.stdout.splitlines()[-1])
        rows.append(
            (
                f"{number:,} {got['texts']}", f"{got['build']:.1f} s", f"{got['build_mb']:.0f} MB",
                f"{got['vectors_mb']:.0f} MB", f"{1000 * got['open']:.1f} ms", f"{1000 * got['p50']:.1f} ms",
                f"{1000 * got['p95']:.1f} ms", f"{got['search_mb']:.0f} MB", f"{got['index']}, {got['recall']:.3f}",
            )
        )  # fmt: skip
    head = ("rows", "build", "memory while building", "vectors", "open", "search p50", "p95", "memory while searching",
            "index, recall@3")  # fmt: skip
    table(head, rows)
    print("Memory is what the process grew by after its libraries were loaded.\n", flush=True)


def korean_texts(number: int) -> tuple[list[str], str]:
    """KODOLI's comments, from the folder that TRIBUNAL_SHARED_DATA names, told apart by a number where they repeat."""
    import csv
    import random
    from pathlib import Path

    folder = Path(os.environ.get("TRIBUNAL_SHARED_DATA") or "../shared/data")
    try:
        with (folder / "korean" / "kodoli.csv").open(encoding="utf-8-sig", newline="") as file:
            held, what = [row["sentences"] for row in csv.DictReader(file)], "KODOLI"
    except OSError:
        draw = random.Random(7)
        held = ["".join(chr(draw.randint(0xAC00, 0xD7A3)) for _ in range(30)) for _ in range(38_525)]
        what = "made-up Hangul"
    kept = held[:number]
    for place in range(len(held), number):
        words = held[place % len(held)].split() or ["…"]
        words[place % len(words)] = f"{place}번째"
        kept.append(" ".join(words))
    return kept, what if number <= len(held) else f"{what}, a word changed in each copy"


def measure_store(number: int) -> dict[str, Any]:
    """Build, open and search an index of so many texts; seconds and MB."""
    import csv
    import statistics
    from pathlib import Path
    from tempfile import TemporaryDirectory

    import faiss
    import pyarrow.parquet

    from tribunal.retrievers.perspectives.perspective import Perspective
    from tribunal.retrievers.perspectives.store import build, open_index

    del faiss, pyarrow  # loaded now, so that libraries don't count as memory of the index

    def resident() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    def now_resident() -> float:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2

    texts, what = korean_texts(number)
    spec = Perspective.model_validate(
        {
            "name": "bench", "language": "ko", "criterion": "none",
            "source": {
                "files": ["texts.csv"], "text": "text", "obtain": "made for the benchmark",
                "label": {"column": "label", "hate": ["1"], "not_hate": ["0"]},
            },
        }
    )  # fmt: skip
    with TemporaryDirectory() as folder:
        with (Path(folder) / "texts.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("text", "label"), *((text, place % 2) for place, text in enumerate(texts))])
        queries = texts[:: max(1, len(texts) // 100)][:100]
        del texts

        async def measured() -> dict[str, Any]:
            before, started = resident(), time.perf_counter()
            manifest = await build(spec, Path(folder), out=Path(folder) / "index")
            built, grown = time.perf_counter() - started, resident() - before
            gc.collect()
            before, started = now_resident(), time.perf_counter()
            store = open_index(Path(folder) / "index" / spec.name, spec)
            opened, took = time.perf_counter() - started, []
            for query in queries:
                started = time.perf_counter()
                await store.search(query)
                took.append(time.perf_counter() - started)
            return {
                "texts": what, "build": built, "build_mb": grown,
                "vectors_mb": number * manifest.dimension * 4 / 1024**2,
                "open": opened, "p50": statistics.median(took), "p95": statistics.quantiles(took, n=20)[-1],
                "search_mb": now_resident() - before, "index": manifest.index, "recall": manifest.recall_at_3,
            }  # fmt: skip

        return asyncio.run(measured())


def researcher(request: Request) -> Reply:
    """The scripted researcher: three queries, every hit relevant, one passage a page, enough after one turn."""
    task = request.text.rpartition("# Your part: ")[2]
    ids = re.findall(r"^\[(E\d+)\]", task, re.MULTILINE)
    if "phrasing search queries" in task:
        return Reply({"queries": ["first query", "second query", "third query"]})
    if "choosing what to read" in task:
        return Reply({"relevant": [int(each) for each in re.findall(r"^(\d+)\. ", task, re.MULTILINE)]})
    if "reading a page" in task:
        found = re.findall(r"The evidence of page \w+ is here\.", task)
        return Reply({"passages": [{"passage": each, "stance": "supports"} for each in found[:1]]})
    if "weighing a page" in task:
        return Reply({"judgement": "hate", "reasoning": "it adds up"})
    if "deciding whether to go on" in task:
        return Reply({"sufficient": True, "missing": ""})
    return Reply({"label": "HATE", "confidence": 0.9, "steps": [{"claim": "so it is", "evidence": ids}]})


def hybrid(request: Request) -> Reply:
    """The scripted hybrid court: the court, the researcher, perspectives, and a defence that concedes on a mark."""
    task = request.text.rpartition("# Your part: ")[2]
    if task.startswith("an annotator"):
        assert request.schema is not None  # noqa: S101 (a stance is asked for by its schema)
        label = request.schema["properties"]["label"]["enum"][0]
        return Reply({"label": label, "reason": "the criterion speaks of it"})
    if task.startswith("the Defender") and "[[concede=yes]]" in request.text:
        granted = {"cue_id": "C1", "target_group": "religion", "claim": "a claim of some length", "stance": "concede"}
        return Reply({"arguments": [{**granted, "argument": "nothing in the post speaks against it"}]})
    courts = ("the Prosecutor", "the Defender", "the Judge", "the first look")
    return court(request) if task.startswith(courts) else researcher(request)


# What each switch is set to, and what it is called.
SWITCHES: dict[str, dict[str, Any]] = {
    "none (ARCADE, call for call)": {"early_exit": False},
    "early exit (the default)": {},
    "`--perspectives`, five": {"perspectives": ["all"]},
    "`--web`, one turn, two pages": {"web": True},
    "both": {"web": True, "perspectives": ["all"]},
    "`--triage`": {"triage": "openai:small"},
    "`--judge-draws 3`": {"judge_draws": 3},
    "`--judge-draws 5`": {"judge_draws": 5},
    "`--review`": {"review": True},
}
KINDS = {
    "dismissed": "[[track=none]]",
    "fast track": "[[track=fast]]",
    "deep dive": "[[track=deep]]",
    "deep dive, conceded": "[[track=deep]] [[concede=yes]]",
}


def switches_section(quick: bool) -> None:
    """One post of each kind with each switch: its calls, and its wall time in calls one after another."""
    from contextlib import ExitStack
    from tempfile import TemporaryDirectory

    from tribunal.eval.doubles.web import SearchServer, Site, SitePage

    latency = 0.2
    print("### The hybrid court: calls a post with each switch, and in brackets how many of them follow one another\n")
    with ExitStack() as stack:
        base = stack.enter_context(server(latency, "tribunal.eval.bench.__main__:hybrid"))
        os.environ["TRIBUNAL_DATA"] = stack.enter_context(TemporaryDirectory())
        body = "<html><title>Page</title><p>The evidence of page {} is here.</p></html>"
        sites = [
            stack.enter_context(Site({"/": SitePage(body.format(number))}, address=f"127.0.0.{number}"))
            for number in (2, 3)
        ]
        found = [{"url": f"{site.url}/", "title": "a page"} for site in sites]
        search = stack.enter_context(SearchServer(lambda query: found))
        os.environ["OPENAI_BASE_URL"] = f"{base}/v1"
        os.environ["TRIBUNAL_FETCH_ALLOW"] = ",".join(site.host for site in sites)
        rows = asyncio.run(
            _switched(search.url, latency, ["none (ARCADE, call for call)", "both"] if quick else SWITCHES)
        )
    table(("switch", *KINDS), rows)


async def _switched(search_url: str, latency: float, names: Iterable[str]) -> list[list[str]]:
    from tribunal.cases.session import hear
    from tribunal.context import context_from
    from tribunal.retrievers.web.library import web_reader

    (await web_reader()).reader.warm()
    await asyncio.sleep(4)
    rows = []
    for name in names:
        row = [name]
        for marks in KINDS.values():
            settings = {"search": "searxng", "searxng_url": search_url, "model": "openai:scripted", **SWITCHES[name]}
            took = []
            for _ in range(3):
                started = time.perf_counter()
                record = await hear(
                    f"{marks} the weeds of the garden", graph="tribunal", context=context_from(settings)
                )
                took.append(time.perf_counter() - started)
            if record.outcome != "verdict" or (record.research and not record.evidence):
                raise RuntimeError(f"the benchmark's court failed: {record.explanation} {record.warnings}")
            row.append(f"{record.usage.calls} ({min(took) / latency:.1f})")
        rows.append(row)
    return rows


CALL, PAGE, SEARCH = 1.0, 2.0, 0.5
PAGES_A_QUERY = 2


def research_section(quick: bool) -> None:
    """Six pages on six hosts: a host is asked for one page at a time, so one host would measure the courtesy alone."""
    from contextlib import ExitStack

    from tribunal.eval.doubles.web import SearchServer, Site, SitePage

    print(f"### AntiHateAgent: one post, {CALL:g} s a model call, {PAGE:g} s a page, {SEARCH:g} s a search\n")
    filler = "<p>" + "A sentence that has nothing to do with it. " * 40 + "</p>"
    with ExitStack() as stack:
        base = stack.enter_context(server(CALL, "tribunal.eval.bench.__main__:researcher"))
        sites: list[Site] = []
        for number in range(3 * PAGES_A_QUERY):
            body = f"<html><title>Page {number}</title><p>The evidence of page {number} is here.</p>{filler}</html>"
            sites.append(stack.enter_context(Site({"/": SitePage(body, delay=PAGE)}, address=f"127.0.0.{number + 2}")))
        urls = [f"{site.url}/" for site in sites]

        def found(query: str) -> list[dict[str, Any]]:
            first = ("first", "second", "third").index(query.split()[0]) * PAGES_A_QUERY
            return [{"url": url, "title": "a page"} for url in urls[first : first + PAGES_A_QUERY]]

        search = stack.enter_context(SearchServer(found, delay=SEARCH))
        os.environ["OPENAI_BASE_URL"] = f"{base}/v1"
        os.environ["TRIBUNAL_FETCH_ALLOW"] = ",".join(site.host for site in sites)
        took = [asyncio.run(one_research(search.url)) for _ in range(1 if quick else 3)]
    pages = 3 * PAGES_A_QUERY
    # Queries, search, relevance, the pages together, their passages, a judgement after each, enough?, verdict.
    critical = CALL + SEARCH + CALL + PAGE + CALL + pages * CALL + CALL + CALL
    sequential = CALL + 3 * (SEARCH + CALL) + pages * (PAGE + CALL + CALL) + CALL + CALL
    wall = sorted(took)[len(took) // 2]
    row = (
        str(pages), f"{wall:.2f} s", f"{critical:.1f} s", f"{wall / critical:.3f}", f"{sequential:.1f} s",
        f"{sequential / wall:.2f}",
    )  # fmt: skip
    table(("pages", "seconds a post", "critical path", "over it", "one after another", "times as long"), [row])


async def one_research(search_url: str) -> float:
    """Seconds of one post, once the page readers' processes run and what is imported at the first call is there."""
    from tempfile import TemporaryDirectory

    from tribunal.cases.session import hear
    from tribunal.context import context_from
    from tribunal.graphs import graph
    from tribunal.retrievers.web.library import web_reader

    graph("antihate")
    (await web_reader()).reader.warm()
    await hear(
        "warming up", graph="antihate", context=context_from({"model": "openai:scripted", "mode": "no-knowledge"})
    )
    await asyncio.sleep(4)
    with TemporaryDirectory() as folder:
        context = context_from(
            {
                "model": "openai:scripted", "search": "searxng", "searxng_url": search_url,
                "record": f"{folder}/evidence.sqlite", "max_pages": 20,
            }
        )  # fmt: skip
        started = time.perf_counter()
        record = await hear("what they say of the weeds", graph="antihate", context=context)
        took = time.perf_counter() - started
        if len(record.evidence) != 3 * PAGES_A_QUERY:
            raise RuntimeError(f"the benchmark's research failed: {record.explanation} {record.warnings}")
        return took


VIEWS_ROUNDS = 3
# One round after another: the answers; their scores and the reflection, at the same time; the second answers; their
# scores. Then the Summary. With the reflection after the scores a round would take five.
VIEWS_PATH = 4 * VIEWS_ROUNDS + 1


def debaters(request: Request) -> Reply:
    """The scripted views: never of one mind, so that all rounds are held, and every reflection is adopted."""
    task = request.text.rpartition("# Your part: ")[2]
    if task.startswith(("the Judge", "the Reflection")):
        named = re.findall(r"^(\w+): (?:YES|NO)$", task, re.MULTILINE)
        if task.startswith("the Judge"):
            score = 0.8 if len(named) < 4 else 0.5
            return Reply({"reason": "a reason of some length " * 3, "scores": dict.fromkeys(named, score)})
        told = {"errors": "what it overlooks " * 6, "suggestion": "what it might look at " * 6}
        return Reply({"feedback": dict.fromkeys(named, told)})
    if task.startswith("the Summary"):
        return Reply({"answer": "NO", "explanation": "the words of the summary " * 8})
    side = "YES" if task.startswith(("the Surface", "the Deep")) else "NO"
    return Reply({"answer": side, "reason": "a reason that goes on for a while " * 6})


async def debates(number: int, in_flight: int) -> tuple[float, float, int]:
    """Wall and processor seconds of so many posts through `mv_debate`, and how many calls they took."""
    from tribunal.cases.session import hear, settle
    from tribunal.context import context_from

    context = context_from({"model": "openai:scripted", "rounds": VIEWS_ROUNDS})
    waiting, calls = posts(number), []

    async def seat() -> None:
        for text in waiting:
            record = await hear(text, graph="mv_debate", context=context)
            if record.rounds != VIEWS_ROUNDS:
                raise RuntimeError(f"the benchmark's debate failed: {record.fault} {record.explanation}")
            calls.append(len(record.calls))

    await hear("warming up", graph="mv_debate", context=context_from({"model": "openai:scripted", "rounds": 1}))
    settle()
    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(seat() for _ in range(in_flight)))
    return time.perf_counter() - wall, time.process_time() - cpu, sum(calls)


def views_section(quick: bool) -> None:
    print(f"### MV-Debate: {VIEWS_ROUNDS} rounds of four views, {CALL:g} s a model call\n")
    rows = []
    for in_flight in (1, 16) if quick else (1, 16, 64):
        number = in_flight if quick or in_flight == 1 else 3 * in_flight
        with server(CALL, "tribunal.eval.bench.__main__:debaters") as url:
            os.environ["OPENAI_BASE_URL"] = f"{url}/v1"
            wall, cpu, calls = asyncio.run(debates(number, in_flight))
        critical = bound([VIEWS_PATH * CALL] * number, in_flight)
        rows.append(
            (
                str(in_flight), str(number), str(calls), f"{wall:.2f} s", f"{critical:.0f} s", f"{wall / critical:.3f}",
                f"{1000 * cpu / calls:.2f} ms",
            )
        )  # fmt: skip
    table(("in flight", "posts", "calls", "wall", "critical path", "over it", "CPU a call"), rows)


HVLI_TEST = 1178  # posts


def runs_section(quick: bool) -> None:
    """A run of the size of H-VLI's test set through the engine of `tribunal eval`, and a long one in little memory."""
    print("### Runs: the engine of `tribunal eval`, ARCADE, 64 in flight\n")
    rows = []
    for latency in (0.2,) if quick else (1.0, 0.2):
        took = _in_a_process(f"long_run({HVLI_TEST if not quick else 200}, {latency})")
        rows.append(
            (
                f"{latency:g} s", str(took["posts"]), str(took["calls"]), f"{took['wall']:.1f} s",
                f"{took['bound']:.1f} s", f"{took['wall'] / took['bound']:.3f}",
                f"{1000 * took['cpu'] / took['calls']:.2f} ms", f"{took['lag']}",
            )
        )  # fmt: skip
    head = ("per call", "posts", "calls", "wall", "bound", "wall / bound", "CPU a call", "results not yet in the file")
    table(head, rows)
    print("The last column is the most that was ever missing when a post was done.\n")
    number = 2_000 if quick else 100_000
    took = _in_a_process(f"rehearsed_run({number})")
    print(f"#### {number:,} posts, `baseline`, the rehearsal model\n")
    memory = [f"{took['memory'][part]:.0f} MB" for part in ("10", "50", "100")]
    table(
        ("memory at a tenth", "at half", "at the end", "posts a second", "CPU a post"),
        [(*memory, f"{took['posts'] / took['wall']:.0f}", f"{1000 * took['cpu'] / took['posts']:.2f} ms")],
    )


def _in_a_process(call: str) -> dict[str, Any]:
    """What a function of this module gives, run in a process of its own."""
    code = f"import tribunal.eval.bench.__main__ as b, json; print(json.dumps(b.{call}))"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def long_run(number: int, latency: float, in_flight: int = 64) -> dict[str, Any]:
    """So many posts through the engine on a scripted server. Times in seconds; `lag` in results."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from tribunal.context import context_from
    from tribunal.eval.datasets.sample import Sample
    from tribunal.eval.runs.engine import Job, Tally, run

    samples = [Sample(id=str(place), text=text) for place, text in enumerate(posts(number))]
    context = context_from({"model": "openai:scripted"})
    lag = 0
    with server(latency) as url, TemporaryDirectory() as folder:
        os.environ["OPENAI_BASE_URL"] = f"{url}/v1"
        asyncio.run(run(Job(graph="arcade", context=context, posts=samples[:64], count=64, in_flight=64), Path(folder)))
        results = Path(folder) / "results.jsonl"
        warm = results.read_bytes().count(b"\n")
        results.unlink()
        assert warm == len(samples[:64])  # noqa: S101 (a benchmark that lost results has measured nothing)
        seen = {"size": 0, "lines": 0}

        def watch(tally: Tally) -> None:
            nonlocal lag
            if tally.done % 50 == 0:
                with results.open("rb") as file:
                    file.seek(seen["size"])
                    fresh = file.read()
                seen["size"] += len(fresh)
                seen["lines"] += fresh.count(b"\n")
                lag = max(lag, tally.done - seen["lines"])

        job = Job(graph="arcade", context=context, posts=samples, count=number, in_flight=in_flight)
        cpu, wall = time.process_time(), time.perf_counter()
        tally = asyncio.run(run(job, Path(folder), watch=watch))
        took, spent = time.perf_counter() - wall, time.process_time() - cpu
        by_place = {}
        for line in results.read_bytes().splitlines():
            record = json.loads(line)
            by_place[record["place"]] = len(record["calls"])
    calls = [by_place[place] for place in range(number)]
    assert tally.done == number  # noqa: S101
    best = bound((count * latency for count in calls), in_flight)
    return {"posts": number, "calls": sum(calls), "wall": took, "bound": best, "cpu": spent, "lag": lag}


def rehearsed_run(number: int) -> dict[str, Any]:
    """So many posts through the engine with the rehearsal model. Memory in MB, by how much of the run was done."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from tribunal.context import context_from
    from tribunal.eval.datasets.sample import Sample
    from tribunal.eval.runs.engine import Job, Tally, run

    class Posts:
        """Made as they are asked for, as those of a file are."""

        def __iter__(self) -> Iterator[Sample]:
            return (Sample(id=str(place), text=text) for place, text in enumerate(posts(number)))

    memory: dict[str, float] = {}

    def watch(tally: Tally) -> None:
        part = {number // 10: "10", number // 2: "50", number: "100"}.get(tally.done)
        if part:
            memory[part] = resident()

    job = Job(graph="baseline", context=context_from({"model": "rehearsal"}), posts=Posts(), count=number, in_flight=64)
    with TemporaryDirectory() as folder:
        cpu, wall = time.process_time(), time.perf_counter()
        asyncio.run(run(job, Path(folder), watch=watch))
        took, spent = time.perf_counter() - wall, time.process_time() - cpu
    return {"posts": number, "wall": took, "cpu": spent, "memory": memory}


def resident() -> float:
    """The memory that this process has now, in MB."""
    with open("/proc/self/statm") as file:  # noqa: PTH123 (a file of the kernel's)
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


SECTIONS = {
    "calls": calls_section,
    "image": image_section,
    "memory": memory_section,
    "perspectives": perspectives_section,
    "research": research_section,
    "switches": switches_section,
    "runs": runs_section,
    "views": views_section,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tribunal.eval.bench", description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=SECTIONS, action="append", help="one section; may be given again")
    parser.add_argument("--quick", action="store_true", help="a few posts, to see that it runs")
    options = parser.parse_args()
    os.environ.setdefault("LANGSMITH_TRACING", "false")
    print(f"Machine: {machine()}\n", flush=True)
    for name, section in SECTIONS.items():
        if not options.only or name in options.only:
            section(options.quick)


if __name__ == "__main__":
    main()
