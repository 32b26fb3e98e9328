"""What a seat of Werewolf does not know, drawn again."""

import random
from collections.abc import Sequence

from arena_envs.games import _werewolf_state as states
from arena_envs.games._talk import Utterance
from arena_envs.games._werewolf_state import (
    DOCTOR,
    NIGHT,
    NIGHT_MOVES,
    NO_WOLF,
    WOLF,
    Event,
    State,
)


def redrawn(state: State, seat: int, roles: Sequence[str], rng: random.Random) -> State:
    """A state that the seat cannot tell from this one.

    Roles are uniform over those that fit what the seat knows. Then hidden moves are drawn that
    lead to the same deaths.

    Args:
        state: the state.
        seat: who knows what it knows.
        roles: all roles of the game.
        rng: the generator.
    """
    drawn = state._replace(roles=_roles(state, seat, roles, rng))
    if len(state.roles) < len(roles):
        return drawn
    kept = set(states.known_events(state, seat))
    past: list[Event] = []
    for each in state.past:
        if each.phase != NIGHT and each not in kept:  # a running vote
            others = states.targets(drawn, each.seat, "vote")
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
    known = list(states.known_roles(state, seat))
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
    """Whom the seat, a doctor, has saved from wolves, who attack no wolf."""
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
    attacked = (*dead, *known, rng.choice(states.targets(then, 0, "kill")))[0]

    def choices(seat: int, name: str) -> Sequence[int]:
        seats = states.targets(then, seat, name)
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
        elif name in states.WITHOUT_TARGET:
            said = Utterance(name)
        else:
            said = Utterance(name, (rng.choice(choices(each.seat, name)),))
        night.append(each._replace(said=said))
    return night


def _living(state: State, day: int) -> tuple[int, ...]:
    """Who lived when a night began."""
    gone = {death.seat for death in state.deaths if death.day < day}
    return tuple(seat for seat in range(len(state.roles)) if seat not in gone)
