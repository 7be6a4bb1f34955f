"""Trials that go on where an earlier attempt left off, and wait for a person where one has to decide."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.types import INTERRUPT
from langgraph.types import Command, Interrupt
from pydantic import Field
from sqlalchemy import select

from tribunal.docket.case_store import CaseStore
from tribunal.docket.checkpoints import MOMENT, CaseCheckpoints
from tribunal.docket.graph_run import NOTES, judge_unreviewed, run_graph
from tribunal.docket.leases import Held
from tribunal.docket.record_rows import text_of
from tribunal.docket.records import POST, check_state, find_wrong_state, graph_input, make_record
from tribunal.docket.run_config import merge_metadata
from tribunal.errors import BadInput
from tribunal.graphs import GRAPHS, builder
from tribunal.models.budget import Allowance, spend_from
from tribunal.models.registry import split_name
from tribunal.models.stops import PatientCalls, find_stop, wait_for_answers
from tribunal.nodes.court.case import review_reason
from tribunal.nodes.court.review import check_review_answer
from tribunal.nodes.state import Case
from tribunal.plugins import names
from tribunal.prompts.policy import use_stored_policy
from tribunal.schema import JSON, Failure, Frozen, Record, Review
from tribunal.settings.context import Context, context_from
from tribunal.store.engine import Store
from tribunal.store.table_versions import DatabaseDamaged, DatabaseUnreachable, database_problems
from tribunal.store.tables import appeals, cases
from tribunal.trust import check_code

if TYPE_CHECKING:
    from tribunal.events import Listener

_UNKEPT = "this case can't wait for a person to review it, because it is not to be kept"


class Progress(NamedTuple):
    """A case's progress by its checkpoints, its state, and what a person is asked where it waits for one.

    The state of one that waits holds what they are to look at (`waits`), and why (`review`).
    """

    standing: Literal["unbegun", "under_way", "waiting", "over"]
    state: JSON
    question: Interrupt | None = None


class ReviewerQuestion(Frozen):
    """What a person is asked."""

    id: str = Field(description="another one after each trial")
    request: JSON = Field(
        description="what they are shown, in the shape of LangGraph's Agent Inbox"
    )
    form: JSON = Field(
        description="the JSON schema of an answer in that shape; it names the policy's categories"
    )


class TrialResult(Frozen):
    """The result of a trial that came to rest.

    Attributes:
        record: its record so far.
        question: what a person is asked, where one has to decide.
        written: whether it has left checkpoints.
        unwritable: why a forgiving one could not be written down, in a line.
        readable: whether a person could review it; else its record says why not.
        calls: every call of this trial that can wait, also those that its record lacks.
        held: whether it has stopped where no model answered, to go on later; the record is then of the failure.
    """

    record: Record
    question: ReviewerQuestion | None = None
    written: bool = False
    unwritable: str | None = None
    readable: bool = True
    calls: tuple[JSON, ...] = ()
    held: bool = False


# Says of the record of a failure, and of the calls of its trial, whether the trial is held, to go on later.
HoldDecision = Callable[[Record, list[JSON]], Awaitable[bool]]


class Trials:
    """The trials of one process. Without a `moment` to gather them in, each checkpoint is written at once."""

    def __init__(self, store: Store, case_store: CaseStore, moment: float = MOMENT) -> None:
        """Begin with no trial."""
        self._store = store
        self._case_store = case_store
        self._checkpoints = CaseCheckpoints(store, case_store, moment)
        self._durability = "async" if moment else "sync"
        self._compiled: dict[str, Any] = {}

    async def run(
        self,
        held: Held,
        listen: Listener | None,
        context: Context | None = None,
        config: RunnableConfig | None = None,
        *,
        forgiving: bool = False,
        allowance: Allowance | None = None,
        hold: HoldDecision | None = None,
        given_up: Mapping[str, tuple[str, str]] = MappingProxyType({}),
    ) -> TrialResult:
        """Try a case until it is decided or waits for a person, or stops where no model answers.

        Without a context, its settings are those in the store. A forgiving trial goes on if it can't be written. All
        that is sent is paid for from the allowance; without one, from that of what is reserved for the case. `hold` is
        asked where no model answers; without it the case fails there. `given_up`: as of `PatientCalls`.

        Raises:
            BadInput: the post or a setting is wrong; no model was called.
            TakenOver: another process has the case now.
        """
        with spend_from(allowance or self._case_store.bounds.allowance(held.reserved)):
            patient = PatientCalls(given_up=dict(given_up))
            with wait_for_answers(patient if hold or given_up else None):
                return await self._run_within_allowance(
                    held, listen, context, config, patient, hold, forgiving
                )

    async def _run_within_allowance(
        self, held: Held, listen: Listener | None, context: Context | None, config: RunnableConfig | None,
        patient: PatientCalls, hold: HoldDecision | None, forgiving: bool,
    ) -> TrialResult:  # fmt: skip
        context = context or context_from(held.settings)
        fields = held.post or {}
        config = merge_metadata(config, {"case": held.id, "run": held.batch_id})
        problem = fields.get("problem")
        if problem:  # of a row of a batch
            raise BadInput(problem)
        # Its image lies on this machine from here on.
        post = await graph_input(
            **{name: value for name, value in fields.items() if name in POST and value is not None}
        )
        if not held.keep:
            # Nothing of it may be kept, so it can't wait for anybody.
            with wait_for_answers(patient if patient.given_up else None):
                return TrialResult(
                    record=await judge_unreviewed(
                        post, held.graph, context, listen, config, _UNKEPT
                    )
                )
        of_appeal = select(cases.c.policy_sha).join(appeals, appeals.c.case_id == cases.c.id)
        sha = (
            await self._store.fetch_value(of_appeal.where(appeals.c.id == held.appeal_id))
            if held.appeal_id
            else None
        )
        first = await text_of(self._store, sha, "policy")
        with use_stored_policy(
            context.policy, first
        ):  # a new trial has the policy of the first one
            async with self._checkpoints.attempt(held, forgiving=forgiving) as attempt:
                result = await self._run(held, post, context, listen, config, patient, hold)
        why = None if attempt.unwritable is None else " ".join(str(attempt.unwritable).split())
        return result.model_copy(
            update={"written": held.attempt > 1 or attempt.written, "unwritable": why}
        )

    async def look(self, row: JSON, context: Context | None = None) -> Progress:
        """Return how far a case is that lies in the store, and its state, by its checkpoints.

        Raises:
            ValueError, TypeError, LookupError: its checkpoints hold something else than a case.
        """
        return await self._look(row["id"], row["graph"], context or context_from(row["settings"]))

    async def check_answer(self, row: JSON, answer: JSON) -> None:
        """Check that a person's answer, in the shape of the Agent Inbox, fits the case that they have before them.

        Raises:
            BadInput: it doesn't: the field, the value, and what it may be.
        """
        progress = await self.look(row)
        if progress.question is None:
            raise BadInput(
                f"thread: {row['id']}: its trial is not over; tribunal review resume {row['id']} goes on with it"
            )
        await check_review_answer(cast("Case", progress.state), answer)

    async def _run(
        self, held: Held, post: JSON, context: Context, listen: Listener | None, config: RunnableConfig,
        patient: PatientCalls, hold: HoldDecision | None,
    ) -> TrialResult:  # fmt: skip
        given: JSON | Command[Any] | None = post
        progress = Progress("unbegun", {})
        if held.attempt > 1:
            progress = await self._look(held.id, held.graph, context)
            if progress.standing == "unbegun":
                await self._case_store.clear_events(held)
            elif (
                progress.question is not None
                and held.answer
                and held.answer["question"] == progress.question.id
            ):
                given = Command(resume=held.answer["answer"])
                # Of an answer that a process was killed over, a half may be there.
                await self._checkpoints.discard_pending_answer(held)
            else:
                given = None
        state = progress.state
        waits = progress.standing == "waiting"
        while given is not None or progress.standing == "under_way":
            state = await run_graph(
                self._graph(held.graph), held.graph, given, held.id, listen,
                context=context, config=config, attempt=held.attempt, durability=self._durability,
            )  # fmt: skip
            stops = state.pop(INTERRUPT, None)
            waits = stops is not None
            fault = next(filter(None, (find_stop(each.value) for each in stops or ())), None)
            if fault is None:
                break
            progress = await self._look(held.id, held.graph, context)
            failed = progress.state | {"outcome": Failure(**fault).dump()}
            record = make_record(failed, held.graph, context)
            if hold is not None and await hold(record, patient.made):
                return TrialResult(record=record, calls=tuple(patient.made), held=True)
            patient.given_up[split_name(fault["model"])[0]] = fault["error"], fault["explanation"]
            given = post if progress.standing == "unbegun" else None  # its state can't be written
        # nobody can review it; its record says why
        wrong = find_wrong_state(state, context) is not None
        waiting = None if wrong or not waits else await self._look_at_waiting(held, context)
        if waiting is None:
            thread = held.id if state.get("review") and not (wrong and waits) else ""
            record = make_record(state | {"thread": thread, "waits": None}, held.graph, context)
            return TrialResult(record=record, readable=not wrong, calls=tuple(patient.made))
        notes = {name: state[name] for name in NOTES if name in state}
        record = make_record(waiting.state | notes, held.graph, context)
        asked: Any = waiting.question
        question = ReviewerQuestion(
            id=asked.id, request=waiting.state["waits"], form=asked.response_schema or {}
        )
        return TrialResult(record=record, question=question, calls=tuple(patient.made))

    async def _look_at_waiting(self, held: Held, context: Context) -> Progress | None:
        """Return how far a case is that waits for a person; None if nobody can be asked, since it couldn't be kept."""
        try:
            return (
                None
                if self._checkpoints.is_unwritable(held)
                else await self._look(held.id, held.graph, context)
            )
        except (DatabaseDamaged, DatabaseUnreachable) as error:
            self._checkpoints.give_up(held, error)
            return None

    async def _look(self, thread: str, graph: str, context: Context) -> Progress:
        place = RunnableConfig(configurable={"thread_id": thread})
        gathers = self._durability == "async"  # a service, which tries such a case again
        with nullcontext() if gathers else database_problems(self._store.address, reading=thread):
            snapshot = await self._graph(graph).aget_state(place)
            state = check_state(snapshot.values) | {"thread": thread, "waits": None}
            # A task that was answered keeps its question, and has a result. Where no model answered, nobody is asked.
            stops = [
                each for task in snapshot.tasks if task.result is None for each in task.interrupts
            ]
            open_questions = [each for each in stops if find_stop(each.value) is None]
            if open_questions:
                [question] = open_questions
                return Progress("waiting", paused_state(state, question.value, context), question)
            if snapshot.created_at is None:
                return Progress("unbegun", state)
            # `next` leaves out the tasks whose results are written down, and that nobody has gone on from yet.
            return Progress("under_way" if snapshot.tasks else "over", state)

    def _graph(self, name: str) -> Any:
        if name not in self._compiled:
            self._compiled[name] = builder(name).compile(checkpointer=self._checkpoints, name=name)
        return self._compiled[name]


def paused_state(values: Any, asked: Any, context: Context | None = None) -> JSON:
    """Return the state of a case that waits for a person, with what they are asked (`waits`) and why (`review`).

    `asked` is the value of its one interrupt. Without a context, the settings are those that lie in the case.

    Raises:
        ValueError, TypeError, LookupError: this isn't a case.
    """
    state = check_state(values)
    [request] = asked
    if not isinstance(request["description"], str):
        raise TypeError("the question has no description")
    settings = context if context is not None else context_from(state["context"]["settings"])
    review = Review(reason=review_reason(state, settings), court=state["outcome"]).dump()
    return state | {"waits": request, "review": review}


def trusted_graph(graph: str) -> str:
    """Return the name by which a case holds its graph: a known one's, or the place of one that is allowed.

    Raises:
        BadInput: it is neither.
    """
    if graph in GRAPHS or graph in names("tribunal.graphs"):
        return graph
    path, _, member = graph.partition(":")
    place = (
        f"{Path(path).expanduser().resolve()}:{member or 'graph'}"
        if path.endswith(".py")
        else graph
    )
    check_code(place, stored=True)
    return place
