"""Wordle: find a hidden word from marks on the letters of each guess.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("wordle-v1", num_words=50, max_guesses=6)`            |
| Agents      | `player_0` alone; the word is drawn by chance                          |
| Kind        | competitive, imperfect information, not zero-sum (one seat)            |
| Actions     | `Discrete(N)`: the N words, in alphabetical order                      |
| Rewards     | (M + 1 - t) / M if guess t of M is right, else 0                       |
| Length      | at most M turns, M being `max_guesses`; 5.7 on average in random play  |
| Known value | optimal play 0.786667 (2.28 guesses), uniform random play 0.07;        |
|             | 200 words: optimal play 0.719167 (2.685 guesses)                         |
| Source      | after J. Wardle's Wordle (2021), with a list of words of our own       |

Chance draws one of N = `num_words` words, each equally likely. At each turn the player guesses one of
these words, each at most once, and reads a mark for each letter of the guess, in order:

- `G`: the word has this letter in this place;
- `Y`: the word has this letter in another place;
- `-`: neither.

Letters that stand several times are marked as in Wordle: first each letter in its right place gets G
and uses up that letter of the word. Then, from left to right, each other letter of the guess gets Y
if an equal letter of the word is not used up yet, and uses it up; else it gets -.

The episode ends with the right guess or after M guesses. In uniform random play the value is
(M + 1) / (2N). The bot `information_gain` takes the guess whose marks have the highest entropy; with
all 400 words it needs 2.8925 guesses on average and 4 at most. `question_tree` finds an optimal
tree of guesses by exact search, for up to about 200 words.

More words make the game harder. Smallest: `num_words=2, max_guesses=1`; all shipped words:
`num_words=400`. The first words of the list `five_letters` are used; `words` also takes a file or
a sequence of words of one length, 2 to 8 letters.

Cheapest trick known: none. A policy that has learned the 50 words of a split by heart plays as one that
reads them, since the prompt lists them. To name them in order pays 0.07, and 0 in the other split.

History: version 1 draws from a half of the shipped list, 200 words for each split (`num_words` of them);
version 0 drew from the first words of the whole list.

Measures of an episode: `success`, 1 if the word was found and 0 otherwise; `information`,
1 - log(L) / log(N), where L words fit all marks at the end.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from arena_envs.game import (
    TERMINAL,
    Vector,
    check_split,
    filled,
    np,
    of_split,
    param,
)
from arena_envs.games.kits.secrets import MAX_ROWS, SecretGame, State, secret_cards
from arena_envs.games.kits.words import NAMES, check_used, read_words
from arena_envs.scenes.shapes import Cell, Grid, Shapes

MARKS = "-YG"  # digits 0, 1 and 2 of an answer to base 3, from the first letter on
GRAY, YELLOW, GREEN = range(3)
MAX_ANSWERS = 200_000  # that are cached: of all pairs of the shipped words
PREFIXES = ("i guess ", "my guess is ", "guess ")
MIN_LETTERS, MAX_LETTERS = 2, 8


@dataclass(frozen=True)
class Wordle(SecretGame):
    """Wordle.

    Args:
        num_words: words that may be drawn and guessed, the first of the list; at least 2.
        max_guesses: 1 to `num_words`.
        words: "five_letters"; or the path of a file with one word per line; or the words. All
            have the same number of letters, 2 to 8.
        split: "train" or "test": the half of the shipped list that words are drawn from.

    Raises:
        ValueError: a parameter is out of range, or the list has an empty or malformed word, a
            word twice, or words of different lengths.
    """

    num_words: int = param(50, knob=(10, 20, 50, 100, 200))
    max_guesses: int = param(6, 1, lambda game: game.num_words)
    words: str | Path | Sequence[str] = "five_letters"
    split: str = "train"
    default_value = "optimal play 0.786667; uniform random play 0.07"
    is_spelled = True

    def __post_init__(self) -> None:
        words = read_words("words", self.words, min_words=2)
        if self.words not in NAMES:  # so that records hold the words themselves
            object.__setattr__(self, "words", words)
        for number, word in enumerate(words, 1):
            fits = word.isalpha() and MIN_LETTERS <= len(word) <= MAX_LETTERS
            if not fits or len(word) != len(words[0]):
                raise ValueError(
                    f"want words of one length, {MIN_LETTERS} to {MAX_LETTERS} letters, got "
                    f"{word!r} as word {number} after {words[0]!r}: correct or delete it"
                )
        check_split(self.split, self.words in NAMES)
        length = len(self._half)
        check_used("num_words", self.num_words, 2, "words", length)
        super().__post_init__()

    @cached_property
    def listed(self) -> tuple[str, ...]:
        """The words of this game, in alphabetical order."""
        return tuple(sorted(self._half[: self.num_words]))

    @property
    def _half(self) -> Sequence[str]:
        """The words of the split, in random order; all words of another list."""
        words = read_words("words", self.words)
        return of_split(words, self.split) if self.words in NAMES else words

    @property
    def instances(self) -> Sequence[str]:
        return self.listed if self.words in NAMES else ()

    @property
    def num_secrets(self) -> int:
        return self.num_words

    @property
    def num_actions(self) -> int:
        return self.num_words

    @property
    def max_turns(self) -> int:
        return self.max_guesses

    def answer(self, secret: int, action: int) -> int:
        """The marks as a number to base 3."""
        return marks(self.listed[secret], self.listed[action])

    def guess_of(self, secret: int) -> int:
        return secret

    def observe(self, state: State, seat: int) -> str:
        pairs = zip(state.asked, self.answers(state), strict=True)
        lines = [
            f"Guess {turn}: {self.listed[action]}, marks {self.marks_text(answer)}"
            for turn, (action, answer) in enumerate(pairs, 1)
        ]
        if self.current_player(state) == TERMINAL:
            word = self.listed[state.secret]
            last = f"The word was: {word}. {self.end_text(state)}"
        else:
            turn = f"guess {len(lines) + 1} of {self.max_guesses}"
            last = f"You are to make {turn}: one of the listed words."
        guess_lines = lines or ["You have not guessed yet."]
        return "\n".join(["You are player_0.", *guess_lines, last])

    def marks_text(self, answer: int) -> str:
        """The marks of an answer, such as "G - Y - -"."""
        return " ".join(MARKS[digit] for digit in self.digits(answer))

    def digits(self, answer: int) -> list[int]:
        """The marks of an answer as numbers, from the first letter on."""
        return [answer // 3**place % 3 for place in range(len(self.listed[0]))]

    def features(self, state: State, seat: int) -> Vector:
        """For each guess and each of its letters, one-hot letter (26) and mark (3)."""
        length = len(self.listed[0])
        values = np.zeros((self.max_guesses, length, 29), np.float32)
        pairs = zip(state.asked, self.answers(state), strict=True)
        for row, (action, answer) in enumerate(pairs):
            word = self.listed[action]
            for place, mark in enumerate(self.digits(answer)):
                values[row, place, ord(word[place]) - ord("a")] = 1
                values[row, place, 26 + mark] = 1
        return values.ravel()

    def action_text(self, state: State, action: int) -> str:
        return self.listed[action]

    def action_named(self, text: str) -> int | None:
        """Reads "crane", "guess crane" and "I guess crane"."""
        for prefix in PREFIXES:
            text = text.removeprefix(prefix)
        return self.actions_by_text.get(text)

    def rules(self, seat: int) -> str:
        first, scores = self.listed[0], self.scores_text("guess number t is right")
        return filled("wordle", self, first=first, length=len(first), scores=scores)


@lru_cache(MAX_ANSWERS)
def marks(word: str, guess: str) -> int:
    """The marks of a guess as a number to base 3, its first digit being that of the first letter.

    >>> marks("abbey", "babes")  # Y Y G G -
    76
    """
    unused = Counter(a for a, b in zip(word, guess, strict=True) if a != b)
    number = 0
    for place, (letter, guessed) in enumerate(zip(word, guess, strict=True)):
        mark = GRAY
        if letter == guessed:
            mark = GREEN
        elif unused[guessed]:
            mark = YELLOW
            unused[guessed] -= 1
        number += mark * 3**place
    return number


TONES = ("gone", "yellow", "green")  # of marks, by their number


def scene(game: Wordle, state: State, viewer: int | None) -> Shapes:
    """The guesses with the colors of their letters, and the word."""
    latest_guesses = list(zip(state.asked, game.answers(state), strict=True))[
        -MAX_ROWS:
    ]
    rows, labels = [], []
    for action, answer in latest_guesses:
        marks = zip(game.listed[action].upper(), game.digits(answer), strict=True)
        rows.append([Cell(letter, TONES[mark]) for letter, mark in marks])
        labels.append(game.marks_text(answer).replace(" ", ""))
    num_free = min(game.max_turns - len(state.asked), MAX_ROWS - len(rows))
    rows += [[Cell()] * len(game.listed[0])] * num_free
    title = "guesses; G, green: in this place; Y, yellow: in another place"
    board = Grid(rows, title, labels + [""] * num_free)
    return [secret_cards(game, state, viewer, "word", game.listed[state.secret]), board]
