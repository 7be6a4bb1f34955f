"""Small clones of our own in the layout of the published repositories. Every text says which one it is."""

from __future__ import annotations

import json
from pathlib import Path

_CUE = (
    '"id": "<id>", "cue_type": "Direct", "target_group": "<who>", "claim": "<what>", "hate_type": <1-5>, '
    '"justification": "<why>"'
)
_REBUTTAL = '"id": "<id>", "evidence": "<where>", "rebuttal": "<why not>"'
_COURT = {
    "PROSECUTOR_PROMPT": _CUE,
    "DEFENDER_PROMPT": _REBUTTAL,
    "JUDGE_PROMPT": '"label": <0-5>, "label_str": "<name>", "reason": "<why>"',
    "PROSECUTOR_ROUND_2_PROMPT": '"id": "<id>", "counter_argument": "<why>"',
    "DEFENSE_ROUND_2_PROMPT": '"id": "<id>", "rebuttal": "<why not>"',
    "PROSECUTOR_DIRECT_PROMPT": _CUE,
    "PROSECUTOR_INDIRECT_PROMPT": _CUE,
    "DEFENDER_INDIRECT_PROMPT": _REBUTTAL,
    "JUDGE_PROMPT_INDIRECT": '"label": <0-5>, "label_str": "<name>", "reason": "<why>"',
}
DEBATE = {
    "NonHate_player_meta_prompt": "Clone, non-hate side. Is '##text##' hateful?",
    "Hate_player_meta_prompt": "Clone, hate side. Is '##text##' hateful?",
    "NonHate_prompt_1": "Clone, non-hate 1. Reasons: '##Non_Hate_Reference##'. One sentence.",
    "Hate_prompt_1": "Clone, hate 1. Against: ##non_arg##. Reasons: '##Hate_Reference##'. One sentence.",
    "NonHate_arg_prompt": "Clone, non-hate said: ##non_arg##.",
    "NonHate_prompt_2": "Clone, non-hate 2. Hate said: ##hate_arg##. Agree or rebut.",
    "Hate_arg_prompt": "Clone, hate said: ##hate_arg##.",
    "Hate_prompt_2": "Clone, hate 2. Non-hate said: ##non_res##. Agree or rebut.",
    "judge_prompt_1": "Clone, judge 1. The debate: ##history##.",
    "judge_prompt_2": 'Clone, judge 2. On \'##text##\': {"Label": "Non-hate or hate", "Reason": ""}.',
    "players": {},
}


def write_court(folder: Path) -> Path:
    """Write the two files of the court's prompts, whose texts are f-strings of a definition that stands above them."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, baseline in (
        ("court_prompts.py", '"label": <0-5>, "reason": "<why>"'),
        ("court_prompts_binary.py", '"label": <0-1>'),
    ):
        lines = [
            "import os",
            "raise SystemExit('this file is never run')",
            "DEFINITION = '''\nClone's definition.\n'''",
        ]
        for name, fields in {**_COURT, "SAFETY_PROMPT": baseline}.items():
            array = (
                "[{{" + fields + "}}]"
                if "JUDGE" not in name and name != "SAFETY_PROMPT"
                else "{{" + fields + "}}"
            )
            lines.append(
                f'{name} = f"""\nClone, {name}. {{DEFINITION}} BRACES Answer: {array}\n"""'
            )
        (folder / file).write_text("\n".join(lines).replace("BRACES", "{{% braces %}}"), "utf-8")
    return folder


def write_debate(folder: Path) -> Path:
    """Write the file of the debate's prompts."""
    file = folder / "src" / "utils" / "debate_prompt.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(DEBATE), "utf-8")
    return folder
