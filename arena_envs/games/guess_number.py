"""Guess the number: find a hidden number from the answers "too low" and "too high".

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("guess_number-v1", num_numbers=20, max_guesses=10)`   |
| Agents      | `player_0` alone; the number is drawn by chance                        |
| Kind        | competitive, imperfect information, not zero-sum (one seat)            |
| Actions     | `Discrete(N)`: guesses of the N = `num_numbers` numbers of the range   |
| Rewards     | (M + 1 - t) / M if guess t of M is right, else 0                       |
| Length      | at most M turns, M being `max_guesses`; 7.75 on average in random play |
| Known value | optimal play 0.73 (3.7 guesses), uniform random play 0.275             |
| Source      | traditional; the optimum is D. E. Knuth's, *The Art of Computer        |
|             | Programming* 3, section 6.2.1 (binary search)                          |

Chance draws one of `num_ranges` ranges of N numbers, which is told, and a number of it, each equally
likely. With `num_ranges=1` the range is 1 to N. At each turn the player guesses a number
and is told whether it is too low, too high or right. A number can be guessed once. The episode
ends with the right guess or after M guesses.

At most 2^(t-1) of the N numbers can be found by guess t, as there are as many sequences of t - 1
answers. Binary search reaches this bound for each t, so its value is optimal:
the sum over t of min(2^(t-1), the numbers that are left) * (M + 1 - t) / (M N). The bot
`information_gain` plays it. In uniform random play the value is (M + 1) / (2N).

More numbers and fewer guesses make the game harder. Smallest: `num_numbers=2, max_guesses=1`; large:
`num_numbers=1000, max_guesses=15`.

Cheapest trick known: none; binary search is optimal, and the numbers of the splits differ.

History: version 1 draws the range; version 0 had the numbers from 1 to N.

Measures of an episode: `success`, 1 if the number was found and 0 otherwise; `information`,
1 - log(L) / log(N), where L numbers fit all answers at the end.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from arena_envs.game import (
    TERMINAL,
    IllegalAction,
    Vector,
    check_split,
    filled,
    fold,
    np,
    of_split,
    param,
)
from arena_envs.games.kits.secrets import SecretGame, State, secret_shapes
from arena_envs.scenes.shapes import Cell, Shapes

LOW, RIGHT, HIGH = -1, 0, 1
ANSWERS = {LOW: "too low", RIGHT: "right", HIGH: "too high"}
PREFIXES = ("i guess ", "my guess is ", "the number is ", "number ")


@dataclass(frozen=True)
class GuessNumber(SecretGame):
    """Guess the number.

    Args:
        num_numbers: 2 to 1000.
        max_guesses: 1 to `num_numbers`.
        num_ranges: ranges of the split, one of which chance draws, 1 to 1000. With 1, the
            range is always 1 to `num_numbers`.
        split: of the ranges, "train" or "test"; they share no number.

    Raises:
        ValueError: a parameter is out of range.
    """

    num_numbers: int = param(20, 2, 1000, knob=(10, 20, 50, 100))
    max_guesses: int = param(10, 1, lambda game: game.num_numbers)
    num_ranges: int = param(20, 1, 1000)
    split: str = "train"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_split(self.split, self.num_ranges > 1)

    @property
    def num_secrets(self) -> int:
        return self.num_numbers * self.num_ranges

    @cached_property
    def _before(self) -> Sequence[int]:
        """The number before each range."""
        if self.num_ranges == 1:
            return (0,)
        starts = of_split(range(2 * self.num_ranges), self.split)
        return [start * self.num_numbers for start in starts]

    @property
    def instances(self) -> Sequence[int]:
        if self.num_ranges == 1:
            return ()
        whole = range(1, self.num_numbers + 1)
        return [before + number for before in self._before for number in whole]

    def before(self, state: State) -> int:
        """The number before the range; 0 before it is drawn."""
        is_drawn = state.secret >= 0
        return self._before[state.secret // self.num_numbers] if is_drawn else 0

    def candidates(self, state: State) -> list[int]:
        """The secrets of the range that give the same answers, ascending."""
        first = state.secret - state.secret % self.num_numbers
        low, high = 0, self.num_numbers - 1
        for action, answer in zip(state.asked, self.answers(state), strict=True):
            if answer == LOW:
                low = max(low, action + 1)
            elif answer == HIGH:
                high = min(high, action - 1)
            else:
                low = high = action
        return [first + number for number in range(low, high + 1)]

    def information_state(self, state: State, seat: int) -> tuple[Any, ...]:
        return (self.before(state), *super().information_state(state, seat))

    def features(self, state: State, seat: int) -> Vector:
        """As in all games of secrets; then the range, as the number before it / all numbers."""
        before = self.before(state) / (2 * self.num_secrets)
        return np.append(super().features(state, seat), np.float32(before))

    @property
    def num_actions(self) -> int:
        return self.num_numbers

    @property
    def max_turns(self) -> int:
        return self.max_guesses

    def answer(self, secret: int, action: int) -> int:
        number = secret % self.num_numbers
        return (action > number) - (action < number)

    def guess_of(self, secret: int) -> int:
        return secret % self.num_numbers

    def best_value(self) -> Fraction:
        """Expected return of optimal play."""
        most, left, total = self.max_guesses, self.num_numbers, 0
        for turn in range(1, most + 1):
            num = min(2 ** (turn - 1), left)  # numbers found with this guess
            total += num * (most + 1 - turn)
            left -= num
        return Fraction(total, most * self.num_numbers)

    @property
    def known_value(self) -> str | None:
        best, uniform = float(self.best_value()), float(self.uniform_value())
        return f"optimal play {best:.6g}; uniform random play {uniform:.6g}"

    def observe(self, state: State, seat: int) -> str:
        before = self.before(state)
        lines = [
            f"Guess {turn}: {before + action + 1} is {ANSWERS[answer]}."
            for turn, (action, answer) in enumerate(
                zip(state.asked, self.answers(state), strict=True), 1
            )
        ]
        guess_lines = lines or ["You have not guessed yet."]
        if self.current_player(state) == TERMINAL:
            number = before + self.guess_of(state.secret) + 1
            last = f"The number was {number}. {self.end_text(state)}"
        elif state.secret < 0:
            last = "The number is being drawn."
        else:
            turn = f"guess {len(lines) + 1} of {self.max_guesses}"
            last = f"You are to make {turn}: a number from {before + 1} to "
            last += f"{before + self.num_numbers}."
        return "\n".join(["You are player_0.", *guess_lines, last])

    def action_text(self, state: State, action: int) -> str:
        return f"guess {self.before(state) + action + 1}"

    def parse(self, state: State, text: str) -> int:
        """Reads "guess 7", "7", "I guess 7" and "the number is 7"."""
        folded = fold(text).rstrip(" .?!")
        for prefix in PREFIXES:
            folded = folded.removeprefix(prefix)
        folded = folded.removeprefix("guess ")
        legal, action = self.legal_actions(state), -1
        if re.fullmatch("[1-9][0-9]{0,6}", folded):
            action = int(folded) - self.before(state) - 1
        if action not in legal:
            such = f" such as {self.action_text(state, legal[0])!r}" if legal else ""
            raise IllegalAction(
                f"want a number of the range that is not guessed yet{such}, got {text[:80]!r}"
            )
        return action

    def rules(self, seat: int) -> str:
        scores = self.scores_text("guess number t is right")
        return filled("guess_number", self, scores=scores)


def scene(game: GuessNumber, state: State, viewer: int | None) -> Shapes:
    """The number, and the guesses with their answers."""
    before = game.before(state)
    rows = [
        (str(before + action + 1), Cell(ANSWERS[answer], "green" * (answer == RIGHT)))
        for action, answer in zip(state.asked, game.answers(state), strict=True)
    ]
    number = ("number", str(before + game.guess_of(state.secret) + 1))
    return secret_shapes(game, state, viewer, number, ("guess", "answer"), rows)
