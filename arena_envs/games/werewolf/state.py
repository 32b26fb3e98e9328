"""States of Werewolf: the living, the seat to move, the end of a phase, and draws of hidden roles."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from arena_envs import talk
from arena_envs.talk import Utterance

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
    """The players that a move may name: doctors may save themselves, and wolves kill no wolf."""
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
    """The player that dies in a night: the one that the last wolf named, unless the doctor saved it."""
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
    """The role of each seat as a seat knows it: the role, `NO_WOLF`, or nothing ("")."""
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


def redrawn(state: State, seat: int, roles: Sequence[str], rng: random.Random) -> State:
    """A state that the seat cannot tell from this one.

    Roles are uniform over those that fit what the seat knows. Then hidden moves are drawn that
    lead to the same deaths.
    """
    drawn = state._replace(roles=_roles(state, seat, roles, rng))
    if len(state.roles) < len(roles):
        return drawn
    kept = set(known_events(state, seat))
    past: list[Event] = []
    for each in state.past:
        if each.phase != NIGHT and each not in kept:  # a running vote
            others = targets(drawn, each.seat, "vote")
            each = each._replace(said=Utterance("vote", (rng.choice(others),)))
        past.append(each)
    start = 0
    while start < len(past):
        end = start
        while end < len(past) and past[end][:2] == past[start][:2]:
            end += 1
        if past[start].phase == NIGHT:
            past[start:end] = _night(drawn, past[start:end], kept, rng)
        start = end
    return drawn._replace(past=tuple(past))


def _roles(
    state: State, seat: int, roles: Sequence[str], rng: random.Random
) -> tuple[str, ...]:
    """Roles that fit what the seat knows, uniform over all that do."""
    known = list(known_roles(state, seat))
    left = list(roles)
    for role in known:
        if role not in ("", NO_WOLF):
            left.remove(role)
    unknown = [s for s, role in enumerate(known) if role in ("", NO_WOLF)]
    free = [s for s in unknown if not known[s] and s not in _saved(state, seat)]
    num_wolves = left.count(WOLF)
    if len(state.roles) < len(roles):  # not all are drawn: any of the rest
        num_wolves = 0
        rng.shuffle(left)
    else:
        left = [role for role in left if role != WOLF]
        rng.shuffle(left)
    for other in rng.sample(free, num_wolves):
        known[other] = WOLF
    for other in unknown:
        if known[other] != WOLF:
            known[other] = left.pop()
    return tuple(known)


def _saved(state: State, seat: int) -> set[int]:
    """Players that the seat, a doctor, has saved from wolves, who attack no wolf."""
    if state.roles[seat : seat + 1] != (DOCTOR,):
        return set()
    attacked = {death.day for death in state.deaths if death.phase == NIGHT}
    return {
        each.said.values[0]
        for each in state.past
        if each.seat == seat
        and each.said.move == "save"
        and each.day not in attacked
        and (each.day < state.day or state.phase != NIGHT)
    }


def _night(
    drawn: State, moves: Sequence[Event], kept: set[Event], rng: random.Random
) -> list[Event]:
    """Moves of a night for the drawn roles, with the same victim if the night is over."""
    day = moves[0].day
    then = drawn._replace(living=_living(drawn, day))
    is_over = drawn.day > day or drawn.phase != NIGHT
    dead = [d.seat for d in drawn.deaths if d.day == day and d.phase == NIGHT]
    last_wolf = [e.seat for e in moves if drawn.roles[e.seat] == WOLF][-1:]
    fixed = {each.seat: each.said for each in moves if each in kept}
    known = [
        said.values[0]
        for seat, said in fixed.items()
        if said.move == "save" or [seat] == last_wolf
    ]
    attacked = (*dead, *known, rng.choice(targets(then, 0, "kill")))[0]

    def choices(seat: int, name: str) -> Sequence[int]:
        seats = targets(then, seat, name)
        if is_over and name == "kill" and [seat] == last_wolf:
            return (attacked,)
        if is_over and name == "save":
            return [s for s in seats if s != attacked] if dead else (attacked,)
        return seats

    night = []
    for each in moves:
        name = NIGHT_MOVES[drawn.roles[each.seat]]
        if each.seat in fixed:
            said = fixed[each.seat]
        elif name in WITHOUT_TARGET:
            said = Utterance(name)
        else:
            said = Utterance(name, (rng.choice(choices(each.seat, name)),))
        night.append(each._replace(said=said))
    return night


def _living(state: State, day: int) -> tuple[int, ...]:
    """The players that lived when a night began."""
    gone = {death.seat for death in state.deaths if death.day < day}
    return tuple(seat for seat in range(len(state.roles)) if seat not in gone)
