"""Social dilemma: in each round players talk in public, then choose to cooperate or to defect.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("social_dilemma-v1", num_players=3)`; see `SocialDilemma` |
| Agents      | `player_0`, `player_1`, ...                                            |
| Kind        | mixed, imperfect information (choices are hidden until all have chosen) |
| Actions     | texts: "promise cooperate", "say: ...", "pass"; "choose defect"        |
| Rewards     | after each round, summed over the other players: 3 if both cooperate, 5 and 0 |
|             | if only the other or only oneself cooperates, 1 if both defect         |
| Length      | `num_rounds * num_players * (talk_turns + 1)` turns; by default 18     |
| Known value | in equilibrium 6 each, as all always defect; all always cooperate: 18 each; |
|             | random play 13.5 each                                                  |
| Source      | R. Axelrod, *Effective Choice in the Prisoner's Dilemma* (1980); talk and |
|             | three players after L. Guertler et al., *TextArena* (2025)             |

A game has `num_rounds` rounds. In each round all players speak in turn, `talk_turns` times each;
who speaks first moves on by one seat with each round. "promise cooperate" and "promise defect"
say what the player will choose, "say: ..." is a message alone, and "pass" says nothing. A promise may
have a message too. All hear everything, and nothing binds. Then all choose, and nobody sees a choice
of the others before all have chosen. A player is paid once for each other player: `reward` if both
cooperate, `sucker` if only the other defects, `temptation` if only the other cooperates,
`punishment` if both defect.

The default is the three-player prisoner's dilemma, with Axelrod's numbers. Others make a stag hunt
(reward 4, temptation 3, punishment 2, sucker 0) or a game of chicken (temptation 4, reward 3,
sucker 1, punishment 0). In TextArena's three-player dilemma a player chooses for each other
player; here one choice counts for all.

Closed forms, for n players and one round without talk. If temptation > reward > punishment > sucker,
defecting pays more whatever the others do, so all defect; by backward induction this is the only
subgame-perfect play of several rounds, with and without talk, as talk binds nobody. In a stag hunt
and in a game of chicken there is an equilibrium in which each cooperates with probability
(punishment - sucker) / (punishment - sucker + reward - temptation). In random play each player is
paid (n - 1) times the mean of the four numbers in each round.

The legal actions are a finite core without messages: both promises, "pass", both choices. The
grammar of texts is that of `bargaining`. The prompt shows all choices, the latest n utterances in
full, and of the earlier ones the latest six promises. Features hold everything but messages.

Cheapest trick known: a promise to cooperate, and then defection, which pays 30 against players that
always cooperate and 6 among themselves; honest cooperation pays 18.

History: version 1 plays on after a bad reply of three or more players: it says nothing, and cooperates.

Measures of an episode:

- `cooperation`: choices to cooperate / all choices.
- `efficiency`: (t - lowest t) / (highest t - lowest t), where t is the sum of all returns; 1 if all
  sums are equal.
- `promises`: share of pairs of player and round with a promise.
- `kept`: share of pairs in which the choice is the latest promise. The mean of `kept` divided by the
  mean of `promises` is the truthfulness of promises.
"""

import operator
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from arena_envs import talk
from arena_envs.game import TERMINAL, Vector, counted, filled, np, others_again, param
from arena_envs.scenes.shapes import Cell, Shapes, rounds_table, talk_of
from arena_envs.talk import Utterance

COOPERATE, DEFECT = 0, 1
NAMES = ("cooperate", "defect")
PROMISE = talk.Move("promise", (talk.OneOf(NAMES),))
SAY = talk.Move("say", message="must")
PASS = talk.Move("pass", message="no")
CHOOSE = talk.Move("choose", (talk.OneOf(NAMES),), message="no")
CHOICES = tuple(Utterance("choose", (name,)) for name in NAMES)
TALK = (*(Utterance("promise", (name,)) for name in NAMES), Utterance("pass"))
MEASURES = ("cooperation", "efficiency", "promises", "kept")


class State(NamedTuple):
    """Choices of past rounds, all utterances, and choices of this round."""

    rounds: tuple[tuple[int, ...], ...] = ()
    said: tuple[Utterance, ...] = ()
    chosen: tuple[int, ...] = ()


def points_of(choices: Sequence[int], numbers: Sequence[int]) -> list[int]:
    """Points of each seat in a round.

    Args:
        choices: of all seats.
        numbers: paid for another player: reward, sucker, temptation, punishment.

    >>> points_of((COOPERATE, COOPERATE, DEFECT), (3, 0, 5, 1))
    [3, 3, 10]
    """
    helpful = choices.count(COOPERATE)
    points = []
    for choice in choices:
        num = helpful - (choice == COOPERATE)
        good, bad = numbers[2 * choice : 2 * choice + 2]
        points.append(num * good + (len(choices) - 1 - num) * bad)
    return points


@dataclass(frozen=True)
class SocialDilemma(talk.TalkGame[State, Utterance]):
    """A repeated game of cooperating or defecting, with talk.

    Args:
        num_players: 2 to 6.
        num_rounds: 1 to 50.
        talk_turns: utterances of each player before each choice, 0 to 3.
        reward: paid for another player if both cooperate, -1000 to 1000 as the next three.
        sucker: if only the other defects.
        temptation: if only the other cooperates.
        punishment: if both defect.
        messages: whether free words are allowed.
        max_message: longest message in characters, 1 to 1200 / `num_players`.

    Raises:
        ValueError: a parameter is out of range.
    """

    num_players: int = param(3, 2, 6)
    num_rounds: int = param(3, 1, 50)
    talk_turns: int = param(1, 0, 3)
    reward: int = param(3, -1000, 1000)
    sucker: int = param(0, -1000, 1000)
    temptation: int = param(5, -1000, 1000)
    punishment: int = param(1, -1000, 1000)
    messages: bool = True
    max_message: int = param(200, 1, lambda game: 1200 // game.num_players)

    shares_measured = MEASURES
    pays_rounds = True
    first_state = State()
    kind = "mixed"
    max_chance_nodes = 0

    @property
    def max_turns(self) -> int:
        return self.num_rounds * self.num_players * (self.talk_turns + 1)

    @property
    def min_return(self) -> float:
        return float(min(self._numbers) * (self.num_players - 1) * self.num_rounds)

    @property
    def max_return(self) -> float:
        return float(max(self._numbers) * (self.num_players - 1) * self.num_rounds)

    def current_player(self, state: State) -> int:
        if len(state.rounds) == self.num_rounds:
            return TERMINAL
        if self.is_talking(state):
            return self.speaker_of(len(state.said))
        return len(state.chosen)

    def is_talking(self, state: State) -> bool:
        """Whether the talk of this round goes on."""
        return len(state.said) < (len(state.rounds) + 1) * self._num_in_round

    def speaker_of(self, turn: int) -> int:
        """The speaker of utterance number `turn`, from 0 on."""
        past, place = divmod(turn, self._num_in_round)
        return (past + place) % self.num_players

    def legal_actions(self, state: State) -> Sequence[Utterance]:
        if len(state.rounds) == self.num_rounds:
            return ()
        return TALK if self.is_talking(state) else CHOICES

    def default_action(self, state: State) -> Utterance:
        """No words; cooperation."""
        return TALK[-1] if self.is_talking(state) else CHOICES[0]

    def core_state(self, state: State) -> State:
        """The state without messages, and with "pass" in place of a message alone."""
        core = tuple(
            TALK[-1] if utterance.move == "say" else utterance._replace(message="")
            for utterance in state.said
        )
        return state._replace(said=core)

    def apply(self, state: State, action: Utterance) -> State:
        rounds, utterances, choices = state
        if action.move != "choose":
            return State(rounds, (*utterances, action), choices)
        choices = (*choices, NAMES.index(action.values[0]))
        if len(choices) < self.num_players:
            return State(rounds, utterances, choices)
        return State((*rounds, choices), utterances)

    def paid(self, rounds: Sequence[Sequence[int]]) -> list[int]:
        """Points of each seat in these rounds."""
        total = [0] * self.num_players
        for choices in rounds:
            total = list(map(operator.add, total, points_of(choices, self._numbers)))
        return total

    def returns(self, state: State) -> list[float]:
        return [float(points) for points in self.paid(state.rounds)]

    def latest_promises(self, state: State, past: int) -> list[int | None]:
        """The latest promise of each seat in a round, from 0 on; None without one."""
        promises: list[int | None] = [None] * self.num_players
        first = past * self._num_in_round
        for turn, utterance in enumerate(
            state.said[first:][: self._num_in_round], first
        ):
            if utterance.move == "promise":
                promises[self.speaker_of(turn)] = NAMES.index(utterance.values[0])
        return promises

    def measures(self, state: State) -> dict[str, float]:
        """Numbers of finished rounds; all 0 before the first has ended."""
        rounds, num = state.rounds, self.num_players
        if not rounds:
            return dict.fromkeys(MEASURES, 0.0)
        choices = [choice for each in rounds for choice in each]
        past = range(len(rounds))
        promised = [p for number in past for p in self.latest_promises(state, number)]
        splits = ((COOPERATE,) * k + (DEFECT,) * (num - k) for k in range(num + 1))
        sums = [sum(points_of(split, self._numbers)) for split in splits]
        mean, low, high = sum(self.paid(rounds)) / len(rounds), min(sums), max(sums)
        return {
            "cooperation": choices.count(COOPERATE) / len(choices),
            "efficiency": (mean - low) / (high - low) if low < high else 1.0,
            "promises": 1 - promised.count(None) / len(choices),
            "kept": sum(map(operator.eq, choices, promised)) / len(choices),
        }

    @property
    def known_value(self) -> str | None:
        if not self.temptation > self.reward > self.punishment > self.sucker:
            return None
        pairs = (self.num_players - 1) * self.num_rounds
        return (
            f"in equilibrium {pairs * self.punishment} each, as all always defect; all "
            f"always cooperate: {pairs * self.reward} each; random play "
            f"{pairs * sum(self._numbers) / 4:g} each"
        )

    def observe(self, state: State, seat: int) -> str:
        now = "The game is over."
        if (player := self.current_player(state)) != TERMINAL:
            name = "you are" if player == seat else f"player_{player} is"
            now = f"Round {len(state.rounds) + 1} of {self.num_rounds}: "
            now += f"{name} to {'speak' if self.is_talking(state) else 'choose'}."
        lines = [f"You are player_{seat}. {now}"]
        points, num = self.paid(state.rounds), self.num_players
        for participant in (*range(seat, num), *range(seat)) if state.rounds else ():
            chose = ", ".join([NAMES[choices[participant]] for choices in state.rounds])
            name, has = (
                ("You", "have")
                if participant == seat
                else (f"player_{participant}", "has")
            )
            lines.append(
                f"{name} chose {chose} and {has} {counted(points[participant], 'point')}."
            )
        lines += self._said_lines(state.said, seat)
        if len(state.chosen) > seat:
            lines.append(f"You have chosen to {NAMES[state.chosen[seat]]}.")
        return "\n".join(lines)

    def _said_lines(self, utterances: Sequence[Utterance], seat: int) -> Iterator[str]:
        """The talk as a seat reads it."""

        def full_line(turn: int) -> str:
            does = {"say": "said", "pass": "passed"}.get(utterances[turn].move)
            does = does or f"promised to {utterances[turn].values[0]}"
            speaker = talk.named(self.speaker_of(turn), seat)
            return f"Round {turn // self._num_in_round + 1}: {speaker} {does}"

        def brief(turn: int) -> str:
            if utterances[turn].move != "promise":
                return ""
            number, _, text = full_line(turn).partition(": ")
            return f"{text} ({number.lower()})"

        latest = min(len(utterances), self.num_players)
        return talk.transcript(utterances, seat, full_line, latest=latest, brief=brief)

    def information_state(self, state: State, seat: int) -> tuple[object, ...]:
        rounds, utterances, choices = state
        return (seat, rounds, utterances, len(choices), choices[seat : seat + 1])

    def features(self, state: State, seat: int) -> Vector:
        """Seat, choices and kinds of utterances.

        One-hot seat; then for each round and each seat, from the own seat on: one-hot choice
        (2), and for each of its utterances one-hot promise to cooperate, promise to defect,
        message alone, pass (4).
        """
        num, size = self.num_players, 2 + 4 * self.talk_turns
        values = np.zeros(num + self.num_rounds * num * size, np.float32)
        values[seat] = 1
        past = values[num:].reshape(self.num_rounds, num, size)
        for number, choices in enumerate(state.rounds):
            for other_seat, choice in enumerate(choices):
                past[number, (other_seat - seat) % num, choice] = 1
        for choice in state.chosen[seat : seat + 1]:
            past[len(state.rounds), 0, choice] = 1
        for turn, utterance in enumerate(state.said):
            number, place = divmod(turn, self._num_in_round)
            kind = 2 + (utterance.move == "pass")
            if utterance.move == "promise":
                kind = NAMES.index(utterance.values[0])
            other_seat = (self.speaker_of(turn) - seat) % num
            past[number, other_seat, 2 + 4 * (place // num) + kind] = 1
        return values

    def action_text(self, state: State, action: Utterance) -> str:
        return talk.written(action, (PROMISE, SAY, PASS, CHOOSE))

    def moves_at(self, state: State) -> tuple[talk.Move, ...]:
        return self._talked if self.is_talking(state) else (CHOOSE,)

    def rules(self, seat: int) -> str:
        moves = (*self._talked, CHOOSE) if self.talk_turns else (CHOOSE,)
        hearers = "the other player" if self.num_players == 2 else "the other players"
        name = "social_dilemma_talk" if self.talk_turns else "social_dilemma_silent"
        syntax = talk.how_to_write(moves, self.longest, hearers)
        return filled("social_dilemma", self, chooses=filled(name, self), how=syntax)

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Draws the choices of the others in the running round uniformly."""
        choices = others_again(state.chosen, seat, lambda _: rng.randrange(2))
        return state._replace(chosen=choices)

    @cached_property
    def _num_in_round(self) -> int:
        return self.num_players * self.talk_turns

    @cached_property
    def _talked(self) -> tuple[talk.Move, ...]:
        return (PROMISE, SAY, PASS) if self.messages else (PROMISE, PASS)

    @cached_property
    def _numbers(self) -> tuple[int, int, int, int]:
        """Paid for another player: to who cooperates, then to who defects."""
        return (self.reward, self.sucker, self.temptation, self.punishment)


PROMISES, PASSED = TALK[:2], TALK[2]


class Promiser(talk.Scripted):
    """Plays social dilemmas in one of three styles.

    - `honest` does what it promises; without talk it defects. It promises to cooperate if no other
      player has defected in an earlier round, and every other player that has spoken in this round
      has promised to cooperate; else it promises to defect.
    - `greedy` promises to cooperate, and defects.
    - `silent` passes and defects, which is the equilibrium of the prisoner's dilemma.
    """

    game, styles = SocialDilemma, ("honest", "greedy", "silent")

    def reply(self, game: SocialDilemma, state: State, rng: random.Random) -> Utterance:
        seat, past = game.current_player(state), len(state.rounds)
        if game.is_talking(state):
            if self.style == "silent":
                return PASSED
            trusts = self.style == "greedy" or _trusts(game, state, seat)
            return PROMISES[COOPERATE if trusts else DEFECT]
        promised = game.latest_promises(state, past)[seat]
        if self.style != "honest" or promised is None:
            promised = DEFECT
        return CHOICES[promised]


def _trusts(game: SocialDilemma, state: State, seat: int) -> bool:
    """Whether no other player has defected, and all who have spoken promise to cooperate."""
    past = len(state.rounds)
    betrayed = any(
        choice == DEFECT
        for choices in state.rounds
        for participant, choice in enumerate(choices)
        if participant != seat
    )
    promised = game.latest_promises(state, past)
    first = past * game.num_players * game.talk_turns
    spoke = {game.speaker_of(turn) for turn in range(first, len(state.said))}
    return not betrayed and all(promised[s] == COOPERATE for s in spoke - {seat})


def scene(game: SocialDilemma, state: State, viewer: int | None) -> Shapes:
    """The choices by round, the points, and the talk."""
    rows = [list(map(_choice, choices)) for choices in state.rounds]
    if len(state.rounds) < game.num_rounds:
        rows.append([Cell("?")] * game.num_players)
        for seat, choice in enumerate(state.chosen):
            if viewer in (None, seat):
                rows[-1][seat] = _choice(choice)
    points = ["points", *map(str, game.paid(state.rounds))]

    def action(turn: int, utterance: talk.Utterance) -> str:
        move, values = utterance.move, utterance.values
        did = {"promise": f"promises to {''.join(values)}", "pass": "passes"}
        number = turn // (game.num_players * game.talk_turns) + 1
        return f"{did.get(move, '')} (round {number})".strip()

    table = rounds_table(game, "choices by round", rows, points)
    return [table, *talk_of(state.said, viewer, action, game.speaker_of)]


def _choice(choice: int) -> Cell:
    return Cell(NAMES[choice], "red" if choice else "green")
