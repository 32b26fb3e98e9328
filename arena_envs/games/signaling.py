"""Lewis signaling: a speaker names a hidden target with words that have no meaning yet.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("signaling-v0", num_targets=3, num_words=3)`          |
| Agents      | `player_0` speaks, `player_1` guesses                                  |
| Kind        | cooperative, imperfect information                                     |
| Actions     | `Discrete(max(T, W))`: "say 0" and so on, then "guess 0" and so on     |
| Rewards     | both get 1 for a right guess, else 0                                   |
| Length      | 2 turns                                                                |
| Known value | best min(T, W) / T; random 1 / T, which no seat can improve alone      |
| Source      | D. Lewis, *Convention* (1969)                                          |

The speaker sees one of T = `num_targets` targets, all of them equally likely, and says one
of W = `num_words` words. The listener hears the word, not the target, and guesses. The words
have no meaning: a pair must agree on a code, and all codes with one word for each target are
equally good. Actions, seats and chance nodes are those of
OpenSpiel's `lewis_signaling` (there `num_states`, `num_messages`) with its default payoffs.
Differences: there may be more words than targets, the speaker remembers its word, and both
see at the end whether the guess was right.
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
    filled,
    fold,
    np,
    param,
)
from arena_envs.scenes.shapes import Card, Cards, Shapes

SPEAKER, LISTENER = 0, 1


class State(NamedTuple):
    """A game in progress; -1 where nothing has been drawn, said or guessed yet."""

    target: int = -1
    word: int = -1
    guess: int = -1


@dataclass(frozen=True)
class Signaling(BaseGame[State, int]):
    """Lewis signaling.

    Args:
        num_targets: 1 to 100.
        num_words: 1 to 100.

    Raises:
        ValueError: a parameter is out of range.
    """

    seat_roles = ("speaker", "listener")
    num_targets: int = param(3, 1, 100)
    num_words: int = param(3, 1, 100)

    first_state = State()
    num_players = 2
    kind = "cooperative"
    max_chance_nodes = 1
    min_return = 0.0
    max_return = 1.0
    max_turns = 2

    @property
    def num_actions(self) -> int:
        return max(self.num_targets, self.num_words)

    def current_player(self, state: State) -> int:
        if state.target < 0:
            return CHANCE
        if state.word < 0:
            return SPEAKER
        return LISTENER if state.guess < 0 else TERMINAL

    def chance_outcomes(self, state: State) -> list[tuple[int, float]]:
        return [(target, 1 / self.num_targets) for target in range(self.num_targets)]

    def legal_actions(self, state: State) -> Sequence[int]:
        nums = {SPEAKER: self.num_words, LISTENER: self.num_targets}
        return range(nums.get(self.current_player(state), 0))

    def apply(self, state: State, action: int) -> State:
        if state.target < 0:
            return State(action)
        if state.word < 0:
            return State(state.target, action)
        return State(state.target, state.word, action)

    def returns(self, state: State) -> Sequence[float]:
        right = float(state.guess == state.target >= 0)
        return (right, right)

    @property
    def known_value(self) -> str | None:
        targets, words = self.num_targets, self.num_words
        return f"best {min(targets, words)}/{targets}; random 1/{targets}"

    def observe(self, state: State, seat: int) -> str:
        player = self.current_player(state)
        if player == TERMINAL:
            right = "right" if state.guess == state.target else "wrong"
            target_text = f"the target was {state.target}, " if seat == SPEAKER else ""
            return (
                f"The game is over: {target_text}the word was {state.word}, and the guess "
                f"{state.guess} was {right}."
            )
        if seat == LISTENER:
            word_text = (
                f"The speaker said word {state.word}. You are to guess the target."
            )
            return word_text if player == LISTENER else "player_0 is to say a word."
        if player == CHANCE:
            return "No target has been drawn yet."
        target = f"The target is {state.target}."
        if player == SPEAKER:
            return f"{target} You are to say a word."
        return f"{target} You said word {state.word}. player_1 is to guess."

    def information_state(self, state: State, seat: int) -> Any:
        target = state.target if seat == SPEAKER else -1
        right = state.guess == state.target >= 0
        return (seat, target, state.word, state.guess, right)

    def features(self, state: State, seat: int) -> Vector:
        """One-hot seat, target (for the speaker), word and guess; whether it is right."""
        first, second = 2 + self.num_targets, 2 + self.num_targets + self.num_words
        target = state.target if seat == SPEAKER else -1
        places = ((2, target), (first, state.word), (second, state.guess))
        values = np.zeros(second + self.num_targets + 1, np.float32)
        values[[seat, *(start + number for start, number in places if number >= 0)]] = 1
        values[-1] = self.returns(state)[seat]
        return values

    def action_text(self, state: State, action: int) -> str:
        verb = "say" if self.current_player(state) == SPEAKER else "guess"
        return f"{verb} {action}"

    def parse(self, state: State, text: str) -> int:
        """Reads "say 1", "say word 1", "guess 1", "guess target 1", or the number alone."""
        speaks = self.current_player(state) == SPEAKER
        verb, noun = ("say ", "word ") if speaks else ("guess ", "target ")
        number_text = fold(text).removeprefix(verb).removeprefix(noun)
        legal = {str(action): action for action in self.legal_actions(state)}
        if number_text not in legal:
            raise IllegalAction(
                f"want {verb}and one of {list(legal)}, got {text[:80]!r}"
            )
        return legal[number_text]

    def rules(self, seat: int) -> str:
        targets, words = self._names(self.num_targets), self._names(self.num_words)
        return filled("signaling", self, seat=seat, targets=targets, words=words)

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """For the listener, a random target that its guess does not rule out."""
        if seat == SPEAKER or state.target < 0 or state.guess == state.target:
            return state
        targets = [t for t in range(self.num_targets) if t != state.guess]
        return state._replace(target=rng.choice(targets))

    @staticmethod
    def _names(num: int) -> str:
        return {1: "0", 2: "0 or 1"}.get(num, f"a number from 0 to {num - 1}")


def scene(game: Signaling, state: State, viewer: int | None) -> Shapes:
    """The target, the word and the guess."""
    target = state.target
    if viewer is not None:
        _, target, *_ = game.information_state(state, viewer)
    target_cards = (
        [] if state.target < 0 else [Card(str(target) if target >= 0 else None)]
    )
    word, guess = (
        [Card(str(number))] if number >= 0 else []
        for number in (state.word, state.guess)
    )
    return [
        Cards("target", target_cards),
        Cards("word of player_0", word, 0),
        Cards("guess of player_1", guess, 1),
    ]
