"""The page of a game as Markdown, with a prompt of each seat."""

import inspect
import random
import re
from collections.abc import Iterator
from typing import Any

from arena_envs.game import AnyGame, random_states
from arena_envs.testing import page_of
from arena_wrappers.prompts.messages import Message, messages
from arena_wrappers.prompts.options import PromptOptions

MAX_PROMPTS = 200  # prompts in a mean length
MAX_TURNS = 50  # random turns, in search of a prompt of each seat


def page_title(game: AnyGame) -> str:
    """The first words of the page, up to the colon."""
    return page_of(game).partition(":")[0]


def sample_prompts(game: AnyGame, seed: int = 0) -> dict[int, list[Message]]:
    """The last prompt of each seat in the first turns of a random episode, by seat.

    Seats without a turn are missing. The prompt options are the defaults.
    """
    prompts: dict[int, list[Message]] = {}
    for turn, (state, seat) in enumerate(_turns(game, random.Random(seed))):
        if turn >= MAX_TURNS or len(prompts) == game.num_players:
            break
        prompts[seat] = messages(game, state, seat, PromptOptions())
    return dict(sorted(prompts.items()))


def mean_prompt_length(game: AnyGame, seed: int = 0) -> float:
    """Mean characters of a prompt with default options, over random play."""
    rng, lengths = random.Random(seed), list[int]()
    while len(lengths) < MAX_PROMPTS:
        for state, seat in _turns(game, rng):
            prompt = messages(game, state, seat, PromptOptions())
            lengths.append(sum(len(message["content"]) for message in prompt))
            if len(lengths) == MAX_PROMPTS:
                break
    return sum(lengths) / len(lengths)


def page_text(game: AnyGame, ids: list[str]) -> str:
    """The page of a game as Markdown: docstrings, ids, and a prompt of each seat."""
    title, _, description = page_of(game).partition(":")
    sentence, _, body = description.strip().partition("\n\n")
    params = inspect.signature(type(game)).parameters.values()
    parameters = (p.replace(annotation=p.empty, kind=p.KEYWORD_ONLY) for p in params)
    pays = getattr(game, "pays", None)  # the fact is optional
    payment = "" if pays is None else f" Pays {PAYMENTS[pays]}."
    parts = [
        f"# {title}",
        sentence[:1].upper() + " ".join(sentence.split())[1:],
        f"Ids: {', '.join(f'`{id}`' for id in ids)}.{payment}",
        body.strip(),
        "## Parameters",
        f"`{type(game).__name__}({', '.join(map(str, parameters))})`",
        _parameters(game),
        *_knobs(game),
        "## What a model reads",
    ]
    if any(getattr(game, p.name, p.default) != p.default for p in params):
        parts.append(f"In `{game!r}`:")
    for seat, prompt in sample_prompts(game).items():
        quoted = "\n\n".join(f"[{m['role']}]\n{m['content']}" for m in prompt)
        parts.append(f"`player_{seat}`:\n\n```text\n{quoted}\n```")
    return "\n\n".join(parts) + "\n"


PAYMENTS = {"end": "at the end", "on_the_way": "on the way"}


def _parameters(game: AnyGame) -> str:
    """The docstring of the class, with its sections as Markdown."""
    text = inspect.cleandoc(type(game).__doc__ or "")
    text = re.sub(r"^(Args|Raises|Attributes):$", r"\n**\1**\n", text, flags=re.M)
    lines = []
    for line in text.splitlines():
        item = re.match(r"^    (\w+): (.*)", line)
        lines.append(f"- `{item[1]}`: {item[2]}" if item else line.strip())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _knobs(game: AnyGame) -> list[str]:
    """The game's knobs as Markdown; empty without knobs."""
    knobs = getattr(game, "knobs", {})  # the fact is optional
    lines = [
        f"- `{name}`: {', '.join(f'`{value!r}`' for value in values)}"
        for name, values in knobs.items()
    ]
    return ["**Knobs**, from easy to hard", "\n".join(lines)] if lines else []


def _turns(game: AnyGame, rng: random.Random) -> Iterator[tuple[Any, int]]:
    """Decision states of a random episode, with the seat to move."""
    return (
        (state, player) for state, player in random_states(game, rng) if player >= 0
    )
