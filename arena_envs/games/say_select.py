r"""Say-Select: one player knows which balls pay and speaks, the other selects balls or quits.

| Property    | Value                                                                    |
|-------------|--------------------------------------------------------------------------|
| Create      | `arena_envs.make("say_select-v0", num_balls=5)`, see `SaySelect`         |
| Agents      | `player_0`, who knows the balls, and `player_1`, who selects             |
| Kind        | cooperative, imperfect information                                       |
| Actions     | texts: "name 2", with or without a message; "select 2", "quit"           |
| Rewards     | to both: 1 or -1 for each selected ball                                  |
| Length      | at most 2R turns, R being `num_rounds`                                   |
| Known value | best mean score 2, in words or by the convention that a repeated name means "quit" |
| Source      | H. Hu and D. Sadigh, *Language Instructed Reinforcement Learning for Human-AI |
|             | Coordination* (2023), https://arxiv.org/abs/2304.07297, and its code, `say-select` |

Chance draws a number k from 1 to `max_paying`, each with the same probability, and then k of the
balls. These pay 1, all others -1. Only `player_0` knows which. In each round `player_0` names a ball
and may add a message. Then `player_1` selects a ball or quits. Both see what a selected ball pays; it
pays -1 from then on. The game ends with "quit", or after `num_rounds` rounds. Both earn the sum.

The game has many equilibria that pay alike, such as "select the ball that I name" and "select the
ball after it". So players who have learned apart understand each other only if both
choose the equilibrium that the words suggest. With `messages=False` the names are all that is said.

Each round pays at most 1 and each paying ball at most 1. So the best score for k paying balls is
min(k, R). Players reach it without words: `player_0` names a paying ball while there is one, and then a
ball that has been selected, which means "quit". The best mean score is therefore the mean of min(k, R)
over k, which is (1 + `max_paying`) / 2 if R is at least `max_paying`.

Differences from the source, where R is the number of balls:

- There players see the last action or the last two; here they know the whole past.
- There `player_1` does not see what a ball has paid. The best mean score is 2 all the same.
- There is no message.

A reply gives one move in a sentence of its own, and all other words are the message, of at most
`max_message` characters (`docs/replies.md` shows how replies are read). With `parsing="strict"` the move
stands alone in the last line or sentence, as in `bargaining-v1`. The legal actions are the moves
without messages. The prompt shows the latest two rounds in full and of earlier ones the moves.

Measures of an episode:

- `efficiency`: paying balls that were selected / k.
- `score_share`: score / k, which is `score_percentage` in the code of the source.
- `truthfulness`: names of balls that paid 1 at that time / all names; 1 without a name.
- `agreement`: selections of the ball that was just named / all selections; 1 without a selection.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

from arena_envs import talk
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    Vector,
    filled,
    np,
    over_text,
    param,
    share_of,
)
from arena_envs.scenes.shapes import Cell, Shapes, Track, talk_of
from arena_envs.talk import Move, Utterance


class State(NamedTuple):
    """The balls that pay in the beginning, empty before they are drawn; all utterances."""

    paying: tuple[int, ...] = ()
    said: tuple[Utterance, ...] = ()

    @property
    def selected(self) -> list[int]:
        """The selected balls, in order."""
        return [each.values[0] for each in self.said if each.move == "select"]

    @property
    def gains(self) -> list[int]:
        """The payments of the selected balls, in order."""
        balls = self.selected
        return [
            1 if ball in self.paying and ball not in balls[:number] else -1
            for number, ball in enumerate(balls)
        ]

    @property
    def left(self) -> list[int]:
        """The balls that pay 1 now, ascending."""
        balls = self.selected
        return [ball for ball in self.paying if ball not in balls]


Action = Utterance | str  # chance draws the paying balls, such as "1 4"

SPEAKER, SELECTOR = 0, 1
QUIT = Utterance("quit")


@dataclass(frozen=True)
class SaySelect(talk.PairedTurns[State, Action]):
    """A speaker who knows which balls pay, and a selector who does not.

    Args:
        num_balls: 2 to 10.
        max_paying: most balls that pay, 1 to `num_balls`.
        num_rounds: 1 to 20.
        messages: whether `player_0` may add a message to a name.
        max_message: longest message in characters, 1 to 400.

    Raises:
        ValueError: a parameter is out of range.
    """

    seat_roles = ("speaker", "selector")
    num_balls: int = param(5, 2, 10)
    max_paying: int = param(3, 1, lambda game: game.num_balls)
    num_rounds: int = param(5, 1, 20)
    messages: bool = True
    max_message: int = param(300, 1, 400)

    pays_rounds = True
    first_state = State()
    kind = "cooperative"
    max_chance_nodes = 1
    heuristic = "say_selector:honest"

    @property
    def min_return(self) -> float:
        return -float(self.num_rounds)

    @property
    def max_return(self) -> float:
        return float(min(self.max_paying, self.num_rounds))

    @cached_property
    def moves(self) -> tuple[tuple[Move, ...], tuple[Move, ...]]:
        """The moves of both seats."""
        ball = talk.Integer(1, self.num_balls, "BALL")
        select = Move("select", (ball,), message="no")
        return (Move("name", (ball,)),), (select, Move("quit", message="no"))

    @cached_property
    def _core(self) -> tuple[tuple[Utterance, ...], ...]:
        return tuple(
            tuple(utterance for move in moves for utterance in talk.every(move))
            for moves in self.moves
        )

    @cached_property
    def _outcomes(self) -> list[tuple[Action, float]]:
        balls, most = range(1, self.num_balls + 1), self.max_paying
        return [
            (" ".join(map(str, paying)), 1 / most / comb(self.num_balls, number))
            for number in range(1, most + 1)
            for paying in combinations(balls, number)
        ]

    def current_player(self, state: State) -> int:
        paying, utterances = state
        if not paying:
            return CHANCE
        if len(utterances) == 2 * self.num_rounds or (
            utterances and utterances[-1].move == "quit"
        ):
            return TERMINAL
        return SELECTOR if len(utterances) % 2 else SPEAKER

    def chance_outcomes(self, state: State) -> list[tuple[Action, float]]:
        return self._outcomes

    def legal_actions(self, state: State) -> Sequence[Utterance]:
        player = self.current_player(state)
        return () if player < 0 else self._core[player]

    def core_state(self, state: State) -> State:
        """The state without messages."""
        core = tuple(utterance._replace(message="") for utterance in state.said)
        return state._replace(said=core)

    def apply(self, state: State, action: Action) -> State:
        if isinstance(action, Utterance):
            return State(state.paying, (*state.said, action))
        return State(tuple(map(int, action.split())), state.said)

    def returns(self, state: State) -> tuple[float, float]:
        score = float(sum(state.gains))
        return (score, score)

    def measures(self, state: State) -> dict[str, float]:
        """Efficiency, score share, truthfulness and agreement, as the page defines them."""
        gains, most = state.gains, max(1, len(state.paying))
        is_true, agrees = [], []
        for turn, each in enumerate(state.said):
            if turn % 2 == 0:
                left = State(state.paying, state.said[:turn]).left
                is_true.append(each.values[0] in left)
            elif each.move == "select":
                agrees.append(each.values == state.said[turn - 1].values)
        return {
            "efficiency": gains.count(1) / most,
            "score_share": sum(gains) / most,
            "truthfulness": share_of(is_true),
            "agreement": share_of(agrees),
        }

    @property
    def measure_bounds(self) -> dict[str, tuple[float, float]]:
        names = ("efficiency", "truthfulness", "agreement")
        return {
            **dict.fromkeys(names, (0.0, 1.0)),
            "score_share": (self.min_return, 1.0),
        }

    @property
    def best_score(self) -> float:
        """The mean score of the best pair: the mean of min(k, R) over k."""
        numbers = range(1, self.max_paying + 1)
        return sum(min(k, self.num_rounds) for k in numbers) / self.max_paying

    @property
    def known_value(self) -> str:
        return f"best mean score {self.best_score:.6g}"

    def observe(self, state: State, seat: int) -> str:
        player, gains = self.current_player(state), state.gains
        now = "The balls are being drawn."
        if player == TERMINAL:
            now = over_text(sum(gains))
        elif player >= 0:
            task = "select a ball or quit" if player else "name a ball"
            now = f"Round {len(state.said) // 2 + 1} of {self.num_rounds}. "
            now += f"The score is {sum(gains)}. {talk.to_move(player, seat, task)}"
        lines = [f"You are player_{seat}. {now}"]
        if seat == SPEAKER and state.paying:
            balls = ", ".join(map(str, state.left))
            paying_line = f"Balls that pay 1 now: {balls}. Every other ball pays -1."
            lines.append(
                paying_line if balls else "No ball pays 1 any more; every ball pays -1."
            )
        return "\n".join([*lines, *self._history(state.said, gains, seat)])

    def _history(
        self, utterances: Sequence[Utterance], gains: Sequence[int], seat: int
    ) -> Iterator[str]:
        """The latest rounds in full, earlier selections in short."""

        def full_line(turn: int) -> str:
            number, speaker = turn // 2, turn % 2
            start = f"Round {number + 1}: {talk.named(speaker, seat)}"
            if utterances[turn].move == "quit":
                return f"{start} quit"
            ball = utterances[turn].values[0]
            if not speaker:
                return f"{start} named ball {ball}"
            return f"{start} selected ball {ball}, which paid {gains[number]}"

        def brief(number: int) -> str:
            ball, selection = (
                utterance.values[0]
                for utterance in utterances[2 * number : 2 * number + 2]
            )
            return f"round {number + 1}: named {ball} and selected {selection} for {gains[number]}"

        return talk.rounds_told(utterances, seat, full_line, brief)

    def information_state(self, state: State, seat: int) -> Any:
        evidence = state.paying if seat == SPEAKER else tuple(state.gains)
        return (seat, evidence, state.said)

    def features(self, state: State, seat: int) -> Vector:
        """Seat, who is to move, balls that pay; then all rounds, without messages.

        One-hot seat (2); whether the seat is to move; for each ball whether the seat knows
        that it pays at first; and for each round: one-hot named ball, one-hot selected ball or
        quit, what the ball has paid.
        """
        num = self.num_balls
        values = np.zeros(3 + num + 2 * (num + 1) * self.num_rounds, np.float32)
        values[seat] = 1
        values[2] = self.current_player(state) == seat
        if seat == SPEAKER:
            values[[2 + ball for ball in state.paying]] = 1
        rounds = values[3 + num :].reshape(self.num_rounds, 2 * num + 2)
        for turn, each in enumerate(state.said):
            ball = each.values[0] if each.values else num + 1
            rounds[turn // 2, num * (turn % 2) + ball - 1] = 1
        rounds[: len(state.gains), -1] = state.gains
        return values

    def action_text(self, state: State, action: Action) -> str:
        if isinstance(action, str):
            return action
        return talk.written(action, (*self.moves[SPEAKER], *self.moves[SELECTOR]))

    def moves_at(self, state: State) -> tuple[talk.Move, ...]:
        return self.moves[self.current_player(state)]

    def rules(self, seat: int) -> str:
        syntax = talk.how_to_write(self.moves[seat], self.longest)
        return filled("say_select", self, how=syntax)

    def possible(self, state: State) -> list[tuple[tuple[int, ...], float]]:
        """The draws that fit what `player_1` has seen paid, with their prior probabilities."""
        draws = [(tuple(map(int, str(text).split())), p) for text, p in self._outcomes]
        gains = state.gains
        return [
            (paying, p)
            for paying, p in draws
            if State(paying, state.said).gains == gains
        ]

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Draws the paying balls again, as far as the seat does not know them."""
        if seat == SPEAKER or not state.paying:
            return state
        draws, weights = zip(*self.possible(state), strict=True)
        return state._replace(paying=rng.choices(draws, weights)[0])


class SaySelector(talk.Scripted):
    """Plays Say-Select in one of four styles, as the speaker and as the selector.

    | Style     | Speaker                                   | Selector                           |
    |-----------|-------------------------------------------|------------------------------------|
    | `honest`  | names a paying ball; when none is left, says so in words | the named ball, until words say quit |
    | `greedy`  | names a paying ball, then any other ball  | the named ball, and never quits    |
    | `silent`  | always names ball 1                       | the next ball while it pays on average by the prior, else quits |
    | `optimal` | names a paying ball; when none is left, one that was selected | the named ball; quits if it was selected before |

    `honest` speakers also name the ball that was selected last when none is left, so `optimal`
    selectors understand them. Only `honest` speakers use words.
    """

    game, styles = SaySelect, ("honest", "greedy", "silent", "optimal")

    def reply(self, game: SaySelect, state: State, rng: random.Random) -> Utterance:
        if game.current_player(state) == SPEAKER:
            return self._speak(game, state)
        return self._select(game, state)

    def _speak(self, game: SaySelect, state: State) -> Utterance:
        left = state.left
        if self.style == "silent":
            return Utterance("name", (1,))
        if left:
            return self._name(game, left[0], f"Ball {left[0]} pays.")
        if self.style == "greedy":
            fresh = [b for b in range(1, game.num_balls + 1) if b not in state.selected]
            return Utterance("name", (fresh[0] if fresh else 1,))
        return self._name(game, state.selected[-1], "No ball pays any more. Quit.")

    def _name(self, game: SaySelect, ball: int, words: str) -> Utterance:
        utterance = Utterance("name", (ball,))
        return (
            talk.with_words(game, utterance, words)
            if self.style == "honest"
            else utterance
        )

    def _select(self, game: SaySelect, state: State) -> Utterance:
        message = state.said[-1]
        selects = Utterance("select", message.values)
        if self.style == "honest":
            return QUIT if "quit" in message.message.lower() else selects
        if self.style == "optimal":
            return QUIT if message.values[0] in state.selected else selects
        return _by_the_prior(game, state) if self.style == "silent" else selects


def _by_the_prior(game: SaySelect, state: State) -> Utterance:
    """The lowest ball that was not selected, if it is more likely to pay 1 than -1."""
    draws, selected = game.possible(state), state.selected
    ball = next((b for b in range(1, game.num_balls + 1) if b not in selected), None)
    pays = sum(p for paying, p in draws if ball in paying)
    return Utterance("select", (ball,)) if 2 * pays > sum(p for _, p in draws) else QUIT


def scene(game: SaySelect, state: State, viewer: int | None) -> Shapes:
    """The balls as far as the viewer knows what they pay, the score, and the talk."""
    sees = viewer in (None, SPEAKER) and bool(state.paying)
    selected, gains = state.selected, state.gains
    balls = []
    for ball in range(1, game.num_balls + 1):
        tone = ("green" if ball in state.paying else "red") if sees else ""
        if ball in selected:
            tone = "green" if gains[selected.index(ball)] == 1 else "red"
        balls.append(Cell(str(ball), tone, mark=ball in selected))
    title = "balls that paid 1 at first are green; selected ones have a frame"

    def full_line(turn: int, utterance: Utterance) -> str:
        ball = f" ball {utterance.values[0]}" if utterance.values else ""
        payment = (
            f", which pays {gains[turn // 2]}" if utterance.move == "select" else ""
        )
        return f"{utterance.move}s{ball}{payment} (round {turn // 2 + 1})"

    return [Track(title, balls), *talk_of(state.said, viewer, full_line)]
