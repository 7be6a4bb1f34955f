"""ARCADE's published prompts (github.com/Sayur1n/H-VLI): `court_prompts.py`, and `court_prompts_binary.py`."""

from __future__ import annotations

from pathlib import Path

from tribunal.prompts.answer_names import AnswerNames
from tribunal.prompts.policy import load_policy
from tribunal.prompts.published.clone import ASK_CONFIDENCE, as_template, find_answer_field, read_constants
from tribunal.schema import JSON, Scheme

FILES: dict[Scheme, str] = {"fine": "court_prompts.py", "binary": "court_prompts_binary.py"}
_CUE_FIELDS = {"type": "cue_type", "category": "hate_type"}
# What the published labels are called, where our policy has another name.
_THEIR_NAMES = {"Homophobe": 3, "Religion": 4}
NOTES: tuple[str, ...] = (
    "Made for the graphs `arcade`, `multiround` and `baseline`, by the policy `h-vli`.",
    "The published code sends its role's words as the system message. Here that says how material is marked, and the "
    "role's words come after it, before the post.",
    "The words around the post, the cues, the defence and the transcript are ours. Each cue has the id that the court "
    "gives it.",
    "The published deep dive shows neither side the other's words, though its prompts speak of them. Here they are "
    "shown, as in the paper, unless `turns_shown` is none.",
    "Temperatures are the paper's. In the published code both sides have 0.7 in the deep dive.",
    "A cue has no `characteristic`, as the published form has none. Its form for arguments doesn't restate the cue, "
    "so that each case has a warning that the court's words of it were taken.",
    "The judge and the classifier are asked for a confidence in our words where a setting needs one (`sure`).",
)


def read_hvli(folder: Path, scheme: Scheme) -> tuple[dict[str, str], dict[str, AnswerNames]]:
    """Return the prompts of a clone by our names, and how their answers are read.

    Raises:
        BadInput: the clone has another layout; with the file, and what was sought there.
    """
    file, path = FILES[scheme], folder / FILES[scheme]
    held = read_constants(folder, file, _SOUGHT)
    for name, fields in _SOUGHT.items():
        for field in fields if not (scheme == "binary" and name == "SAFETY_PROMPT") else ("label",):
            find_answer_field(path, name, held[name], field)
    text = {name: as_template(words, path, name) for name, words in held.items()}
    cues = "\n\n\nThe cues of the Prosecutor:\n\n{{ prosecution }}"
    before = "\n\n\nWhat you said in the round before:\n\n{{ own }}\n\nWhat the other side said:\n\n"
    prompts = {
        "system/court": '{% include "marks" %}',
        "arcade/gatekeeper": text["PROSECUTOR_DIRECT_PROMPT"],
        "arcade/indictment": text["PROSECUTOR_PROMPT"],
        "arcade/rebuttal": text["DEFENDER_PROMPT"] + cues,
        "arcade/investigation": text["PROSECUTOR_INDIRECT_PROMPT"],
        "arcade/defence": (
            f"{{% if round == 1 %}}\n{text['DEFENDER_INDIRECT_PROMPT']}{cues}\n{{% else %}}\n"
            f"{text['DEFENSE_ROUND_2_PROMPT']}{before}{{{{ prosecution }}}}\n{{% endif %}}"
        ),
        "arcade/prosecution": f"{text['PROSECUTOR_ROUND_2_PROMPT']}{before}{{{{ defence }}}}",
        "arcade/judge": (
            f"{{% if deep %}}\n{text['JUDGE_PROMPT_INDIRECT']}\n{{% else %}}\n{text['JUDGE_PROMPT']}\n{{% endif %}}"
            f"{ASK_CONFIDENCE}\n\n\nThe transcript:\n\n{{{{ transcript }}}}"
        ),
        "arcade/classifier": text["SAFETY_PROMPT"] + ASK_CONFIDENCE,
    }
    return prompts, _answer_names(scheme)


_CUE = ("cue_type", "target_group", "claim", "hate_type", "justification")
_REBUTTAL, _VERDICT = ("id", "evidence", "rebuttal"), ("label", "reason")
# The texts that are sought, each with the fields of the answer that it asks for.
_SOUGHT: dict[str, tuple[str, ...]] = {
    "PROSECUTOR_DIRECT_PROMPT": _CUE,
    "PROSECUTOR_PROMPT": _CUE,
    "PROSECUTOR_INDIRECT_PROMPT": _CUE,
    "DEFENDER_PROMPT": _REBUTTAL,
    "DEFENDER_INDIRECT_PROMPT": _REBUTTAL,
    "DEFENSE_ROUND_2_PROMPT": ("id", "rebuttal"),
    "PROSECUTOR_ROUND_2_PROMPT": ("id", "counter_argument"),
    "JUDGE_PROMPT": _VERDICT,
    "JUDGE_PROMPT_INDIRECT": _VERDICT,
    "SAFETY_PROMPT": _VERDICT,
}


def _answer_names(scheme: Scheme) -> dict[str, AnswerNames]:
    policy = load_policy("h-vli")
    kinds = {str(number): each.name for number, each in enumerate(policy.fine)}
    kinds |= {name: policy.fine[number].name for name, number in _THEIR_NAMES.items()}
    labels = kinds if scheme == "fine" else {str(number): each.name for number, each in enumerate(policy.binary)}
    cues = AnswerNames(items="cues", fields=_CUE_FIELDS, values={"category": kinds}, open=("characteristic",))
    rebuttals = AnswerNames(
        items="arguments",
        fields={"cue_id": "id", "argument": ("evidence", "rebuttal")},
        otherwise={"stance": "refute"},
    )
    pressed = AnswerNames(
        items="arguments", fields={"cue_id": "id", "argument": "counter_argument"}, otherwise={"stance": "press"}
    )
    verdict: JSON = {"fields": {"category": "label", "explanation": "reason"}, "values": {"category": labels}}
    alone: JSON = {"otherwise": {"explanation": "The published prompt asks for the label alone."}}
    return {
        **dict.fromkeys(("arcade/gatekeeper", "arcade/indictment", "arcade/investigation"), cues),
        **dict.fromkeys(("arcade/rebuttal", "arcade/defence"), rebuttals),
        "arcade/prosecution": pressed,
        "arcade/judge": AnswerNames(**verdict),
        "arcade/classifier": AnswerNames(**verdict, **(alone if scheme == "binary" else {})),
    }
