"""States of Werewolf: who lives, who is to move, and what the end of a phase brings."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from arena_envs.games import _talk as talk
from arena_envs.games._talk import Utterance

ROLES = ("wolf", "seer", "doctor", "villager")
WOLF, SEER, DOCTOR, VILLAGER = ROLES
NO_WOLF = "no wolf"  # what a seer knows of others
NIGHT, TALK, VOTE, TIE, OVER = "night", "talk", "vote", "tie", "over"

NIGHT_MOVES = {WOLF: "kill", SEER: "see", DOCTOR: "save", VILLAGER: "sleep"}
DAY_MOVES = {TALK: ("accuse", "clear", "pass"), VOTE: ("vote",)}
WITHOUT_TARGET = ("sleep", "pass")
SPOKEN = ("kill", "accuse", "clear", "pass")  # moves that may have a message


class Event(NamedTuple):
    """A move of a player."""

    day: int
    phase: str
    seat: int
    said: Utterance


class Death(NamedTuple):
    """A player who died in a night, or was voted out, and its role, which all are told."""

    day: int
    phase: str
    seat: int
    role: str


class State(NamedTuple):
    """All of a game.

    Attributes:
        roles: by seat, as far as they are drawn.
        living: seats, ascending.
        phase: night, talk, vote, tie (chance chooses among the tied) or over.
        day: from 1; night 1 comes before day 1.
        turn: moves made in this phase.
        past: all moves.
        deaths: all deaths.
    """

    roles: tuple[str, ...]
    living: tuple[int, ...]
    phase: str = NIGHT
    day: int = 1
    turn: int = 0
    past: tuple[Event, ...] = ()
    deaths: tuple[Death, ...] = ()

    @property
    def wolves(self) -> tuple[int, ...]:
        """Seats of all wolves, dead ones too."""
        return tuple(seat for seat, role in enumerate(self.roles) if role == WOLF)


def moves_for(state: State, seat: int, messages: bool) -> tuple[talk.Move, ...]:
    """The moves of the seat to move."""
    role = state.roles[seat]
    names = (NIGHT_MOVES[role],) if state.phase == NIGHT else DAY_MOVES[state.phase]
    speaks = messages and (state.phase != NIGHT or len(state.wolves) > 1)
    return tuple(
        talk.Move(
            name,
            fields=(
                ()
                if name in WITHOUT_TARGET
                else (talk.Player(targets(state, seat, name)),)
            ),
            message="may" if speaks and name in SPOKEN else "no",
        )
        for name in names
    )


def targets(state: State, seat: int, move: str) -> tuple[int, ...]:
    """Whom a move may name: doctors may save themselves, and wolves kill no wolf."""
    if move == "save":
        return state.living
    if move == "kill":
        return tuple(s for s in state.living if state.roles[s] != WOLF)
    return tuple(s for s in state.living if s != seat)


def advanced(state: State, num_statements: int) -> State:
    """The state after a move; at the end of a phase, somebody may die and the next one starts."""
    count = len(state.living)
    if state.phase == TALK:
        is_over = state.turn == count * num_statements
        return state._replace(phase=VOTE, turn=0) if is_over else state
    if state.turn < count:
        return state
    if state.phase == NIGHT:
        victim = victim_of(state.past[-count:])
        after = state if victim is None else _died(state, victim)
        if after.phase == OVER:
            return after
        return after._replace(phase=TALK if num_statements else VOTE, turn=0)
    leading = most_voted(state)
    if len(leading) > 1:
        return state._replace(phase=TIE)
    return voted_out(state, leading[0])


def victim_of(moves: Sequence[Event]) -> int | None:
    """Who dies by the moves of a night: whom the last wolf named, unless the doctor saved it."""
    named = {each.said.move: each.said.values[0] for each in moves if each.said.values}
    victim: int = named["kill"]
    return None if named.get("save") == victim else victim


def most_voted(state: State) -> list[int]:
    """The players with the most votes, ascending, when all have voted."""
    cast = state.past[-len(state.living) :]
    votes = Counter(each.said.values[0] for each in cast)
    most = max(votes.values())
    return sorted(seat for seat, number in votes.items() if number == most)


def voted_out(state: State, seat: int) -> State:
    """The state after a vote against a seat."""
    after = _died(state._replace(phase=VOTE), seat)
    if after.phase == OVER:
        return after
    return after._replace(phase=NIGHT, day=state.day + 1, turn=0)


def _died(state: State, seat: int) -> State:
    living = tuple(other for other in state.living if other != seat)
    death = Death(state.day, state.phase, seat, state.roles[seat])
    num_wolves = sum(state.roles[other] == WOLF for other in living)
    is_over = not num_wolves or 2 * num_wolves >= len(living)
    return state._replace(
        living=living,
        phase=OVER if is_over else state.phase,
        deaths=(*state.deaths, death),
    )


def village_wins(state: State) -> bool:
    """Whether no wolf lives."""
    return all(state.roles[seat] != WOLF for seat in state.living)


def known_roles(state: State, seat: int) -> tuple[str, ...]:
    """What a seat knows of the role of each seat: the role, `NO_WOLF`, or nothing ("")."""
    if len(state.roles) < len(state.living):
        return tuple(
            role if other == seat else "" for other, role in enumerate(state.roles)
        )
    own, known = state.roles[seat], [""] * len(state.roles)
    if own == SEER:
        for each in state.past:
            if each.seat == seat and each.said.move == "see":
                (seen,) = each.said.values
                known[seen] = WOLF if state.roles[seen] == WOLF else NO_WOLF
    for other in state.wolves if own == WOLF else ():
        known[other] = WOLF
    for death in state.deaths:
        known[death.seat] = death.role
    known[seat] = own
    return tuple(known)


def known_events(state: State, seat: int) -> tuple[Event, ...]:
    """The moves that a seat knows of.

    These are its own, what was said by day, votes when all have voted, and, to wolves, the moves
    of wolves.
    """
    wolves = state.wolves if len(state.roles) > seat else ()
    is_wolf = seat in wolves
    voting = state.day if state.phase == VOTE else 0
    return tuple(
        each
        for each in state.past
        if each.seat == seat
        or each.phase == TALK
        or (each.phase == VOTE and each.day != voting)
        or (each.phase == NIGHT and is_wolf and each.seat in wolves)
    )
