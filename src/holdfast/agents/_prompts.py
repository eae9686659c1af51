"""What agents are told, in words."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

LAST_TURN = "This is your last turn: no more tools. Give your best final answer now, from what you know so far."
EMPTY = "Your answer was empty. Answer the task, or call a tool."
SUMMARISE = (
    "Below is the first part of a conversation between an assistant, its tools and a user. Write down, briefly and completely, "
    "what was found out, what was decided and what is still to be done, so that the work can go on without the original."
)
LEFT_OUT = "[The first part of this conversation was left out, because it grew too long.]"


def system_prompt(role: str, goal: str, backstory: str) -> str:
    """Who an agent is."""
    parts = [f"You are {role}."]
    if backstory:
        parts.append(backstory)
    if goal:
        parts.append(f"Your goal: {goal}")
    return "\n".join(parts)


def task_prompt(description: str, expected_output: str, context: str) -> str:
    """What an agent is to do."""
    parts = [description]
    if expected_output:
        parts.append(f"What the answer must be: {expected_output}")
    if context:
        parts.append(f"What is known from earlier tasks:\n{context}")
    return "\n\n".join(parts)


def form_prompt(form: type[BaseModel]) -> str:
    """In which form an answer is wanted."""
    schema = json.dumps(form.model_json_schema(), ensure_ascii=False)
    return f"Answer with one JSON object that fits this JSON Schema, and nothing else:\n{schema}"


def misfit_prompt(why: str) -> str:
    """What is wrong with the form of an answer."""
    return f"Your answer is not in the form that was asked for: {why}\nAnswer again, with one JSON object and nothing else."


def refused_prompt(output: str, why: Any) -> str:
    """Why a guardrail refused an answer."""
    return f"Your earlier answer was refused.\nThe answer:\n{output}\nThe reason: {why}\nDo it again, and mend that."


def revised_prompt(output: str, wish: str) -> str:
    """What a person wants changed in an answer."""
    return (
        f"Your earlier answer was shown to a person.\nThe answer:\n{output}\nWhat the person says: {wish}\nRevise it."
    )
