"""Scripted players of taboo."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from arena_envs.bots.styles import check_style
from arena_envs.game import AnyGame
from arena_envs.games._taboo_state import GIVER, State
from arena_envs.games._talk import Utterance
from arena_envs.games._word_match import words_of
from arena_envs.games.taboo import GO_ON, Taboo

PASS = Utterance("say", (), GO_ON)


@dataclass(frozen=True)
class TabooPlayer:
    """Plays taboo in one of four styles, in each seat. All know the cards.

    | Style     | Describer, attacker: says    | Guesser                  | Defender                 |
    |-----------|------------------------------|--------------------------|--------------------------|
    | `honest`  | the clue of the card         | the word of a clue heard | guesses the word of a clue |
    | `greedy`  | the word, letter by letter   | the word of a clue heard | says the word of a clue  |
    | `silent`  | "go on"                      | a word not yet guessed   | "go on"                  |
    | `optimal` | the clue; attacker: "go on"  | the word of a clue heard | "go on"                  |

    A guesser that hears no clue of a card guesses a word that it has not yet guessed, and a defender
    says "go on". `optimal` is best in the finite core.

    Args:
        style: one of these words.

    Raises:
        ValueError: another style; when it plays, another game.
    """

    style: str

    def __post_init__(self) -> None:
        check_style(self.style, STYLES)

    def __call__(self, game: AnyGame, state: State, rng: random.Random) -> Utterance:
        if not isinstance(game, Taboo):
            raise ValueError(f"want Taboo, got {game!r}")
        gives, guesses = STYLES[self.style]
        if game.current_player(state) == GIVER:
            return gives(game, state)
        return guesses(game, state, rng)


def _clue(game: Taboo, state: State) -> Utterance:
    return Utterance("say", (), game.deck[state.word].clue)


def _spelled(game: Taboo, state: State) -> Utterance:
    return Utterance("say", (), ".".join(state.word)[: game.max_message])


def _nothing(game: Taboo, state: State) -> Utterance:
    return PASS


def _safe(game: Taboo, state: State) -> Utterance:
    return PASS if game.adversarial else _clue(game, state)


def _heard(game: Taboo, state: State) -> str | None:
    """The word whose clue `player_0` has just said."""
    said = words_of(state.said[-1].message)
    return next((word for word, card in game.deck.items() if card.clue in said), None)


def _untried(game: Taboo, state: State, rng: random.Random) -> Utterance:
    tried = {said.values[0] for said in state.said[1::2] if said.values}
    words = [word for word in game.deck if word not in tried] or [*game.deck]
    return Utterance("guess", (rng.choice(words),))


def _guesses(game: Taboo, state: State, rng: random.Random) -> Utterance:
    if word := _heard(game, state):
        return Utterance("guess", (word,))
    return PASS if game.adversarial else _untried(game, state, rng)


def _replies(game: Taboo, state: State, rng: random.Random) -> Utterance:
    word = _heard(game, state)
    if word is None or not game.adversarial:
        return _guesses(game, state, rng)
    return Utterance("say", (), word)


def _waits(game: Taboo, state: State, rng: random.Random) -> Utterance:
    return PASS if game.adversarial else _untried(game, state, rng)


def _best(game: Taboo, state: State, rng: random.Random) -> Utterance:
    return PASS if game.adversarial else _guesses(game, state, rng)


Giver = Callable[[Taboo, State], Utterance]
Guesser = Callable[[Taboo, State, random.Random], Utterance]

STYLES: dict[str, tuple[Giver, Guesser]] = {
    "greedy": (_spelled, _replies),
    "honest": (_clue, _guesses),
    "optimal": (_safe, _best),
    "silent": (_nothing, _waits),
}
