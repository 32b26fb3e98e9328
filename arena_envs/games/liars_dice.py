"""Liar's dice: bid on what all dice show while you see only your own.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("liars_dice-v0")`; parameters: see `LiarsDice`        |
| Agents      | `player_0` to `player_{N-1}`, `num_players` from 2 to 4                |
| Kind        | competitive, imperfect information, zero-sum                           |
| Actions     | `Discrete(N*D*S + 1)`: the bids from "1 one" upwards, then "liar"      |
| Rewards     | at the end: 1 to the winner of the challenge, -1 to the loser          |
| Length      | at least 2 turns, at most N*D*S + 1                                    |
| Known value | two players, one die: -0.027132; NashConv of uniform play 1.561489     |
| Source      | traditional; Lanctot et al., *OpenSpiel* (2019), for these rules       |

N players roll D dice of S sides each, once, and see only their own. In turn, from
`player_0` on, a player bids that all dice together show a number of some face, or calls
the last bid a lie, which ends the game. A bid must be higher than the one before: more
dice, with any face, or as many dice with a higher face. The highest face is wild: it
counts as every face. If there are at least as many dice as the last bid says, its bidder
wins 1 and the challenger loses 1; else the other way round. In games of three or four the other
players get 0.

With two players and one die of six sides each there are 24,576 information states and
147,420 ways to play to the end, rolls included. Actions, seats, chance nodes (all dice of
`player_0` first, face = outcome + 1) and rules are OpenSpiel's with its default bidding
rule. OpenSpiel has two players only; three and four are our extension. All dice are shown at
the end; OpenSpiel never shows them.
"""

import random
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
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
    param,
)
from arena_envs.games.kits.cards import hand_of, taken_track
from arena_envs.games.kits.number_words import in_words
from arena_envs.scenes.shapes import Shapes

FACES = ("one", "two", "three", "four", "five", "six")
PLURALS = ("ones", "twos", "threes", "fours", "fives", "sixes")
LIAR = "liar"
CHALLENGES = (LIAR, "call", "call liar", "challenge", "doubt")
BID = re.compile(r"(?:bid )?([0-9]{1,2})(?: ?[x,-] ?| )([a-z]+|[0-9])", re.ASCII)


class State(NamedTuple):
    """The faces rolled so far, from 0 and by seat, and the actions, in order."""

    dice: tuple[int, ...] = ()
    actions: tuple[int, ...] = ()


@dataclass(frozen=True)
class LiarsDice(BaseGame[State, int]):
    """Liar's dice.

    Args:
        num_players: 2 to 4.
        num_dice: of each player, 1 to 5.
        num_sides: of each die, 2 to 6.

    Raises:
        ValueError: a parameter is out of range.
    """

    num_players: int = param(2, 2, 4)
    num_dice: int = param(1, 1, 5)
    num_sides: int = param(6, 2, len(FACES))

    first_state = State()
    kind = "competitive"
    zero_sum = True
    min_return = -1.0
    max_return = 1.0
    default_value = "-0.027132 for player_0; NashConv of uniform play 1.561489"

    @cached_property
    def num_bids(self) -> int:
        """Number of distinct bids, which is also the action that challenges."""
        return self.num_players * self.num_dice * self.num_sides

    @property
    def num_actions(self) -> int:
        return self.num_bids + 1

    @property
    def max_turns(self) -> int:
        return self.num_bids + 1

    @property
    def max_chance_nodes(self) -> int:
        return self.num_players * self.num_dice

    def current_player(self, state: State) -> int:
        if len(state.dice) < self.num_players * self.num_dice:
            return CHANCE
        if state.actions and state.actions[-1] == self.num_bids:
            return TERMINAL
        return len(state.actions) % self.num_players

    def chance_outcomes(self, state: State) -> list[tuple[int, float]]:
        return [(face, 1 / self.num_sides) for face in range(self.num_sides)]

    def legal_actions(self, state: State) -> Sequence[int]:
        if self.current_player(state) < 0:
            return ()
        if not state.actions:
            return range(self.num_bids)
        return range(state.actions[-1] + 1, self.num_bids + 1)

    def apply(self, state: State, action: int) -> State:
        dice, actions = state
        if len(dice) < self.num_players * self.num_dice:
            return State((*dice, action), actions)
        return State(dice, (*actions, action))

    def returns(self, state: State) -> Sequence[float]:
        returns = [0.0] * self.num_players
        if self.current_player(state) == TERMINAL:
            winner, loser = self._outcome(state)
            returns[winner], returns[loser] = 1.0, -1.0
        return tuple(returns)

    def observe(self, state: State, seat: int) -> str:
        n, total = self.num_players, self.num_players * self.num_dice
        hands = self._visible(state, seat)
        dice = self._dice_text(hands[seat]) or "not rolled yet"
        actions = enumerate(state.actions)
        moves = by_player((turn % n, self._texts[action]) for turn, action in actions)
        player = self.current_player(state)
        if player == CHANCE:
            end = "The dice are being rolled."
        elif player == TERMINAL:
            winner, loser = self._outcome(state)
            all_dice = by_player(enumerate(map(self._dice_text, hands)))
            end = f"All dice: {all_dice}.\nThe game is over: player_{winner} wins 1, "
            end += f"player_{loser} loses 1."
        elif player == seat:
            end = "You are to move."
        else:
            end = f"player_{player} is to move."
        return (
            f"You are player_{seat}. Your dice: {dice}. Dice on the table: {total}.\n"
            f"Bids: {moves or 'none yet'}.\n{end}"
        )

    def information_state(self, state: State, seat: int) -> Hashable:
        """The dice that the seat sees, in ascending order, and all actions."""
        return (seat, self._visible(state, seat), state.actions)

    def features(self, state: State, seat: int) -> Vector:
        """One-hot seat, one-hot own dice, then what everybody has done.

        That is, by seat from the own one on: a number for each action, 1 if it was taken.
        """
        n, d, s, a = self.num_players, self.num_dice, self.num_sides, self.num_actions
        values = np.zeros(n + d * s + n * a, np.float32)
        values[seat] = 1
        for slot, face in enumerate(self._visible(state, seat)[seat]):
            values[n + slot * s + face] = 1
        for turn, action in enumerate(state.actions):
            values[n + d * s + (turn - seat) % n * a + action] = 1
        return values

    def action_text(self, state: State, action: int) -> str:
        return self._texts[action]

    def parse(self, state: State, text: str) -> int:
        """Reads "2 fives" also as "2x5", "2-5", "2, 5" or "bid 2 five".

        A challenge is also "call", "call liar", "challenge" or "doubt".
        """
        word, legal = fold(text), self.legal_actions(state)
        action = self.num_bids if word in CHALLENGES else self._read_bid(word)
        if action not in legal:
            raise IllegalAction(
                f"want a bid higher than the last, such as '2 fives', or {LIAR!r} if "
                f"there is one, got {text[:80]!r}"
            )
        return action

    def rules(self, seat: int) -> str:
        example = 2 if self.num_sides > 3 else 0  # not the wild face
        faces, face, wild = PLURALS[example], FACES[example], FACES[self.num_sides - 1]
        total = self.num_players * self.num_dice
        return filled("liars_dice", self, total=total, many=faces, one=face, wild=wild)

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Rolls the dice again that this seat does not see."""
        if self.current_player(state) == TERMINAL:
            return state
        dice = tuple(
            face if i // self.num_dice == seat else rng.randrange(self.num_sides)
            for i, face in enumerate(state.dice)
        )
        return State(dice, state.actions)

    @cached_property
    def hidden_answers(self) -> tuple[str, ...]:
        """Numbers of the others' dice."""
        return tuple(map(in_words, range((self.num_players - 1) * self.num_dice + 1)))

    def hidden(self, state: State, seat: int) -> tuple[str, str] | None:
        """How many dice of the others count for the last bid, or are wild before the first."""
        if len(state.dice) < self.num_players * self.num_dice:
            return None
        wild = self.num_sides - 1
        bids = [action for action in state.actions if action < self.num_bids]
        face = bids[-1] % self.num_sides if bids else wild
        faces = " or ".join(PLURALS[each] for each in sorted({face, wild}))
        count = sum(
            die in (face, wild)
            for i, die in enumerate(state.dice)
            if i // self.num_dice != seat
        )
        return f"How many dice of the other players are {faces}?", in_words(count)

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        faces, plurals = FACES[: self.num_sides], PLURALS[: self.num_sides]
        most = self.num_players * self.num_dice
        bids = [f"1 {face}" for face in faces]
        bids += [f"{num} {face}" for num in range(2, most + 1) for face in plurals]
        return (*bids, LIAR)

    def _outcome(self, state: State) -> tuple[int, int]:
        """Winner and loser of the challenge that has ended the game."""
        *_, bid, _ = state.actions
        quantity, face = divmod(bid, self.num_sides)
        wild = self.num_sides - 1
        count = sum(die in (face, wild) for die in state.dice)
        challenger = (len(state.actions) - 1) % self.num_players
        bidder = (len(state.actions) - 2) % self.num_players
        true = count > quantity  # quantities count from 0
        return (bidder, challenger) if true else (challenger, bidder)

    def _visible(self, state: State, seat: int) -> tuple[tuple[int, ...], ...]:
        """The dice of each seat, sorted, as far as this one sees them."""
        over, d = self.current_player(state) == TERMINAL, self.num_dice
        return tuple(
            tuple(sorted(state.dice[s * d : (s + 1) * d])) if over or s == seat else ()
            for s in range(self.num_players)
        )

    def _dice_text(self, dice: tuple[int, ...]) -> str:
        return " ".join(str(face + 1) for face in dice)

    def _read_bid(self, text: str) -> int:
        """The bid of a text, or -1."""
        match = BID.fullmatch(text)
        if not match:
            return -1
        quantity, word = int(match[1]), match[2]
        if not 1 <= quantity <= self.num_players * self.num_dice:
            return -1
        for names in (FACES, PLURALS, "123456"):
            if word in names[: self.num_sides]:
                return (quantity - 1) * self.num_sides + names.index(word)
        return -1


def scene(game: LiarsDice, state: State, viewer: int | None) -> Shapes:
    """The dice of each seat, and the bids."""
    num, seats = game.num_dice, range(game.num_players)
    rolled = [sorted(state.dice[seat * num : (seat + 1) * num]) for seat in seats]
    visible_dice: Any = rolled
    if viewer is not None:
        key: Any = game.information_state(state, viewer)
        visible_dice = key[1]
    hands = [
        hand_of(
            seat, [str(die + 1) for die in visible_dice[seat]] or [None] * len(dice)
        )
        for seat, dice in enumerate(rolled)
    ]
    bids = [
        (turn % game.num_players, game.action_text(state, action))
        for turn, action in enumerate(state.actions)
    ]
    return [*hands, taken_track("bids", bids)]
