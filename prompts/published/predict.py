"""PREDICT's published debate prompts (github.com/Hanyang-HCC-Lab/PREDICT): `debate_prompt.json`.

Those of its five annotators lie in LangChain's hub, and not in the repository.
"""

from __future__ import annotations

from pathlib import Path

from tribunal.prompts.answer_names import AnswerNames
from tribunal.prompts.published.clone import ASK_CONFIDENCE, as_template, find_answer_field, read_json_texts

FILE = "debate_prompt.json"
NOTES: tuple[str, ...] = (
    "Made for the graph `predict`. `debate_memory` whole (the default) shows each side again what its memory holds in "
    "the published code.",
    "The prompts of the five annotators lie in LangChain's hub, and not in the repository: those of PRE are ours.",
    "The published prompts hold the text itself. Here they name it, and it stands after them between its marks.",
    "The published debaters' messages of several turns are one message here, in the same order.",
    "The judge is asked for a confidence in our words where a setting needs one (`sure`).",
    "Debaters answer in words, so that a turn has no stance (agree or rebut); the judge reads it in the words.",
)  # fmt: skip
_TEXT = "(the post)"
_SOUGHT = (
    "NonHate_player_meta_prompt", "Hate_player_meta_prompt", "NonHate_prompt_1", "Hate_prompt_1", "NonHate_arg_prompt",
    "NonHate_prompt_2", "Hate_arg_prompt", "Hate_prompt_2", "judge_prompt_1", "judge_prompt_2",
)  # fmt: skip
_PANEL = """{% include "marks" %}


If you are given a form for your answer, answer with one JSON object of that form."""


def read_predict(folder: Path) -> tuple[dict[str, str], dict[str, AnswerNames]]:
    """Return the prompts of a clone by our names, and how their answers are read.

    Raises:
        BadInput: the clone has another layout; with the file, and what was sought there.
    """
    path, held = read_json_texts(folder, FILE, _SOUGHT)

    def text(name: str, **variables: str) -> str:
        shown = {f"##{mark}##": f"\n\n\n{{{{ {ours} }}}}\n\n" for mark, ours in variables.items() if mark != "text"}
        return as_template(held[name], path, name, shown | ({"##text##": _TEXT} if "text" in variables else {}))

    non_hate, hate = text("NonHate_player_meta_prompt", text=""), text("Hate_player_meta_prompt", text="")
    first_non_hate = text("NonHate_prompt_1", Non_Hate_Reference="reference")
    again_hate = text("Hate_prompt_1", non_arg="before", Hate_Reference="reference")
    prompts = {
        "system/panel": _PANEL,
        "predict/opening_non_hate": f"{non_hate}\n\n{first_non_hate}",
        "predict/opening_hate": (f"{hate}\n\n{text('Hate_prompt_1', non_arg='opposing', Hate_Reference='reference')}"),
        "predict/response": "\n".join(
            (
                '{% if side == "hate" %}',
                f"{hate}\n\n{{% if before %}}\n{again_hate}\n\n{{% endif %}}",
                f"{text('Hate_arg_prompt', hate_arg='own')}\n\n{text('Hate_prompt_2', non_res='opposing')}",
                "{% else %}",
                f"{non_hate}\n\n{{% if reference %}}\n{first_non_hate}\n\n{{% endif %}}",
                f"{text('NonHate_arg_prompt', non_arg='own')}\n\n{text('NonHate_prompt_2', hate_arg='opposing')}",
                "{% endif %}",
            )
        ),
        "predict/judge": (
            f"{text('judge_prompt_1', history='debate')}\n\n{text('judge_prompt_2', text='')}{ASK_CONFIDENCE}"
        ),
    }
    spelt = {
        ours: find_answer_field(path, "judge_prompt_2", held["judge_prompt_2"], ours) for ours in ("label", "reason")
    }
    spoken = AnswerNames(words="argument")
    return prompts, {
        "predict/opening_non_hate": spoken,
        "predict/opening_hate": spoken,
        "predict/response": AnswerNames(words="argument", open=("stance",)),
        "predict/judge": AnswerNames(fields=dict(spelt)),
    }
