"""`arena_prompt.json`: how a saved model is prompted and sampled.

Other prompts make another policy of the same weights. So every saved model has this file in
its folder, and every `lm:PATH` policy reads it:

    {"reply_format": "bare", "rules": false, "show_legal_actions": true,
     "history": "state", "parsing": "strict", "max_new_tokens": 2,
     "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0,
     "chat_template_kwargs": {}}

The first five are `arena_wrappers.PromptOptions`, as are `persona`, `language`, `system`, `turn`,
`again`, `date` and `shuffle`; the others arguments of `LMPolicy`. Keys
that a file leaves out have their defaults, so you can write one by hand for any model:
`{"reply_format": "boxed", "max_new_tokens": 512}`. `"reasoning_marks": ["<think>", "</think>"]`
states what begins and ends the model's reasoning, where its chat template does not show it.
"""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from arena_envs.checks import check_known
from arena_wrappers.prompts import PROMPT_OPTIONS, PromptOptions

PROMPT_FILE = "arena_prompt.json"


def prompt_json(prompt: PromptOptions | None, sampling: Mapping[str, Any]) -> str:
    """The content of the file.

    Args:
        prompt: what the policy reads; None where the environment decides.
        sampling: arguments of `LMPolicy`; those that the file does not hold are left out.

    Raises:
        ValueError: an argument that JSON cannot hold.
    """
    options = {} if prompt is None else vars(prompt)
    settings = {n: sampling[n] for n in _SAMPLING if sampling.get(n) is not None}
    try:
        return json.dumps({**options, **settings}, indent=1, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{PROMPT_FILE} cannot hold {settings!r:.200}: {error}"
        ) from error


def read_prompt_file(folder: str | Path) -> dict[str, Any]:
    """Arguments of `LMPolicy` by the file in a model's folder; none without a file.

    Raises:
        ValueError: the file is no JSON object, or has an unknown key or a wrong value; names
            the file.
    """
    path = Path(folder) / PROMPT_FILE
    if not path.is_file():
        return {}
    try:
        values = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"want JSON in {path}: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"want a JSON object in {path}, got {values!r:.60}")
    names = (*PROMPT_OPTIONS, *_SAMPLING)
    for name in values:
        check_known(name, names, f"{path} has no option {name!r:.60}")
    options = {name: values.pop(name) for name in PROMPT_OPTIONS if name in values}
    try:
        check_sampling(values)
        return {"prompt": PromptOptions(**options), **values} if options else values
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def saved_options(model: str) -> dict[str, Any]:
    """Options of training in the `arena_prompt.json` of a model's folder, if it has one."""
    saved = read_prompt_file(model) if model else {}
    prompt = saved.pop("prompt", None)
    if "max_new_tokens" in saved:
        saved["max_completion_length"] = saved.pop("max_new_tokens")
    return {**({} if prompt is None else vars(prompt)), **saved}


def check_sampling(sampling: Mapping[str, Any]) -> None:
    """Refuses a wrong value among those arguments of `LMPolicy` that the file can hold.

    Raises:
        ValueError: says which, and what it could be.
    """
    for name, value in sampling.items():
        is_right, description = _SAMPLING[name]
        if not is_right(value):
            raise ValueError(f"want {name} as {description}, got {value!r:.60}")


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_number_from_0(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf


_SAMPLING: dict[str, tuple[Callable[[Any], bool], str]] = {
    "max_new_tokens": (lambda v: _is_count(v) and v > 0, "an integer of at least 1"),
    "temperature": (_is_number_from_0, "a number of at least 0"),
    "top_k": (_is_count, "an integer of at least 0"),
    "top_p": (
        lambda v: _is_number_from_0(v) and 0 < v <= 1,
        "a number above 0, at most 1",
    ),
    "min_p": (lambda v: _is_number_from_0(v) and v <= 1, "a number from 0 to 1"),
    "repetition_penalty": (
        lambda v: _is_number_from_0(v) and v > 0,
        "a number above 0",
    ),
    "chat_template_kwargs": (lambda v: isinstance(v, dict), "an object"),
    "reasoning_marks": (
        lambda v: (
            isinstance(v, list)
            and len(v) in (0, 2)
            and all(isinstance(mark, str) and mark.strip() for mark in v)
        ),
        "two texts, such as ['<think>', '</think>'], or [] without reasoning",
    ),
}
