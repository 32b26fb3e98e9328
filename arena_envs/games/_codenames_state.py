"""A state of codenames, its transitions, what clues are allowed, and what an episode measures."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_envs.games._talk import Utterance
from arena_envs.games._word_match import forms

ASSASSIN, NEUTRAL, UNKNOWN = "x", "n", "?"
ROLES = ("0", "1", ASSASSIN, NEUTRAL, UNKNOWN)
NUMBERS = (
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
    *("eighteen", "nineteen", "twenty", "twentyone", "twentytwo", "twentythree"),
    *("twentyfour", "twentyfive"),
)
MIN_PART = 4  # letters of a part of a word that counts


class State(NamedTuple):
    """A game in progress.

    Attributes:
        board: number of the board; -1 before it is drawn.
        key: role of each word, one of `ROLES`; unknown until it is drawn.
        said: all utterances in order.
        seats: who made each.
        guessed: places of the words guessed so far, in order.
        team: whose turn it is.
        left: guesses that are left to the operative; 0: the spymaster is to move.
        winner: the team that has won, or -1.
    """

    board: int = -1
    key: str = ""
    said: tuple[Utterance, ...] = ()
    seats: tuple[int, ...] = ()
    guessed: tuple[int, ...] = ()
    team: int = 0
    left: int = 0
    winner: int = -1

    def hidden(self, role: str) -> int:
        """Number of words of a role that have not been guessed."""
        return self.key.count(role) - sum(self.key[p] == role for p in self.guessed)


def after_chance(state: State, drawn: int, num_words: int, roles: str) -> State:
    """The state after chance has drawn a board, or the place of the next one of `roles`."""
    if state.board < 0:
        return state._replace(board=drawn, key=UNKNOWN * num_words)
    number = num_words - state.key.count(UNKNOWN)
    key = state.key[:drawn] + roles[number] + state.key[drawn + 1 :]
    if number + 1 == len(roles):
        key = key.replace(UNKNOWN, NEUTRAL)
    return state._replace(key=key)


def spoken(state: State, said: Utterance) -> State:
    """The state with one more utterance, before it has an effect."""
    seat = 2 * state.team + (said.move != "clue")
    return state._replace(said=(*state.said, said), seats=(*state.seats, seat))


def after_guess(state: State, place: int) -> State:
    """The state after the operative has guessed the word of a place."""
    role, team = state.key[place], state.team
    state = state._replace(guessed=(*state.guessed, place))
    if role == ASSASSIN:
        return state._replace(winner=1 - team, left=0)
    if role in "01" and not state.hidden(role):
        return state._replace(winner=int(role), left=0)
    if role == str(team) and state.left > 1:
        return state._replace(left=state.left - 1)
    return state._replace(team=1 - team, left=0)


@lru_cache(65_536)
def clashes(clue: str, word: str) -> bool:
    """Whether a clue is too close to a word on the board.

    One is a form of the other, or one starts or ends with the other, in any form, if both have
    four letters or more.
    """
    if clue in forms(word) or word in forms(clue):
        return True
    short, long = sorted((clue, word), key=len)
    if len(short) < MIN_PART:
        return False
    parts = tuple(form for form in forms(short) if len(form) >= MIN_PART)
    return any(form.startswith(parts) or form.endswith(parts) for form in forms(long))


def clash_of(clue: str, words: Sequence[str]) -> str | None:
    """The first word that a clue is too close to; None if it is allowed."""
    return next((word for word in words if clashes(clue, word)), None)


def measured(state: State) -> dict[str, float]:
    """Hits, found per clue and assassin, as the page defines them."""
    teams = [
        str(seat // 2)
        for seat, said in zip(state.seats, state.said, strict=True)
        if said.move == "guess"
    ]
    roles = [state.key[place] for place in state.guessed]
    hits = sum(role == team for role, team in zip(roles, teams, strict=True))
    num_clues = sum(said.move == "clue" for said in state.said)
    return {
        "hits": hits / len(roles) if roles else 1.0,
        "found_per_clue": hits / max(1, num_clues),
        "assassin": float(ASSASSIN in roles),
    }


def features(
    state: State, seat: int, key: str, is_mover: bool, max_turns: int
) -> NDArray[np.float32]:
    """What a seat knows as numbers; `Codenames.features` says which.

    Args:
        state: of the game.
        seat: who knows it.
        key: the roles that the seat knows.
        is_mover: whether the seat is to move.
        max_turns: of the game.
    """
    num = len(key)
    head = np.zeros(9, np.float32)
    roles = np.zeros((num, len(ROLES)), np.float32)
    turns = np.zeros((max_turns, num + 2), np.float32)
    head[seat] = 1
    head[4:6] = is_mover, state.left
    if state.winner >= 0:
        head[6 + state.winner] = 1
    head[8] = 1 + state.board
    roles[range(num), [ROLES.index(role) for role in key]] = 1
    guessed = iter(state.guessed)
    for turn, said in enumerate(state.said):
        turns[turn, num:] = said.move == "clue", 1
        if said.move == "guess":
            turns[turn, next(guessed)] = 1
        elif said.values and said.values[0] in NUMBERS[:num]:
            turns[turn, NUMBERS.index(said.values[0])] = 1
    return np.concatenate([head, roles.ravel(), turns.ravel()])
