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
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from arena_envs import talk
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    Vector,
    np,
    param,
)
from arena_envs.games.werewolf import state as states
from arena_envs.games.werewolf import texts
from arena_envs.games.werewolf.state import (
    NIGHT,
    NO_WOLF,
    OVER,
    ROLES,
    TALK,
    TIE,
    VOTE,
    WOLF,
    Event,
    State,
)
from arena_envs.talk import Utterance

__all__ = ["State", "Werewolf"]


def _past(state: State, seat: int, num_players: int, num_statements: int) -> Vector:
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


Action = Utterance | str | int  # chance draws a role, or a player among the tied

PLAYER = (talk.Player(tuple(range(9))),)
MOVES = (
    *(talk.Move(name, () if name == "pass" else PLAYER) for name in states.SPOKEN),
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
    scene = "arena_envs.games.werewolf.scene:scene"

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
        if self != type(self)():
            return None
        return "random play: the village wins with probability .129653"

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
            tied = states.most_voted(state)
            return [(seat, 1 / len(tied)) for seat in tied]
        left = list(self.roles)
        for role in state.roles:
            left.remove(role)
        return [(r, left.count(r) / len(left)) for r in ROLES if r in left]

    def legal_actions(self, state: State) -> Sequence[Utterance]:
        player = self.current_player(state)
        if player < 0:
            return ()
        moves = states.moves_for(state, player, messages=False)
        return [said for move in moves for said in talk.every(move)]

    def default_action(self, state: State) -> Utterance:
        """Silence by day; at night and in votes, the living player with the lowest number."""
        legal = self.legal_actions(state)
        return legal[-1] if state.phase == states.TALK else legal[0]

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
            return states.voted_out(state, action)
        event = Event(state.day, state.phase, self.current_player(state), action)
        after = state._replace(past=(*state.past, event), turn=state.turn + 1)
        return states.advanced(after, self.num_statements)

    def returns(self, state: State) -> Sequence[float]:
        if state.phase != OVER:
            return (0.0,) * self.num_players
        won = states.village_wins(state)
        return tuple(1.0 if (role != WOLF) == won else -1.0 for role in state.roles)

    def measures(self, state: State) -> dict[str, float]:
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
        found = sum(
            death.phase == VOTE and death.role == WOLF for death in state.deaths
        )
        return {
            "village_win": float(state.phase == OVER and states.village_wins(state)),
            "wolves_found": found / self.num_wolves,
            "vote_accuracy": sum(votes) / len(votes) if votes else 0.0,
            "claim_truth": sum(claims) / len(claims) if claims else 1.0,
        }

    def observe(self, state: State, seat: int) -> str:
        player = self.current_player(state)
        return "\n".join(texts.observed(state, seat, player, self.max_message))

    def information_state(self, state: State, seat: int) -> Any:
        known = states.known_roles(state, seat)
        past = tuple(
            (day, phase, other, said.move, said.values, said.message)
            for day, phase, other, said in states.known_events(state, seat)
        )
        public = (len(state.roles), state.phase, state.day, state.turn, state.deaths)
        return (seat, known, public, past)

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
        for other, role in enumerate(states.known_roles(state, seat)):
            if role:
                head[2 + kinds.index(role), other] = 1
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
        return states.moves_for(state, self.current_player(state), self.messages)

    def parse(self, state: State, text: str) -> Utterance:
        said: Utterance = super().parse(state, text)
        is_private = state.phase == NIGHT and said.message
        return said._replace(audience=state.wolves) if is_private else said

    def rules(self, seat: int) -> str:
        rules = texts.rules_text(self.roles, self.num_statements)
        return f"{rules} {texts.how_to_write(self.num_statements, self.num_wolves, self.longest)}"

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Draws roles and moves again that the seat does not know."""
        return states.redrawn(state, seat, self.roles, rng)
