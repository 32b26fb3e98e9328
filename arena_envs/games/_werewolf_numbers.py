"""Werewolf in numbers: features of a seat, and measures of an episode."""

import numpy as np
from numpy.typing import NDArray

from arena_envs.games import _werewolf_state as states
from arena_envs.games._werewolf_state import (
    NIGHT,
    NO_WOLF,
    OVER,
    ROLES,
    TALK,
    TIE,
    VOTE,
    WOLF,
    State,
)


def features_of(
    state: State, seat: int, num_players: int, num_statements: int
) -> NDArray[np.float32]:
    """What `Werewolf.features` returns."""
    head = np.zeros((7, num_players), np.float32)
    head[0, seat] = 1
    head[1, list(state.living)] = 1
    kinds = (*ROLES, NO_WOLF)
    for other, role in enumerate(states.known_roles(state, seat)):
        if role:
            head[2 + kinds.index(role), other] = 1
    stage = np.zeros(7, np.float32)
    stage[(NIGHT, TALK, VOTE, TIE, OVER).index(state.phase)] = 1
    stage[5:] = state.turn, state.day
    past = _past(state, seat, num_players, num_statements)
    return np.concatenate([head.ravel(), stage, past.ravel()])


def _past(
    state: State, seat: int, num_players: int, num_statements: int
) -> NDArray[np.float32]:
    width = 2 + 2 * num_statements
    days = np.zeros((num_players - 2, 2 + num_players * width), np.float32)
    for death in state.deaths:
        days[death.day - 1, int(death.phase == VOTE)] = (death.seat + 1) / num_players
    spoken: dict[tuple[int, int], int] = {}
    for day, phase, other, said in states.known_events(state, seat):
        place = int(phase == VOTE)
        if phase == TALK:
            number = spoken.get((day, other), 0)
            spoken[day, other] = number + 1
            place = 2 + 2 * number + int(said.move == "clear")
        value = (said.values[0] + 1) / num_players if said.values else -1.0
        days[day - 1, 2 + other * width + place] = value
    return days


def measured(state: State, num_wolves: int) -> dict[str, float]:
    """Whether the village wins, wolves found, accuracy of votes, truth of claims."""
    votes, claims = [], []
    for _, _, seat, said in state.past:
        if not said.values:
            continue
        names_wolf = state.roles[said.values[0]] == WOLF
        if said.move == "vote" and state.roles[seat] != WOLF:
            votes.append(names_wolf)
        elif said.move in ("accuse", "clear"):
            claims.append(names_wolf == (said.move == "accuse"))
    found = sum(death.phase == VOTE and death.role == WOLF for death in state.deaths)
    return {
        "village_win": float(state.phase == OVER and states.village_wins(state)),
        "wolves_found": found / num_wolves,
        "vote_accuracy": sum(votes) / len(votes) if votes else 0.0,
        "claim_truth": sum(claims) / len(claims) if claims else 1.0,
    }
