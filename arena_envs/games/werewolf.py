r"""Werewolf: a village that talks and votes against wolves who know each other.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("werewolf-v1", num_players=5, num_wolves=1)`, see `Werewolf` |
| Agents      | 4 to 9, `player_0` to `player_8`; 6 by default                         |
| Kind        | mixed, imperfect information; two hidden teams                         |
| Actions     | texts: "kill player_1", "see player_1", "save player_1", "sleep"; "accuse player_1", "clear player_1", "pass"; "vote player_1" |
| Rewards     | at the end: 1 to each member of the team that wins, -1 to the others   |
| Length      | a turn of each living player per night, statement and vote; at most `max_turns` |
| Known value | the village wins with probability .129653 in random play of the default; 1 - c (n-1)!!/n!! with one wolf, no seer, no doctor, n = `num_players` - 1, c = 1 for odd n, 2 for even n |
| Source      | Z. Xu et al., *Language Agents with Reinforcement Learning for Strategic Play in the Werewolf Game* (2023); M. Braverman, O. Etesami, E. Mossel, *Mafia* (2008) |

Chance deals the roles: wolves, a seer, a doctor and villagers. Wolves know each other. Everybody
else knows its own role only.

*Night.* Every living player moves in the order of the seats, so turns show no role. Nobody but
wolves sees another's move. A wolf names a victim, and the last living wolf decides; with "kill" it
may say something, which only wolves read. The seer learns whether a player is a wolf. The doctor
protects a player, who does not die this night. Villagers "sleep".

*Day.* All learn who died, and its role. Each living player speaks `num_statements` times in the
order of the seats: "accuse" and "clear" claim that a player is a wolf or none, and any
statement may have a message. Then all vote. Votes are shown when all have voted. The player with
the most votes is out, and its role is told; chance chooses among the tied, all with the same
probability. There is no vote for nobody.

The village wins when no wolf lives. The wolves win when they are at least as many as the others.

**One wolf, no seer, no doctor.** The value is known for any number of statements. If villagers
vote at random, then n living players lose the wolf with probability 1/n, whatever it does: votes
are secret, and all villagers look alike. The village has no better strategy: a wolf that kills at
random and by day does what a villager with its seat would do dies as often as any other player
(Braverman, Etesami and Mossel prove that random votes are optimal). There are votes among n = `num_players` - 1,
n - 2, ... players, down to 3 or 4, so the wolf survives with probability (1 - 1/n)(1 - 1/(n-2))...
This is (n-1)!!/n!! for odd n (P. Migdał, *A mathematical model of the Mafia game*, 2010), and twice
that for even n. The village wins with probability 1/3 of 4 players, 1/4 of 5, 7/15 of 6, 3/8 of 7.
So without a seer words are worth nothing.

A reply gives one move in a sentence of its own, and all other words are the message, of at most
`max_message` characters (`docs/replies.md` shows how replies are read). With `parsing="strict"` the move
stands alone in the last line or sentence, as in `bargaining-v1`. The legal actions are the moves
without messages. The prompt shows all deaths and votes, as many of the latest statements in full as
fit (1,000 / `max_message`, at least 3), and the claims of the earlier ones.

Cheapest trick known: none. Nonsense one death before defeat ended version 0 early and paid; now it is a
default move (silence by day, else the lowest number), and the first one costs 0.2, a tenth of the
range of returns, also in a lost game. Always "sleep", or the first action, pays -0.28 (honest: -0.11).

History: version 1 plays on after a bad reply.

Measures of an episode: `village_win` (1 or 0), `wolves_found` (share of the wolves that were voted
out), `vote_accuracy` (share of the votes of the village that name a wolf, 0 without votes) and
`claim_truth` (share of all accusations and clearances that are true, 1 without any).
"""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from arena_envs import talk
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    Vector,
    by_player,
    filled,
    np,
    param,
    share_of,
)
from arena_envs.scenes.shapes import Shapes, Table, cells, seat_cell, talk_of
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
        utterances = [event.said for event in state.past[-count:]]
        targets_by_move = {
            event.move: event.values[0] for event in utterances if event.values
        }
        # dies whom the last wolf named, unless the doctor saved it
        is_saved = targets_by_move.get("save") == targets_by_move["kill"]
        after = state if is_saved else _died(state, targets_by_move["kill"])
        if after.phase == OVER:
            return after
        return after._replace(phase=TALK if num_statements else VOTE, turn=0)
    leading = most_voted(state)
    if len(leading) > 1:
        return state._replace(phase=TIE)
    return voted_out(state, leading[0])


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
    living = tuple(player for player in state.living if player != seat)
    death = Death(state.day, state.phase, seat, state.roles[seat])
    num_wolves = sum(state.roles[player] == WOLF for player in living)
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
            role if player == seat else "" for player, role in enumerate(state.roles)
        )
    own_role, visible_roles = state.roles[seat], [""] * len(state.roles)
    if own_role == SEER:
        for event in state.past:
            if event.seat == seat and event.said.move == "see":
                (target,) = event.said.values
                visible_roles[target] = WOLF if state.roles[target] == WOLF else NO_WOLF
    for player in state.wolves if own_role == WOLF else ():
        visible_roles[player] = WOLF
    for death in state.deaths:
        visible_roles[death.seat] = death.role
    visible_roles[seat] = own_role
    return tuple(visible_roles)


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


def _roles(
    state: State, seat: int, roles: Sequence[str], rng: random.Random
) -> tuple[str, ...]:
    """Roles that fit what the seat knows, uniform over all that do."""
    new_roles = list(known_roles(state, seat))
    left = list(roles)
    for role in new_roles:
        if role not in ("", NO_WOLF):
            left.remove(role)
    unknown = [s for s, role in enumerate(new_roles) if role in ("", NO_WOLF)]
    free = [s for s in unknown if not new_roles[s] and s not in _saved(state, seat)]
    num_wolves = left.count(WOLF)
    if len(state.roles) < len(roles):  # not all are drawn: any of the rest
        num_wolves = 0
        rng.shuffle(left)
    else:
        left = [role for role in left if role != WOLF]
        rng.shuffle(left)
    for player in rng.sample(free, num_wolves):
        new_roles[player] = WOLF
    for player in unknown:
        if new_roles[player] != WOLF:
            new_roles[player] = left.pop()
    return tuple(new_roles)


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
    candidate: State,
    moves: Sequence[Event],
    visible_events: set[Event],
    rng: random.Random,
) -> list[Event]:
    """Moves of a night for the drawn roles, with the same victim if the night is over."""
    day = moves[0].day
    gone = {death.seat for death in candidate.deaths if death.day < day}
    living = tuple(seat for seat in range(len(candidate.roles)) if seat not in gone)
    then = candidate._replace(living=living)  # when the night began
    is_over = candidate.day > day or candidate.phase != NIGHT
    dead = [d.seat for d in candidate.deaths if d.day == day and d.phase == NIGHT]
    last_wolf = [e.seat for e in moves if candidate.roles[e.seat] == WOLF][-1:]
    fixed = {event.seat: event.said for event in moves if event in visible_events}
    saved_or_attacked = [
        utterance.values[0]
        for seat, utterance in fixed.items()
        if utterance.move == "save" or [seat] == last_wolf
    ]
    attacked = (*dead, *saved_or_attacked, rng.choice(targets(then, 0, "kill")))[0]

    def choices(seat: int, name: str) -> Sequence[int]:
        seats = targets(then, seat, name)
        if is_over and name == "kill" and [seat] == last_wolf:
            return (attacked,)
        if is_over and name == "save":
            return [s for s in seats if s != attacked] if dead else (attacked,)
        return seats

    night = []
    for event in moves:
        name = NIGHT_MOVES[candidate.roles[event.seat]]
        if event.seat in fixed:
            utterance = fixed[event.seat]
        elif name in WITHOUT_TARGET:
            utterance = Utterance(name)
        else:
            utterance = Utterance(name, (rng.choice(choices(event.seat, name)),))
        night.append(event._replace(said=utterance))
    return night


KILL, *DAY_SPEECH = (talk.Move(name) for name in SPOKEN)
VOTING = talk.Move("vote", message="no")

TASKS = {
    "kill": "name the player to kill",
    "see": "choose a player to see",
    "save": "choose a player to save",
    "sleep": "sleep",
    TALK: "accuse or clear a player, or pass",
    VOTE: "vote for a player",
}
PAST = {
    "kill": "named {} to kill",
    "save": "saved {}",
    "accuse": "accused {}",
    "clear": "cleared {}",
    "pass": "passed",
    "vote": "voted for {}",
}


def named(seats: Sequence[int]) -> str:
    """Seats by name."""
    return ", ".join(f"player_{seat}" for seat in seats) or "nobody"


def article(role: str) -> str:
    """A role with its article.

    >>> article("seer"), article("wolf"), article("no wolf")
    ('the seer', 'a wolf', 'no wolf')
    """
    if role == NO_WOLF:
        return role
    return f"{'a' if role in ('wolf', 'villager') else 'the'} {role}"


def _stage(state: State, seat: int, player: int) -> str:
    if player == TERMINAL:
        winner = "village wins" if village_wins(state) else "wolves win"
        return f"The game is over: the {winner}."
    if player == CHANCE:
        subject = "roles are" if not state.past else "vote is tied, and a name is"
        return f"The {subject} being drawn."
    when = f"Night {state.day}." if state.phase == NIGHT else f"Day {state.day}."
    verb = {NIGHT: "choose", TALK: "speak", VOTE: "vote"}[state.phase]
    if player != seat:
        return f"{when} player_{player} is to {verb}."
    is_night = state.phase == NIGHT
    task = NIGHT_MOVES[state.roles[seat]] if is_night else state.phase
    return f"{when} You are to move: {TASKS[task]}."


def _knowledge(state: State, seat: int, roles: Sequence[str]) -> Iterator[str]:
    if len(roles) < len(state.living):
        return
    if roles[seat] == WOLF and len(state.wolves) > 1:
        yield f"The wolves are {named(state.wolves)}."
    if roles[seat] == SEER:
        public_seats = {seat, *(death.seat for death in state.deaths)}
        findings = [
            f"player_{player} is {article(role)}"
            for player, role in enumerate(roles)
            if role and player not in public_seats
        ]
        if findings:
            yield f"You have seen that {', '.join(findings)}."


def _chronicle(state: State) -> Iterator[str]:
    """The public story of nights and votes that are over."""
    deaths = {(death.day, death.phase): death for death in state.deaths}
    for day in range(1, state.day + 1):
        if day < state.day or state.phase != NIGHT:
            yield f"Night {day}: {_fate(deaths, day, NIGHT, 'died')}."
        votes = [e for e in state.past if e.day == day and e.phase == VOTE]
        if votes and not _is_running_vote(state, votes[0]):
            cast = by_player((e.seat, f"for player_{e.said.values[0]}") for e in votes)
            yield f"Day {day} votes: {cast}. {_fate(deaths, day, VOTE, 'was voted out')}."


def _fate(
    deaths: dict[tuple[int, str], Death], day: int, phase: str, cause: str
) -> str:
    if not (death := deaths.get((day, phase))):
        return "nobody died" if phase == NIGHT else "The vote is tied"
    return f"player_{death.seat}, {article(death.role)}, {cause}"


def _is_running_vote(state: State, each: Event) -> bool:
    return each.phase == state.phase == VOTE and each.day == state.day


def _transcript(events: Sequence[Event], seat: int, latest: int) -> Iterator[str]:
    def did(turn: int) -> str:
        event = events[turn]
        speaker = "you" if event.seat == seat else f"player_{event.seat}"
        target = f"player_{event.said.values[0]}" if event.said.values else ""
        return f"{speaker} {PAST[event.said.move].format(target)}"

    def full_line(turn: int) -> str:
        event = events[turn]
        when = "Night" if event.phase == NIGHT else "Day"
        return f"{when} {event.day}: {did(turn)}"

    def brief(turn: int) -> str:
        return "" if events[turn].said.move == "pass" else did(turn)

    utterances = [each.said for each in events]
    yield from talk.transcript(
        utterances, seat, full_line, latest=latest, brief=brief, num_listed=None
    )


def _past(state: State, seat: int, num_players: int, num_statements: int) -> Vector:
    width = 2 + 2 * num_statements
    days = np.zeros((num_players - 2, 2 + num_players * width), np.float32)
    for death in state.deaths:
        days[death.day - 1, int(death.phase == VOTE)] = (death.seat + 1) / num_players
    spoken: dict[tuple[int, int], int] = {}
    for day, phase, player, utterance in known_events(state, seat):
        place = int(phase == VOTE)
        if phase == TALK:
            number = spoken.get((day, player), 0)
            spoken[day, player] = number + 1
            place = 2 + 2 * number + int(utterance.move == "clear")
        value = (utterance.values[0] + 1) / num_players if utterance.values else -1.0
        days[day - 1, 2 + player * width + place] = value
    return days


Action = Utterance | str | int  # chance draws a role, or a player among the tied

PLAYER = (talk.Player(tuple(range(9))),)
MOVES = (
    *(talk.Move(name, () if name == "pass" else PLAYER) for name in SPOKEN),
    *(talk.Move(name, PLAYER, message="no") for name in ("see", "save", "vote")),
    talk.Move("sleep", message="no"),
)


@dataclass(frozen=True)
class Werewolf(talk.TalkGame[State, Action]):
    """Hidden teams that talk and vote.

    Args:
        num_players: from 4 to 9.
        num_wolves: from 1 to `num_players / 2 - 1`.
        seer: whether there is a seer.
        doctor: whether there is a doctor.
        num_statements: of each living player per day, 0 to 2.
        messages: whether a statement, and a wolf's move at night, may have a message.
        max_message: longest message in characters, 1 to 300.

    Raises:
        ValueError: a parameter is out of range.
    """

    num_players: int = param(6, 4, 9)
    num_wolves: int = param(2, 1, lambda game: (game.num_players - 2) // 2)
    seer: bool = True
    doctor: bool = True
    num_statements: int = param(1, 0, 2)
    messages: bool = True
    max_message: int = param(150, 1, 300)

    shares_measured = ("village_win", "wolves_found", "vote_accuracy", "claim_truth")
    kind = "mixed"
    min_return, max_return = -1.0, 1.0
    default_value = "random play: the village wins with probability .129653"

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """All roles that are dealt: wolves, seer, doctor, villagers."""
        special = (*["seer"] * self.seer, *["doctor"] * self.doctor)
        num_villagers = self.num_players - self.num_wolves - len(special)
        return (*[WOLF] * self.num_wolves, *special, *["villager"] * num_villagers)

    @property
    def _nights(self) -> range:
        """Players alive at the start of each night, at most."""
        return range(self.num_players, 2, -1 if self.doctor else -2)

    @property
    def max_turns(self) -> int:
        days = [alive if self.doctor else alive - 1 for alive in self._nights]
        spoken = sum(alive * (1 + self.num_statements) for alive in days if alive > 2)
        return sum(self._nights) + spoken

    @property
    def max_chance_nodes(self) -> int:
        return self.num_players + len(self._nights)

    @property
    def known_value(self) -> str | None:
        if self.num_wolves == 1 and not self.seer and not self.doctor:
            wolf = Fraction(1)
            for alive in range(self.num_players - 1, 2, -2):
                wolf *= Fraction(alive - 1, alive)
            return f"the village wins with probability {1 - wolf}"
        return super().known_value

    def initial_state(self) -> State:
        return State((), tuple(range(self.num_players)))

    def current_player(self, state: State) -> int:
        if len(state.roles) < self.num_players or state.phase == TIE:
            return CHANCE
        if state.phase == OVER:
            return TERMINAL
        return state.living[state.turn % len(state.living)]

    def chance_outcomes(self, state: State) -> list[tuple[Action, float]]:
        if state.phase == TIE:
            tied = most_voted(state)
            return [(seat, 1 / len(tied)) for seat in tied]
        left = list(self.roles)
        for role in state.roles:
            left.remove(role)
        return [(r, left.count(r) / len(left)) for r in ROLES if r in left]

    def legal_actions(self, state: State) -> Sequence[Utterance]:
        player = self.current_player(state)
        if player < 0:
            return ()
        moves = moves_for(state, player, messages=False)
        return [utterance for move in moves for utterance in talk.every(move)]

    def default_action(self, state: State) -> Utterance:
        """Silence by day; at night and in votes, the living player with the lowest number."""
        legal = self.legal_actions(state)
        return legal[-1] if state.phase == TALK else legal[0]

    def core_state(self, state: State) -> State:
        """The state without messages."""
        past = [
            each._replace(said=each.said._replace(message="", audience=()))
            for each in state.past
        ]
        return state._replace(past=tuple(past))

    def apply(self, state: State, action: Action) -> State:
        if isinstance(action, str):
            return state._replace(roles=(*state.roles, action))
        if isinstance(action, int):
            return voted_out(state, action)
        event = Event(state.day, state.phase, self.current_player(state), action)
        after = state._replace(past=(*state.past, event), turn=state.turn + 1)
        return advanced(after, self.num_statements)

    def returns(self, state: State) -> Sequence[float]:
        if state.phase != OVER:
            return (0.0,) * self.num_players
        won = village_wins(state)
        return tuple(1.0 if (role != WOLF) == won else -1.0 for role in state.roles)

    def measures(self, state: State) -> dict[str, float]:
        """Whether the village wins, wolves found, accuracy of votes, truth of claims."""
        votes, claims = list[bool](), list[bool]()
        for _, _, seat, utterance in state.past:
            if not utterance.values:
                continue
            names_wolf = state.roles[utterance.values[0]] == WOLF
            if utterance.move == "vote" and state.roles[seat] != WOLF:
                votes.append(names_wolf)
            elif utterance.move in ("accuse", "clear"):
                claims.append(names_wolf == (utterance.move == "accuse"))
        num_wolves_voted_out = sum(
            death.phase == VOTE and death.role == WOLF for death in state.deaths
        )
        return {
            "village_win": float(state.phase == OVER and village_wins(state)),
            "wolves_found": num_wolves_voted_out / self.num_wolves,
            "vote_accuracy": share_of(votes, 0.0),
            "claim_truth": share_of(claims),
        }

    def observe(self, state: State, seat: int) -> str:
        return "\n".join(self._lines(state, seat))

    def _lines(self, state: State, seat: int) -> Iterator[str]:
        roles, player = known_roles(state, seat), self.current_player(state)
        role = f", {article(roles[seat])}" if len(roles) > seat else ""
        alive = "alive" if seat in state.living else "dead"
        stage = _stage(state, seat, player)
        yield f"You are player_{seat}{role} and {alive}. {stage}"
        yield f"Living: {named(state.living)}."
        yield from _knowledge(state, seat, roles)
        yield from _chronicle(state)
        listed_events = [
            event
            for event in known_events(state, seat)
            if event.said.move not in ("vote", "see", "sleep")
            or _is_running_vote(state, event)
        ]
        yield from _transcript(listed_events, seat, talk.num_in_full(self.max_message))

    def information_state(self, state: State, seat: int) -> Any:
        roles = known_roles(state, seat)
        past = tuple(
            (day, phase, player, utterance.move, utterance.values, utterance.message)
            for day, phase, player, utterance in known_events(state, seat)
        )
        public = (len(state.roles), state.phase, state.day, state.turn, state.deaths)
        return (seat, roles, public, past)

    def features(self, state: State, seat: int) -> Vector:
        """Seat, phase, who lives, known roles, deaths, and moves by day and player.

        One-hot seat (N); one-hot phase (5); turn and day (2); living (N); one-hot known role or
        "no wolf" (5N); and for each day: the deaths of night and vote (2) and for each player the
        target of night, vote and statements (2 + 2 * `num_statements`). Players count from 1 here,
        divided by N; a statement has an accused and a cleared player; -1 stands for other moves.
        """
        head = np.zeros((7, self.num_players), np.float32)
        head[0, seat] = 1
        head[1, list(state.living)] = 1
        kinds = (*ROLES, NO_WOLF)
        for player, role in enumerate(known_roles(state, seat)):
            if role:
                head[2 + kinds.index(role), player] = 1
        stage = np.zeros(7, np.float32)
        stage[(NIGHT, TALK, VOTE, TIE, OVER).index(state.phase)] = 1
        stage[5:] = state.turn, state.day
        past = _past(state, seat, self.num_players, self.num_statements)
        return np.concatenate([head.ravel(), stage, past.ravel()])

    def action_text(self, state: State, action: Action) -> str:
        if isinstance(action, str):
            return f"role {action}"
        if isinstance(action, int):
            return f"player_{action} is out"
        return talk.written(action, MOVES)

    def moves_at(self, state: State) -> tuple[talk.Move, ...]:
        return moves_for(state, self.current_player(state), self.messages)

    def parse(self, state: State, text: str) -> Utterance:
        utterance: Utterance = super().parse(state, text)
        is_private = state.phase == NIGHT and utterance.message
        return utterance._replace(audience=state.wolves) if is_private else utterance

    def rules(self, seat: int) -> str:
        num, speaks = self.roles.count(VILLAGER), self.num_statements > 0
        day = filled("werewolf_day", self) if speaks else "By day"
        moves, others = ((*DAY_SPEECH, VOTING) if speaks else (VOTING,)), "players"
        if self.num_wolves > 1 and not speaks:
            moves, others = (KILL, VOTING), "wolves"
        syntax = talk.how_to_write(moves, self.longest, f"the other {others}")
        if self.num_wolves > 1 and speaks and self.longest:
            syntax += (
                ' With "kill", wolves may speak in the same way; only wolves read it.'
            )
        return filled("werewolf", self, num_villagers=num, day=day, how=syntax)

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Draws roles and moves again that the seat does not know.

        Roles are uniform over those that fit what the seat knows. Then hidden moves are drawn that
        lead to the same deaths.
        """
        candidate = state._replace(roles=_roles(state, seat, self.roles, rng))
        if len(state.roles) < self.num_players:
            return candidate
        visible_events = set(known_events(state, seat))
        past: list[Event] = []
        for event in state.past:
            if event.phase != NIGHT and event not in visible_events:  # a running vote
                others = targets(candidate, event.seat, "vote")
                event = event._replace(said=Utterance("vote", (rng.choice(others),)))
            past.append(event)
        start = 0
        while start < len(past):
            end = start
            while end < len(past) and past[end][:2] == past[start][:2]:
                end += 1
            if past[start].phase == NIGHT:
                past[start:end] = _night(
                    candidate, past[start:end], visible_events, rng
                )
            start = end
        return candidate._replace(past=tuple(past))

    @cached_property
    def hidden_answers(self) -> tuple[str, ...]:
        """The roles that are dealt."""
        return tuple(dict.fromkeys(self.roles))

    def hidden(self, state: State, seat: int) -> tuple[str, str] | None:
        """The role of the next living player; None before all roles are dealt."""
        candidates = [player for player in state.living if player != seat]
        if len(state.roles) < self.num_players or not candidates:
            return None
        player = min(candidates, key=lambda number: (number - seat) % self.num_players)
        return f"What is the role of player_{player}?", state.roles[player]


CLAIM = "I am the seer."
FOUND = re.compile(r"player_([0-9]) is (a|no) wolf")
Claims = dict[int, dict[int, bool]]  # by claimed seer: who is a wolf


class WerewolfPlayer(talk.Scripted):
    """Plays Werewolf in one of three styles, in every role.

    | Style    | Seer                | Others of the village                 | Wolves              |
    |----------|---------------------|---------------------------------------|---------------------|
    | `honest` | tells what it found | believe the first who claims to be it | pass; vote at random |
    | `greedy` | tells what it found | with two who claim, vote for one of them | claim to be the seer, accuse, vote alike |
    | `silent` | passes              | pass; vote at random                  | pass; vote at random |

    Claims are made and read in words: "I am the seer. player_3 is a wolf." Who died with another
    role is not believed. `honest` and `greedy` wolves kill who claims to be the seer, and
    such doctors save it; else targets are random, except that seers see new players. With one wolf, no
    seer and no doctor, a `silent` village earns the value, whatever the wolf does.
    """

    game, styles = Werewolf, ("greedy", "honest", "silent")

    def reply(self, game: Werewolf, state: State, rng: random.Random) -> Utterance:
        legal = game.legal_actions(state)
        seat = game.current_player(state)
        if self.style == "silent":
            return legal[-1] if state.phase == TALK else rng.choice(legal)
        if state.phase == NIGHT:
            roles = known_roles(state, seat)
            unknown = [player for player, role in enumerate(roles) if not role]
            candidates = unknown if roles[seat] == SEER else list(_claims(state))
            return rng.choice(_naming(legal, candidates) or legal)
        if state.phase == TALK:
            return self._speak(game, state, seat, rng)
        return rng.choice(_naming(legal, self._suspects(state, seat)) or legal)

    def _speak(
        self, game: Werewolf, state: State, seat: int, rng: random.Random
    ) -> Utterance:
        roles = known_roles(state, seat)
        others = [player for player in state.living if player != seat]
        if roles[seat] == SEER:
            suspects = _suspects_of_seer(state, seat) or [s for s in others if roles[s]]
            if suspects:
                return _claim(game, suspects[-1], roles[suspects[-1]] != NO_WOLF)
        elif roles[seat] == WOLF and self.style == "greedy":
            pack = [s for s in state.living if roles[s] == WOLF]
            if seat == pack[0]:
                rivals = [s for s in _claims(state) if s in others]
                victims = [s for s in others if roles[s] != WOLF]
                return _claim(game, (rivals or [rng.choice(victims)])[0], True)
        return Utterance("pass")

    def _suspects(self, state: State, seat: int) -> Sequence[int]:
        """The players that the seat wants to vote for."""
        roles, claims = known_roles(state, seat), _claims(state)
        if roles[seat] == SEER:
            cleared = [s for s in state.living if not roles[s]]
            return _suspects_of_seer(state, seat) or cleared
        if roles[seat] == WOLF:
            targets = [s for s in state.living if roles[s] != WOLF]
            pack = [findings for s, findings in claims.items() if roles[s] == WOLF]
            agreed = [
                s for findings in pack for s in _accused(findings) if s in targets
            ]
            return agreed[-1:] if self.style == "greedy" and agreed else targets
        believed = {s: findings for s, findings in claims.items() if s != seat}
        living = [s for s in believed if s in state.living]
        if self.style == "greedy" and len(living) > 1:
            return living
        findings = next(iter(believed.values()), {})
        accused = [s for s in _accused(findings) if s in state.living]
        return accused or [s for s in state.living if findings.get(s) is None]


def _suspects_of_seer(state: State, seat: int) -> list[int]:
    """The wolves that a seer knows, and who else claims to be the seer."""
    roles = known_roles(state, seat)
    liars = _claims(state).keys() - {seat}
    return [s for s in state.living if roles[s] == WOLF or s in liars]


def _claims(state: State) -> Claims:
    """Claims to be the seer in words, in order, with their findings; no refuted ones."""
    refuted = {death.seat for death in state.deaths if death.role != SEER}
    claims: Claims = {}
    for event in state.past:
        speaks = event.phase == TALK and event.seat not in refuted
        if speaks and CLAIM in event.said.message:
            findings = claims.setdefault(event.seat, {})
            for target, kind in FOUND.findall(event.said.message):
                findings[int(target)] = kind == "a"
    return claims


def _accused(findings: dict[int, bool]) -> list[int]:
    return [seat for seat, is_wolf in findings.items() if is_wolf]


def _claim(game: Werewolf, target: int, is_wolf: bool) -> Utterance:
    utterance = Utterance("accuse" if is_wolf else "clear", (target,))
    words = f"{CLAIM} player_{target} is {'a' if is_wolf else 'no'} wolf."
    return talk.with_words(game, utterance, words)


def _naming(legal: Sequence[Utterance], seats: Sequence[int]) -> list[Utterance]:
    return [
        utterance
        for utterance in legal
        if utterance.values and utterance.values[0] in seats
    ]


def scene(game: Werewolf, state: State, viewer: int | None) -> Shapes:
    """The living, the roles and votes that the viewer knows, and the talk in its audiences."""
    events = state.past if viewer is None else known_events(state, viewer)
    roles = state.roles if viewer is None else known_roles(state, viewer)
    fates = {death.seat: death for death in state.deaths}
    votes = {each.seat: each.said.values[0] for each in events if each.phase == "vote"}
    rows = []
    for seat, role in enumerate(roles):
        name, fate = seat_cell(seat), "alive"
        if seat in fates:
            is_night = fates[seat].phase == NIGHT
            cause = "died in night" if is_night else "voted out on day"
            name, fate = name._replace(tone="gone"), f"{cause} {fates[seat].day}"
        voted = f"player_{votes[seat]}" if seat in votes else ""
        rows.append(cells(name, role or "hidden", fate, voted))
    spoken = [each for each in events if each.said.move not in ("vote", "sleep")]

    def full_line(turn: int, utterance: talk.Utterance) -> str:
        event = spoken[turn]
        when = "night" if event.phase == NIGHT else "day"
        target = f" player_{utterance.values[0]}" if utterance.values else ""
        return f"{utterance.move}{target} ({when} {event.day})"

    utterances = [each.said for each in spoken]
    table = Table(f"day {state.day}", ("seat", "role", "fate", "latest vote"), rows)
    return [
        table,
        *talk_of(utterances, viewer, full_line, lambda turn: spoken[turn].seat),
    ]
