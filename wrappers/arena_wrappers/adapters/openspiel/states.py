"""OpenSpiel's states and texts, remembered by game and history."""

import re
from collections import Counter
from functools import lru_cache
from typing import Any

import pyspiel

MAX_STATES = 10_000  # remembered at a time

State = tuple[int, ...]  # all actions and chance outcomes so far


class UnsupportedGame(ValueError):
    """OpenSpiel's game lacks what a game needs here; the message says what."""


@lru_cache(64)
def loaded(name: str) -> Any:
    """OpenSpiel's game; simultaneous choices are made turn-based.

    Raises:
        UnsupportedGame: OpenSpiel cannot load it.
    """
    try:
        game = pyspiel.load_game(name)
        if game.get_type().dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
            game = pyspiel.convert_to_turn_based(game)
    except pyspiel.SpielError as error:
        what = str(error).splitlines()[0][:200]
        raise UnsupportedGame(f"OpenSpiel cannot load {name!r}: {what}") from error
    return game


@lru_cache(MAX_STATES)
def spiel_state(name: str, state: State) -> Any:
    """OpenSpiel's state after these actions; callers must not change it."""
    if not state:
        return loaded(name).new_initial_state()
    # step by step, else a long game exceeds the recursion limit
    for end in range(500, len(state), 500):
        spiel_state(name, state[:end])
    return spiel_state(name, state[:-1]).child(state[-1])


@lru_cache(MAX_STATES)
def action_texts(name: str, state: State) -> dict[int, str]:
    """Texts of the legal actions; equal texts get the number of the action."""
    spiel = spiel_state(name, state)
    legal = spiel.legal_actions()
    texts = {action: one_line(spiel.action_to_string(action)) for action in legal}
    count = Counter(text.casefold() for text in texts.values())
    return {
        action: text
        if text and count[text.casefold()] == 1
        else f"{text} action {action}".strip()
        for action, text in texts.items()
    }


def ascii_lines(text: str) -> str:
    """The text in ASCII, without blanks at the ends of lines."""
    return "\n".join(
        line.rstrip() for line in text.encode("ascii", "replace").decode().splitlines()
    ).strip("\n")


def one_line(text: str) -> str:
    r"""The text on one line, without the marks that enclose actions in prompts and replies.

    >>> one_line("x(0,1)\n")
    'x 0 1'
    """
    return " ".join(re.sub(r"[<>\[\]{}(),]", " ", ascii_lines(text)).split())
