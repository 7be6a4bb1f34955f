"""Policies of gpt-oss-safeguard's layout, read and written."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tribunal.commands import app
from tribunal.errors import BadInput
from tribunal.prompts.policy import load_policy, parse_policy
from tribunal.prompts.safeguard_policy import export_markdown_policy, import_markdown_policy

HEADINGS = """# Hate policy

## INSTRUCTIONS

Return 0 or 1.

## DEFINITIONS

- **Hate**: an attack on people for what they are.
- **Protected classes**: race, religion

## VIOLATES (1)

Content that:

- **H2.a Dehumanising** - "They are weeds."
- **H2.b Calls for exclusion** Exceptions: talk of a club's own rules.
- Slurs aimed at a group

## SAFE (0)

- Quoting hate to condemn it

## EXAMPLES

Content: "Weeds, all of them."
Answer: 1

### Example 2 (Label: 0)

**Content**: "My neighbour called us weeds."
"""
IN_BOLD = """**Rudeness Policy (#RP)**
**GOAL:** Identify rudeness.

**DEFINITIONS**

- **Rudeness**: words that hurt.

**Allowed Content (RP0 – Harmless)**
Content that is useful.

- **RP0.a A question** – “How do I plant a rose?”

  **Output:** VALID

**Open Rudeness (RP2 – Medium Confidence)**
Said to one's face.

- **RP2.a Insult** – “Weeds!”

- **RP2.b Mockery** – “What a garden!”
  **Output:** INVALID

**Malicious Rudeness (RP4 – Maximum Severity)**

- **RP4.a Threat** – “We will dig you out.”
  **Output:** INVALID + ESCALATE

**LABEL FORMAT**
Each item gets two labels.
"""


def test_a_policy_under_headings_is_read() -> None:
    made = import_markdown_policy(HEADINGS)
    held = parse_policy(made.text)
    assert made.left_out == ("INSTRUCTIONS",)
    assert (held.name, held.protected_groups) == ("Hate policy", ("race", "religion"))
    assert [(each.id, each.rule, each.exceptions) for each in held.clauses] == [
        ("H2.a", "Dehumanising", ""),
        ("H2.b", "Calls for exclusion", "talk of a club's own rules."),
        ("1.3", "Slurs aimed at a group", ""),
    ]
    assert held.clauses[0].examples_for == ("They are weeds.",)
    assert held.exclusions == "Quoting hate to condemn it"
    assert held.fine[1].examples_for == ("Weeds, all of them.",)
    assert held.fine[1].examples_against == ("My neighbour called us weeds.",)


def test_a_policy_with_sections_in_bold_and_labels_is_read() -> None:
    made = import_markdown_policy(IN_BOLD, groups=["gardeners"], name="rude")
    held = parse_policy(made.text)
    assert made.left_out == ("GOAL", "LABEL FORMAT")
    assert (held.name, held.definition) == ("rude", "Rudeness: words that hurt.")
    assert [each.name for each in held.fine] == ["Safe", "Open Rudeness", "Malicious Rudeness"]
    assert held.fine[1].meaning == "Said to one's face."
    assert [(each.id, each.category, each.severity, each.action) for each in held.clauses] == [
        ("RP2.a", "Open Rudeness", "medium", "INVALID"),
        ("RP2.b", "Open Rudeness", "medium", "INVALID"),
        ("RP4.a", "Malicious Rudeness", "critical", "INVALID + ESCALATE"),
    ]
    assert held.fine[1].examples_against == ("How do I plant a rose?",)


@pytest.mark.parametrize("name", ["h-vli", "moderations"])
def test_a_policy_that_was_written_is_read_again(name: str) -> None:
    policy = load_policy(name)
    again = parse_policy(import_markdown_policy(export_markdown_policy(policy)).text)
    assert [(each.id, each.category, each.rule) for each in again.clauses] == [
        (each.id, each.category, each.rule) for each in policy.clauses
    ]
    assert (again.name, again.protected_groups) == (policy.name, policy.protected_groups)
    assert [(each.name, each.meaning) for each in again.fine[1:]] == [
        (each.name, each.meaning) for each in policy.fine[1:]
    ]
    for clause in again.clauses:
        assert all(again.examples_of(clause))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (IN_BOLD, "groups: the file has none; name them by --group"),
        ("# x\n\nwords", "definition: the file has none"),
        ("", "definition: the file has none"),
        (HEADINGS.replace("## SAFE (0)", "## OUTPUT"), "exclusions: the file has none; give it a section SAFE"),
    ],
)
def test_what_the_file_lacks_is_said(text: str, says: str) -> None:
    with pytest.raises(BadInput) as told:
        import_markdown_policy(text)
    assert says in str(told.value)


def test_the_commands_write_new_files(tmp_path: Path) -> None:
    (tmp_path / "theirs.md").write_text(HEADINGS, "utf-8")
    run, made, back = CliRunner(), tmp_path / "mine.toml", tmp_path / "back.md"
    done = run.invoke(app, ["policy", "import", str(tmp_path / "theirs.md"), "--out", str(made)])
    assert done.exit_code == 0, done.output
    assert "left out" in done.output
    assert load_policy(str(made)).find_clause("H2.a") is not None
    assert run.invoke(app, ["policy", "export", str(made), "--out", str(back)]).exit_code == 0
    assert "- **H2.a** Dehumanising" in back.read_text("utf-8")
    assert '"policy_category": "<id>"' in run.invoke(app, ["policy", "export", "h-vli"]).output
    again = run.invoke(app, ["policy", "export", "h-vli", "--out", str(back)])
    assert again.exit_code != 0
