"""What each graph gives back of its state: the log of its calls, and the channels that its caller merges."""

import inspect
from typing import TYPE_CHECKING, Annotated, Any, get_args

from typing_extensions import TypedDict

from tribunal.nodes.state import channel_hints


def _output(name: str, *channels: str) -> Any:
    """Return the output of a graph: the log of its calls, and these channels, which its caller merges."""
    hints: dict[str, Any] = {}
    for channel in ("calls", "warnings", *channels):
        plain, *said = get_args(channel_hints()[channel])
        hints[channel] = Annotated[plain, *(each for each in said if not inspect.isfunction(each))]
    make: Any = TypedDict
    return make(name, hints, total=False)


_DECIDED = ("post", "policy", "prompts", "outcome", "messages")
_ENDED = ("budget_spent", "outcome", "messages")
_COURT = (*_DECIDED, "track", "round", "transcript", "cues", "saved")
_WEB = ("run", "turn", "tried", "pages", "evidence", "plans", "judgements", "sufficient")
if TYPE_CHECKING:
    from tribunal.typed_names import ArguedOutput as ArguedOutput
    from tribunal.typed_names import BaselineOutput as BaselineOutput
    from tribunal.typed_names import CourtOutput as CourtOutput
    from tribunal.typed_names import DebateOutput as DebateOutput
    from tribunal.typed_names import PerspectivesOutput as PerspectivesOutput
    from tribunal.typed_names import PredictOutput as PredictOutput
    from tribunal.typed_names import ResearchOutput as ResearchOutput
    from tribunal.typed_names import RoundOutput as RoundOutput
    from tribunal.typed_names import Ruling as Ruling
    from tribunal.typed_names import TrackOutput as TrackOutput
    from tribunal.typed_names import WebOutput as WebOutput
else:
    # Of the graphs that decide, and of a pipeline of one's own (`Ruling`).
    CourtOutput = _output("CourtOutput", *_COURT)
    BaselineOutput = _output("BaselineOutput", *_COURT, "scheme")
    PredictOutput = _output(
        "PredictOutput", *_DECIDED, "track", "transcript", "opinions", "absent", "scheme"
    )
    ResearchOutput = _output("ResearchOutput", *_WEB, *_DECIDED, "track", "scheme")
    DebateOutput = _output(
        "DebateOutput", *_DECIDED, "scheme", "round", "debate", "dropped", "transcript"
    )
    Ruling = _output(
        "Ruling", *_COURT, *_WEB, "opinions", "precedents", "absent", "review", "trials"
    )
    # Of what they are made of.
    PerspectivesOutput = _output(
        "PerspectivesOutput", "panel", "opinions", "absent", "budget_spent"
    )
    WebOutput = _output("WebOutput", *_WEB)
    RoundOutput = _output("RoundOutput", "round", "debate", "dropped", "transcript", *_ENDED)
    TrackOutput = _output("TrackOutput", "cues", "transcript", "round", "track", "saved", *_ENDED)
    ArguedOutput = _output("ArguedOutput", "transcript", *_ENDED)
