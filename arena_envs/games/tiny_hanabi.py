"""Tiny Hanabi: an action both earns points and tells the partner which card you hold.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("tiny_hanabi-v0")`                                    |
| Agents      | `player_0` and `player_1`                                              |
| Kind        | cooperative, imperfect information                                     |
| Actions     | `Discrete(3)`: "play 0", "play 1", "play 2"                            |
| Rewards     | at the end: both get the points in the table                           |
| Length      | 2 turns                                                                |
| Known value | best 10; 8 if cards are ignored; random 67/18; NashConv of random 35/9 |
| Source      | J. Foerster et al., *Bayesian Action Decoder* (2019)                   |

Each player holds a card, 0 or 1, that only this player sees; all four deals are equally
likely. `player_0` plays 0, 1 or 2; then `player_1`, who has seen that action, plays. Both get
the points that a table gives for the two cards and the two actions. If both play 1, they
always get 8. The best pairs get 10: `player_0` plays 0 or 2 depending on its card, which tells
`player_1` the card. Actions, seats and chance nodes are OpenSpiel's.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    BaseGame,
    IllegalAction,
    Vector,
    by_player,
    filled,
    fold,
    np,
)
from arena_envs.games.kits.cards import hand_of
from arena_envs.scenes.shapes import Shapes, Track, seat_cell

NUM_CARDS, NUM_PLAYS = 2, 3
POINTS = {  # by cards, then by the first and the second play
    (0, 0): ((10, 0, 0), (4, 8, 4), (10, 0, 0)),
    (0, 1): ((0, 0, 10), (4, 8, 4), (0, 0, 10)),
    (1, 0): ((0, 0, 10), (4, 8, 4), (0, 0, 0)),
    (1, 1): ((10, 0, 0), (4, 8, 4), (10, 0, 0)),
}


class State(NamedTuple):
    """The cards dealt and the actions played so far, by seat."""

    cards: tuple[int, ...] = ()
    plays: tuple[int, ...] = ()


@dataclass(frozen=True)
class TinyHanabi(BaseGame[State, int]):
    """Tiny Hanabi; it has no parameters."""

    first_state = State()
    num_players = 2
    num_actions = NUM_PLAYS
    kind = "cooperative"
    max_chance_nodes = 2
    min_return = 0.0
    max_return = 10.0
    max_turns = 2

    def current_player(self, state: State) -> int:
        if len(state.cards) < 2:
            return CHANCE
        return len(state.plays) if len(state.plays) < 2 else TERMINAL

    def chance_outcomes(self, state: State) -> list[tuple[int, float]]:
        return [(card, 1 / NUM_CARDS) for card in range(NUM_CARDS)]

    def legal_actions(self, state: State) -> Sequence[int]:
        return range(NUM_PLAYS) if self.current_player(state) >= 0 else ()

    def apply(self, state: State, action: int) -> State:
        if len(state.cards) < 2:
            return State((*state.cards, action), state.plays)
        return State(state.cards, (*state.plays, action))

    def returns(self, state: State) -> Sequence[float]:
        if len(state.plays) < 2:
            return (0.0, 0.0)
        first, second = state.plays
        points = float(POINTS[state.cards[0], state.cards[1]][first][second])
        return (points, points)

    @property
    def known_value(self) -> str | None:
        return "best 10; 8 if cards are ignored; random 67/18"

    def observe(self, state: State, seat: int) -> str:
        cards = state.cards[seat : seat + 1]
        hand = f"hold card {cards[0]}" if cards else "have no card yet"
        played = by_player(enumerate(f"played {action}" for action in state.plays))
        player = self.current_player(state)
        whose = {
            seat: " You are to move.",
            1 - seat: f" player_{1 - seat} is to move.",
            TERMINAL: f" The game is over: {self.returns(state)[seat]:g} points.",
        }
        return (
            f"You are player_{seat} and {hand}. Played: {played or 'nothing'}."
            f"{whose.get(player, '')}"
        )

    def information_state(self, state: State, seat: int) -> Any:
        """With the points at the end, which tell about the other card."""
        return (seat, state.cards[seat : seat + 1], state.plays, self.returns(state))

    def features(self, state: State, seat: int) -> Vector:
        """One-hot seat, own card and both plays, then the points, as a share of 10."""
        values = np.zeros(2 + NUM_CARDS + 2 * NUM_PLAYS + 1, np.float32)
        values[seat] = 1
        if seat < len(state.cards):
            values[2 + state.cards[seat]] = 1
        for turn, action in enumerate(state.plays):
            values[2 + NUM_CARDS + NUM_PLAYS * turn + action] = 1
        values[-1] = self.returns(state)[seat] / self.max_return
        return values

    def action_text(self, state: State, action: int) -> str:
        return f"play {action}"

    def parse(self, state: State, text: str) -> int:
        """Reads "play 1", and "1" alone."""
        number_text = fold(text).removeprefix("play ")
        legal = {str(action): action for action in self.legal_actions(state)}
        if number_text not in legal:
            raise IllegalAction(f"want play 0, play 1 or play 2, got {text[:80]!r}")
        return legal[number_text]

    def rules(self, seat: int) -> str:
        lines = [
            f"player_0 has card {my_card} and player_1 has card {their_card}: "
            + "; ".join(
                f"play {first}: {', '.join(map(str, row))}"
                for first, row in enumerate(rows)
            )
            for (my_card, their_card), rows in POINTS.items()
        ]
        return "\n".join([filled("tiny_hanabi", self), *lines])

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Deals the other card again; at the end only cards that give the same points."""
        if len(state.cards) <= 1 - seat:
            return state
        draws = []
        for card in range(NUM_CARDS):
            cards = list(state.cards)
            cards[1 - seat] = card
            draws.append(State(tuple(cards), state.plays))
        return rng.choice(
            [draw for draw in draws if self.returns(draw) == self.returns(state)]
        )


def scene(game: TinyHanabi, state: State, viewer: int | None) -> Shapes:
    """Both cards and the plays."""
    hands = [
        hand_of(seat, [str(card) if viewer in (None, seat) else None])
        for seat, card in enumerate(state.cards)
    ]
    plays = [
        seat_cell(seat, f"play {action}") for seat, action in enumerate(state.plays)
    ]
    return [*hands, Track("plays", plays)]
