"""The page of a game as Markdown, with a prompt of each seat."""

import inspect
import json
import random
import re
import shlex
from collections.abc import Iterator
from typing import Any

from arena_envs.game import AnyGame, random_states
from arena_envs.registry import expression
from arena_envs.testing import page_of
from arena_envs.transforms import Transform, innermost
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
    params = inspect.signature(type(game)).parameters.values()
    parameters = (p.replace(annotation=p.empty, kind=p.KEYWORD_ONLY) for p in params)
    is_transform = isinstance(game, Transform)
    parts = [
        *(_head_of_transform(game, ids) if is_transform else _head(game, ids)),
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


def _head(game: AnyGame, ids: list[str]) -> list[str]:
    """Title, ids and body of the page of a game."""
    title, _, description = page_of(game).partition(":")
    sentence, _, body = description.strip().partition("\n\n")
    payment = _payment(game)
    return [
        f"# {title}",
        sentence[:1].upper() + " ".join(sentence.split())[1:],
        f"Ids: {', '.join(f'`{id}`' for id in ids)}.{payment and f' Pays {payment}.'}",
        body.strip(),
    ]


def _head_of_transform(game: AnyGame, ids: list[str]) -> list[str]:
    """Title and table of a transform: its own facts, as those of the inner game differ."""
    (id,) = ids
    inner_id = id
    while nested := expression(inner_id).inner:
        inner_id = str(nested[0])
    params = _set_parameters(innermost(game))
    keywords = "".join(f", {name}={value!r}" for name, value in params.items())
    texts = [f"{name}={json.dumps(value)}" for name, value in params.items()]
    words = "".join(f" -p {shlex.quote(text)}" for text in texts)
    last = game.num_players - 1
    agents = "`player_0`" if last == 0 else f"`player_0` to `player_{last}`"
    facts = [game.kind, f"{game.information} information"]
    facts += ["zero-sum"] * game.zero_sum + ["simultaneous"] * game.simultaneous
    actions = game.num_actions
    payment = _payment(game)
    rows = {
        "Create": f'`arena_envs.make("{id}"{keywords})`',
        "Agents": agents,
        "Kind": ", ".join(facts),
        "Actions": "utterances" if actions is None else f"`Discrete({actions})`",
        "Rewards": f"{payment and f'{payment}; '}returns from {game.min_return:g} to {game.max_return:g}",
        "Length": f"at most {game.max_turns} turns of all seats",
        "Known value": game.known_value or "-",
        "Inner game": f"{page_title(game) or inner_id}: `arena show {inner_id}{words}`",
    }
    width = max(map(len, rows.values()))
    lines = [f"| {'Property':11} | {'':{width}} |", f"|{'-' * 13}|{'-' * (width + 2)}|"]
    lines += [f"| {name:11} | {text:{width}} |" for name, text in rows.items()]
    return [f"# `{id}`", "\n".join(lines)]


def _set_parameters(game: AnyGame) -> dict[str, Any]:
    """The parameters of a game that are not at their defaults."""
    parameters = inspect.signature(type(game)).parameters.values()
    values = {p.name: getattr(game, p.name, p.default) for p in parameters}
    return {p.name: values[p.name] for p in parameters if values[p.name] != p.default}


def _payment(game: AnyGame) -> str:
    """When the game pays; empty if it does not say, as the fact is optional."""
    pays = getattr(game, "pays", None)
    return "" if pays is None else PAYMENTS[pays]


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
